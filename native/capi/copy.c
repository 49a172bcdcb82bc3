/* Copies from and to the program's memory that the kernel checks: a wrong address is an error and no signal. */
#include "capi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNK = 4096 }; /* fits an empty pipe, and never blocks it */

/* Where the kernel does not let us copy in our own process (qemu-user, seccomp), a pipe does it. */
static atomic_int through_pipe;

/* Sanitizers look at buffers of the functions below before the kernel does; addresses may be wrong on purpose. */
#if (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)) && UINTPTR_MAX > 0xffffffff
#define PWRITE(file, data, size, at) syscall(SYS_pwrite64, file, data, size, at)
#define PREAD(file, data, size, at) syscall(SYS_pread64, file, data, size, at)
#define WRITE(file, data, size) syscall(SYS_write, file, data, size)
#define READ(file, data, size) syscall(SYS_read, file, data, size)
#else
#define PWRITE pwrite
#define PREAD pread
#define WRITE write
#define READ read
#endif

/* One chunk: written from `from`, read to `into`; either may be wrong. */
static int pipe_chunk(void *into, const void *from, size_t size) {
    int ends[2], result = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    ssize_t done;
    do done = WRITE(ends[1], from, size);
    while (done < 0 && errno == EINTR);
    if (done == (ssize_t)size) {
        do done = READ(ends[0], into, size);
        while (done < 0 && errno == EINTR);
        if (done == (ssize_t)size) result = 0;
    }
    close(ends[0]);
    close(ends[1]);
    return result;
}

static int copy(void *into, const void *from, size_t size, int reading) {
    if (!size) return 0;
    int saved = errno, result = 0;
    if (!atomic_load_explicit(&through_pipe, memory_order_relaxed)) {
        struct iovec here = {reading ? into : (void *)(uintptr_t)from, size};
        struct iovec there = {reading ? (void *)(uintptr_t)from : into, size};
        long done = syscall(reading ? SYS_process_vm_readv : SYS_process_vm_writev, (long)getpid(), &here, 1L, &there,
                            1L, 0L);
        if (done == (long)size) { errno = saved; return 0; }
        if (done >= 0 || errno == EFAULT) { errno = saved; return -1; }
        atomic_store(&through_pipe, 1);
    }
    for (size_t at = 0; at < size && result == 0; at += CHUNK)
        result = pipe_chunk((char *)into + at, (const char *)from + at, size - at < CHUNK ? size - at : CHUNK);
    errno = saved;
    return result;
}

int copy_in(void *into, const void *user, size_t size) { return copy(into, user, size, 1); }

int copy_out(void *user, const void *from, size_t size) { return copy(user, from, size, 0); }

int copy_text(char *into, size_t room, const char *user) {
    for (size_t length = 0; length < room;) {
        /* Up to the end of a page of any size: behind it there may be nothing. */
        size_t step = CHUNK - (uintptr_t)(user + length) % CHUNK;
        if (step > room - length) step = room - length;
        if (copy_in(into + length, user + length, step) != 0) return -1;
        char *end = memchr(into + length, 0, step);
        if (end) return (int)(end - into);
        length += step;
    }
    return -2;
}

int shared_file(const char *name) {
    return (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
}

int copy_to_file(int file, off_t at, const void *user, size_t size) {
    while (size) {
        ssize_t done = PWRITE(file, user, size, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        user = (const char *)user + done, at += done, size -= (size_t)done;
    }
    return 0;
}

int copy_from_file(int file, off_t at, void *user, size_t size) {
    while (size) {
        ssize_t done = PREAD(file, user, size, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        user = (char *)user + done, at += done, size -= (size_t)done;
    }
    return 0;
}

void close_quietly(int descriptor) {
    if (descriptor < 0) return;
    int saved = errno;
    close(descriptor);
    errno = saved;
}
