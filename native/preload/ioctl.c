/* ioctl and mmap on emulated files: the argument, and what it points to, goes to the server and comes back. */
#include "preload.h"
#include "arguments.h"
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KNOWN = 64 };

/* ---------------------------------------------------------------------------- which sockets are emulated files */

/* inode << 24 | (value + 1): what the server said. Inode numbers of sockets are not used twice within 2^32. */
static _Atomic uint64_t known[KNOWN];

void remember_file(uint64_t inode, uint64_t value) {
    if (inode < 1ull << 40 && value < (1u << 24) - 1) atomic_store(&known[inode % KNOWN], inode << 24 | (value + 1));
}

int64_t file_of_socket(uint64_t inode) {
    uint64_t entry = atomic_load_explicit(&known[inode % KNOWN], memory_order_relaxed);
    if (entry >> 24 == inode) return (int64_t)(entry & 0xffffff) - 1;
    struct request_header request = {.op = OP_KIND, .file = inode};
    struct iovec part = {&request, sizeof request};
    struct reply_header reply;
    int descriptor;
    if (call_server(&part, 1, -1, &reply, NULL, 0, &descriptor) < 0) return -1;
    remember_file(inode, reply.value);
    return (int64_t)reply.value;
}

/* ------------------------------------------------------------------------------------------------- ioctl */

static void store_received(const struct ioctl_rule *rule, char *bytes, int descriptor, int keep) {
    int at = descriptor_out_at(rule);
    if (!keep) fcntl(descriptor, F_SETFD, 0);
    if (at >= 0) memcpy(bytes + at, &descriptor, sizeof descriptor);
    else syscall(SYS_close, descriptor);
}

/* The reply, into the program's memory. */
static int hand_back(const struct ioctl_rule *rule, unsigned long request, char *argument, const struct payload *payload,
                     char *reply, size_t length, int received, int keep) {
    unsigned size = _IOC_SIZE(request);
    int result = 0, has_answer = length >= size && _IOC_DIR(request) & _IOC_READ;
    if (has_answer) result = fill_outputs(rule, payload->bytes, reply + size, length - size);
    else memcpy(reply, payload->bytes, size);
    if (received >= 0) store_received(rule, reply, received, keep);
    if (has_answer || received >= 0) {
        int written = write_user(argument, reply, size);
        if (written != 0) result = written;
    }
    if (result != 0 && received >= 0 && descriptor_out_at(rule) >= 0) syscall(SYS_close, received);
    return result;
}

static int exchange(int file_descriptor, uint64_t file, const struct ioctl_rule *rule, unsigned long request, char *argument) {
    struct payload payload = {0};
    char reply_bytes[1024], *into = reply_bytes;
    append_inputs(&payload, rule, argument, _IOC_SIZE(request));
    if (payload.failed) { free(payload.bytes); return payload.failed; }
    size_t room = _IOC_SIZE(request) + room_behind(rule, payload.bytes);
    if (room > sizeof reply_bytes) into = malloc(room);
    int result = -ENOMEM, sent = descriptor_in(rule, payload.bytes, payload.size), received = -1;
    struct reply_header reply = {0};
    struct request_header header = {.op = OP_IOCTL, .length = (uint32_t)payload.size, .file = file, .a = request,
                                    .b = sizeof(void *)};
    struct iovec parts[] = {{&header, sizeof header}, {payload.bytes, payload.size}};
    if (sent == -2) result = -EBADF;
    else if (into) result = call_server(parts, 2, sent, &reply, into, room, &received);
    if (into && (reply.length || received >= 0)) {
        int problem = hand_back(rule, request, argument, &payload, into, reply.length, received,
                                (int)(reply.value & CLOSE_ON_EXEC));
        if (problem) result = problem;
    }
    char byte;
    if (reply.value & TAKE_BYTE && recv(file_descriptor, &byte, 1, MSG_DONTWAIT) < 0) { /* it only keeps poll right */ }
    if (into != reply_bytes) free(into);
    free(payload.bytes);
    return result;
}

