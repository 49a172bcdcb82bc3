/*
 * A preload library that tells a recorder what a program asks of device drivers. The real kernel does all the work.
 *
 * It knows which devices are of interest (from a file that the recorder wrote) and where pointers and descriptors are
 * in the arguments of ioctls (tables.h, generated). It knows nothing of any device: before an ioctl the recorder gets
 * the argument and a copy of the program's descriptor, through which it can look at buffers by itself, and after it
 * the argument again with the result. A program whose recorder is gone goes on alone.
 */
#include "../preload/preload.h"
#include "../preload/arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEVICES = 16, MAX_FILE = 4096, NONE = -1 };

static struct { dev_t device; unsigned kind; } devices[MAX_DEVICES];
static int device_count;
static const char *folder;

const char *device_folder(void) { return folder; }

static void read_line(const char *line) {
    unsigned major, minor, kind;
    if (!strncmp(line, "version ", 8) && strcmp(line + 8, TABLES_VERSION) != 0) {
        fputs("openrknn: the spy library and the recorder are of different versions; install openrknn again\n", stderr);
        exit(127);
    }
    if (device_count == MAX_DEVICES || sscanf(line, "device %u %u %u", &major, &minor, &kind) != 3) return;
    devices[device_count].device = makedev(major, minor);
    devices[device_count++].kind = kind;
}

__attribute__((constructor)) static void load(void) {
    static char text[MAX_FILE];
    char path[MAX_PATH];
    const char *named = getenv(SPY_ENVIRONMENT);
    if (!named || !*named || snprintf(path, sizeof path, "%s/devices", named) >= (int)sizeof path) return;
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    ssize_t size = syscall(SYS_read, descriptor, text, sizeof text - 1);
    syscall(SYS_close, descriptor);
    for (char *line = text, *end; size > 0 && *line; line = end) {
        end = strchrnul(line, '\n');
        if (*end) *end++ = 0;
        read_line(line);
    }
    folder = strdup(named);
}

/* What the program would see, which is not what the kernel says if another library stands in between. */
static int visible_stat(int descriptor, struct stat64 *status) {
    static void *cache;
    int (*next)(int, struct stat64 *) = (int (*)(int, struct stat64 *))next_symbol(&cache, "fstat64");
    return next ? next(descriptor, status) : real_stat(descriptor, "", status, AT_EMPTY_PATH);
}

static int kind_of(int descriptor) {
    struct stat64 status;
    int saved = errno, kind = NONE;
    if (descriptor < 0 || !folder) return NONE;
    if (visible_stat(descriptor, &status) == 0 && S_ISCHR(status.st_mode))
        for (int number = 0; number < device_count; number++)
            if (devices[number].device == status.st_rdev) kind = (int)devices[number].kind;
    errno = saved;
    return kind;
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The value of the recorder's reply; 0 if there is none. */
static uint64_t tell(struct request_header *header, const void *payload, size_t size, int descriptor) {
    struct reply_header reply;
    int received;
    header->length = (uint32_t)size;
    struct iovec parts[] = {{header, sizeof *header}, {(void *)payload, size}};
    int result = call_server(parts, 2, descriptor, &reply, NULL, 0, &received);
    if (received >= 0) syscall(SYS_close, received);
    return result < 0 ? 0 : reply.value;
}

static uint64_t tell_before(int descriptor, const struct ioctl_rule *rule, unsigned kind, unsigned long request,
                            const void *argument) {
    struct payload payload = {0};
    uint64_t handed = 0, call = 0;
    append_inputs(&payload, rule, argument, _IOC_SIZE(request));
    int is_argument_there = payload.size >= _IOC_SIZE(request); /* if not, the kernel will say EFAULT */
    int also = is_argument_there ? descriptor_in(rule, payload.bytes, payload.size) : NONE;
    if (also >= 0) handed = tell(&(struct request_header){.op = OP_SPY_HAND}, NULL, 0, also);
    struct request_header header = {.op = OP_SPY_BEFORE, .file = handed, .a = request,
                                    .b = kind | sizeof(void *) << KIND_BITS};
    size_t size = payload.failed ? _IOC_SIZE(request) : payload.size;
    if (is_argument_there) call = tell(&header, payload.bytes, size, descriptor);
    free(payload.bytes);
    return call;
}

static void tell_after(uint64_t call, const struct ioctl_rule *rule, unsigned long request, const void *argument,
                       int64_t result, uint64_t elapsed) {
    int opened = NONE, at = descriptor_out_at(rule);
    if (result >= 0 && at >= 0) memcpy(&opened, (const char *)argument + at, sizeof opened);
    struct request_header header = {.op = OP_SPY_AFTER, .file = call, .a = (uint64_t)result, .b = elapsed};
    tell(&header, argument, _IOC_SIZE(request), opened >= 0 && fcntl(opened, F_GETFD) >= 0 ? opened : NONE);
}

typedef int ioctl_function(int, unsigned long, ...);

static int told_ioctl(ioctl_function *next, int descriptor, unsigned long request, void *argument) {
    int kind = NONE;
    if (_IOC_TYPE(request) && strchr(IOCTL_TYPES, (int)_IOC_TYPE(request)) && argument) kind = kind_of(descriptor);
    if (kind == NONE) return next(descriptor, request, argument);
    const struct ioctl_rule *rule = find_rule((unsigned)kind, request);
    uint64_t call = tell_before(descriptor, rule, (unsigned)kind, request, argument), started = nanoseconds();
    int result = next(descriptor, request, argument), saved = errno;
    if (call) tell_after(call, rule, request, argument, result < 0 ? -saved : result, nanoseconds() - started);
    errno = saved;
    return result;
}

#define ARGUMENT(last) ({ va_list list; va_start(list, last); void *given = va_arg(list, void *); va_end(list); given; })

EXPORT int ioctl(int descriptor, unsigned long request, ...) {
    void *argument = ARGUMENT(request);
    return told_ioctl(NEXT(ioctl), descriptor, request, argument);
}

#if UINTPTR_MAX == UINT32_MAX
/* What programs compiled with _TIME_BITS=64 call. */
EXPORT int __ioctl_time64(int descriptor, unsigned long request, ...) {
    static void *cache;
    void *argument = ARGUMENT(request);
    return told_ioctl((ioctl_function *)next_symbol(&cache, "__ioctl_time64"), descriptor, request, argument);
}
#endif

static void *told_map(void *mapped, size_t length, int flags, int descriptor, uint64_t offset) {
    int kind, saved = errno;
    if (mapped == MAP_FAILED || flags & MAP_ANONYMOUS || (kind = kind_of(descriptor)) == NONE) return mapped;
    struct request_header header = {.op = OP_SPY_MAP, .a = offset, .b = length, .file = (uint64_t)kind};
    tell(&header, NULL, 0, descriptor);
    errno = saved;
    return mapped;
}

EXPORT void *mmap(void *at, size_t length, int protection, int flags, int descriptor, off_t offset) {
    void *mapped = NEXT(mmap)(at, length, protection, flags, descriptor, offset);
    return told_map(mapped, length, flags, descriptor, (unsigned long)offset);
}

EXPORT void *mmap64(void *at, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    void *mapped = NEXT(mmap64)(at, length, protection, flags, descriptor, offset);
    return told_map(mapped, length, flags, descriptor, (uint64_t)offset);
}

EXPORT int close(int descriptor) {
    int kind = kind_of(descriptor), result = NEXT(close)(descriptor), saved = errno;
    if (kind != NONE) tell(&(struct request_header){.op = OP_SPY_CLOSE}, NULL, 0, NONE);
    errno = saved;
    return result;
}
