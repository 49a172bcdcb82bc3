/* Memory of the program, which may not be there: where the kernel would say EFAULT, so must we. */
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MASK_BYTES = 8, CHUNK = 32768 };

/* The kernel reads the mask before it looks at what to do with it: EFAULT, or EINVAL because -1 means nothing. */
static int is_page_readable(uintptr_t address) {
    int saved = errno;
    long result = syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)(MASK_BYTES - 1), NULL, MASK_BYTES);
    int is_there = result == 0 || errno != EFAULT;
    errno = saved;
    return is_there;
}

int is_readable(const void *memory, size_t size) {
    uintptr_t first = (uintptr_t)memory, last = first + size - 1;
    if (!size) return 1;
    if (last < first) return 0;
    for (uintptr_t page = first; page <= last; page = (page | (PAGE - 1)) + 1) {
        if (!is_page_readable(page)) return 0;
        if ((page | (PAGE - 1)) == UINTPTR_MAX) break;
    }
    return 1;
}

int is_readable_text(const char *text) {
    for (;;) {
        size_t rest = PAGE - ((uintptr_t)text & (PAGE - 1));
        if (!is_page_readable((uintptr_t)text)) return 0;
        if (memchr(text, 0, rest)) return 1;
        text += rest;
    }
}

int read_user(void *into, const void *from, size_t size) {
    if (!is_readable(from, size)) return -EFAULT;
    if (size) memcpy(into, from, size);
    return 0;
}

/* Through a pipe: read(2) is the kernel's, and it finds out whether the memory may be written. */
int write_user(void *into, const void *from, size_t size) {
    int ends[2], saved = errno, result = 0;
    if (!size) return 0;
    if (syscall(SYS_pipe2, ends, O_CLOEXEC) != 0) { /* no descriptor left: trust the program */
        errno = saved;
        if (!is_readable(into, size)) return -EFAULT;
        memcpy(into, from, size);
        return 0;
    }
    for (size_t done = 0; done < size && !result;) {
        size_t part = size - done < CHUNK ? size - done : CHUNK;
        ssize_t written = syscall(SYS_write, ends[1], (const char *)from + done, part);
        for (ssize_t left = written; left > 0 && !result;) {
            ssize_t got = syscall(SYS_read, ends[0], (char *)into + done, (size_t)left);
            if (got <= 0) result = errno == EINTR ? 0 : -EFAULT;
            else done += (size_t)got, left -= got;
        }
        if (written < 0 && errno != EINTR) result = -EFAULT;
    }
    syscall(SYS_close, ends[0]);
    syscall(SYS_close, ends[1]);
    errno = saved;
    return result;
}