static int forward(int descriptor, uint64_t file, unsigned kind, unsigned long request, void *argument) {
    if (_IOC_SIZE(request) && !argument) { errno = EFAULT; return -1; }
    int result = exchange(descriptor, file, find_rule(kind, request), request, argument);
    if (result >= 0) return result;
    errno = -result;
    return -1;
}

enum { NOT_OURS = -2 };

/* The result of an ioctl on an emulated file; NOT_OURS: it is for the kernel. */
static int emulated_ioctl(int descriptor, unsigned long request, void *argument) {
    struct stat64 status;
    if (!_IOC_TYPE(request) || !strchr(IOCTL_TYPES, (int)_IOC_TYPE(request)) || !is_active()) return NOT_OURS;
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) != 0) return -1; /* EBADF */
    if (S_ISSOCK(status.st_mode)) {
        int64_t file = file_of_socket(status.st_ino);
        if (file >= 0) return forward(descriptor, status.st_ino, (unsigned)file & NO_KIND, request, argument);
    } else if (S_ISREG(status.st_mode) && _IOC_TYPE(request) == BUFFER_TYPE) {
        return forward(descriptor, status.st_ino | BUFFER_KEY, KIND_DMA_BUF, request, argument);
    }
    return NOT_OURS;
}

#define ARGUMENT(last) ({ va_list list; va_start(list, last); void *given = va_arg(list, void *); va_end(list); given; })

EXPORT int ioctl(int descriptor, unsigned long request, ...) {
    void *argument = ARGUMENT(request);
    int result = emulated_ioctl(descriptor, request, argument);
    return result == NOT_OURS ? NEXT(ioctl)(descriptor, request, argument) : result;
}

#if UINTPTR_MAX == UINT32_MAX
/* What programs compiled with _TIME_BITS=64 call; no ioctl of ours has times. */
EXPORT int __ioctl_time64(int descriptor, unsigned long request, ...) {
    static void *cache;
    void *argument = ARGUMENT(request);
    int result = emulated_ioctl(descriptor, request, argument);
    if (result != NOT_OURS) return result;
    return ((int (*)(int, unsigned long, ...))next_symbol(&cache, "__ioctl_time64"))(descriptor, request, argument);
}
#endif

/* -------------------------------------------------------------------------------------------------- mmap */

/* The server says what to map instead; mmap of a socket has failed with ENODEV before. */
static void *map_file(void *at, size_t length, int protection, int flags, int descriptor, uint64_t offset) {
    struct stat64 status;
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) != 0 || !S_ISSOCK(status.st_mode)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    struct request_header request = {.op = OP_MMAP, .file = status.st_ino, .a = offset, .b = length};
    struct iovec part = {&request, sizeof request};
    struct reply_header reply;
    int received, result = call_server(&part, 1, -1, &reply, NULL, 0, &received);
    if (result < 0 || received < 0) { /* ENOENT: a socket, but not one of these */
        errno = result < 0 && result != -ENOENT ? -result : ENODEV;
        return MAP_FAILED;
    }
    off64_t place = (off64_t)(reply.value & ~(uint64_t)NOT_INHERITED);
    void *mapped = NEXT(mmap64)(at, length, protection, flags, received, place);
    int saved = errno;
    if (mapped != MAP_FAILED && reply.value & NOT_INHERITED) madvise(mapped, length, MADV_DONTFORK);
    syscall(SYS_close, received);
    errno = saved;
    return mapped;
}

static int is_mapped_by_us(void *mapped, int flags) {
    return mapped == MAP_FAILED && errno == ENODEV && !(flags & MAP_ANONYMOUS) && is_active();
}

EXPORT void *mmap(void *at, size_t length, int protection, int flags, int descriptor, off_t offset) {
    void *mapped = NEXT(mmap)(at, length, protection, flags, descriptor, offset);
    if (!is_mapped_by_us(mapped, flags)) return mapped;
    return map_file(at, length, protection, flags, descriptor, (unsigned long)offset);
}

EXPORT void *mmap64(void *at, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    void *mapped = NEXT(mmap64)(at, length, protection, flags, descriptor, offset);
    if (!is_mapped_by_us(mapped, flags)) return mapped;
    return map_file(at, length, protection, flags, descriptor, (uint64_t)offset);
}
