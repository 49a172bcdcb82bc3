/* ioctl and mmap on emulated files: the argument, and what it points to, goes to the server and comes back. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

/* ------------------------------------------------------------------------------ what an argument points to */

struct payload { char *bytes; size_t size, room; int failed; };

static void append(struct payload *payload, const void *bytes, size_t size) {
    if (payload->failed) return;
    if (payload->size + size > payload->room) {
        size_t room = payload->room * 2 + size + 256;
        char *larger = payload->size + size > MAX_PAYLOAD ? NULL : realloc(payload->bytes, room);
        if (!larger) { payload->failed = 1; return; }
        payload->bytes = larger, payload->room = room;
    }
    memcpy(payload->bytes + payload->size, bytes, size);
    payload->size += size;
}

static uint64_t number_at(const char *bytes, unsigned at, unsigned width) {
    uint64_t value = 0;
    memcpy(&value, bytes + at, width);
    return value;
}

static char *pointer_at(const char *bytes, unsigned at) { return (char *)(uintptr_t)number_at(bytes, at, 8); }

static void append_arrays(struct payload *payload, const struct array_rule *rules, int count, const char *bytes) {
    for (const struct array_rule *rule = rules; rule < rules + count; rule++) {
        if (rule->out) continue;
        uint64_t stride = rule->stride == NO_FIELD ? rule->element : number_at(bytes, rule->stride, 4);
        uint64_t elements = number_at(bytes, rule->count, rule->count_bytes);
        const char *array = pointer_at(bytes, rule->at);
        /* Elements that are too small are the driver's to refuse; there is nothing to look into. */
        int usable = array && stride >= rule->element && elements <= MAX_PAYLOAD && stride <= MAX_PAYLOAD;
        uint64_t total = usable ? elements * stride : 0;
        uint32_t length = (uint32_t)total;
        if (total > MAX_PAYLOAD) { payload->failed = 1; return; }
        append(payload, &length, sizeof length);
        append(payload, array, length);
        if (!rule->children) continue;
        for (uint64_t element = 0; usable && element < elements && !payload->failed; element++)
            append_arrays(payload, array_rules + rule->child, rule->children, array + element * stride);
    }
}

/* How much the kernel may write behind the pointers. */
static size_t room_behind(const struct array_rule *rules, int count, const char *bytes) {
    size_t room = 0;
    for (const struct array_rule *rule = rules; rule < rules + count; rule++) {
        if (!rule->out) continue;
        uint64_t elements = number_at(bytes, rule->count, rule->count_bytes);
        room += sizeof(uint32_t) + (elements < 65536 ? (size_t)elements : 65536) * rule->element;
    }
    return room;
}

/* `bytes` is the argument as it was: it still says where the program wants things, and how much it has room for. */
static void fill_arrays(const struct array_rule *rules, int count, const char *bytes, const char *from, size_t size) {
    for (const struct array_rule *rule = rules; rule < rules + count; rule++) {
        uint32_t length;
        if (!rule->out) continue;
        if (size < sizeof length) return;
        memcpy(&length, from, sizeof length);
        from += sizeof length, size -= sizeof length;
        if (length > size) return;
        uint64_t room = number_at(bytes, rule->count, rule->count_bytes) * rule->element;
        char *target = pointer_at(bytes, rule->at);
        if (target) memcpy(target, from, length < room ? length : room);
        from += length, size -= length;
    }
}

/* ------------------------------------------------------------------------------------------------- ioctl */

/* An argument that is too short to hold what the rules speak of goes as it is. */
static const struct ioctl_rule *find_rule(unsigned kind, unsigned long request) {
    static const struct ioctl_rule none;
    if (kind >= sizeof kind_rules / sizeof *kind_rules) return &none;
    const struct ioctl_rule *rule = ioctl_rules + kind_rules[kind].ioctl;
    for (int left = kind_rules[kind].ioctls; left; left--, rule++)
        if (rule->type == _IOC_TYPE(request) && rule->number == _IOC_NR(request))
            return _IOC_SIZE(request) >= rule->least ? rule : &none;
    return &none;
}

static int descriptor_to_send(const struct ioctl_rule *rule, const char *bytes) {
    const struct descriptor_rule *item = descriptor_rules + rule->descriptor;
    for (int left = rule->descriptors; left; left--, item++) {
        int descriptor = (int)number_at(bytes, item->at, 4);
        if (item->out || (item->when == WHEN_POSITIVE && descriptor <= 0)) continue;
        if (item->when == WHEN_FLAG && !(number_at(bytes, item->flags, 4) & item->mask)) continue;
        return descriptor < 0 ? -2 : descriptor;
    }
    return -1;
}

static void store_received(const struct ioctl_rule *rule, char *bytes, int descriptor, int keep) {
    const struct descriptor_rule *item = descriptor_rules + rule->descriptor;
    if (!keep) fcntl(descriptor, F_SETFD, 0);
    for (int left = rule->descriptors; left; left--, item++)
        if (item->out) { memcpy(bytes + item->at, &descriptor, sizeof descriptor); return; }
    syscall(SYS_close, descriptor);
}

static int exchange(uint64_t file, const struct ioctl_rule *rule, unsigned long request, char *argument) {
    unsigned size = _IOC_SIZE(request);
    struct payload payload = {0};
    char reply_bytes[1024], *into = reply_bytes;
    append_arrays(&payload, array_rules + rule->array, rule->arrays, argument);
    size_t room = size + room_behind(array_rules + rule->array, rule->arrays, argument);
    if (room > sizeof reply_bytes) into = malloc(room);
    int result = -ENOMEM, sent = descriptor_to_send(rule, argument), received = -1;
    struct reply_header reply = {0};
    struct request_header header = {.op = OP_IOCTL, .length = size + (uint32_t)payload.size, .file = file, .a = request};
    struct iovec parts[] = {{&header, sizeof header}, {argument, size}, {payload.bytes, payload.size}};
    if (sent == -2) result = -EBADF;
    else if (!payload.failed && into) result = call_server(parts, 3, sent, &reply, into, room, &received);
    if (reply.length >= size && _IOC_DIR(request) & _IOC_READ) {
        fill_arrays(array_rules + rule->array, rule->arrays, argument, into + size, reply.length - size);
        memcpy(argument, into, size);
    }
    if (received >= 0) store_received(rule, argument, received, (int)(reply.value & 1));
    if (into != reply_bytes) free(into);
    free(payload.bytes);
    return result;
}

static int forward(uint64_t file, unsigned kind, unsigned long request, void *argument) {
    if (_IOC_SIZE(request) && !argument) { errno = EFAULT; return -1; }
    int result = exchange(file, find_rule(kind, request), request, argument);
    if (result >= 0) return result;
    errno = -result;
    return -1;
}

EXPORT int ioctl(int descriptor, unsigned long request, ...) {
    struct stat status;
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (!_IOC_TYPE(request) || !strchr(IOCTL_TYPES, (int)_IOC_TYPE(request)) || !is_active())
        return NEXT(ioctl)(descriptor, request, argument);
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) != 0) return -1; /* EBADF */
    if (S_ISSOCK(status.st_mode)) {
        int64_t file = file_of_socket(status.st_ino);
        if (file >= 0) return forward(status.st_ino, (unsigned)file & NO_KIND, request, argument);
    } else if (S_ISREG(status.st_mode) && _IOC_TYPE(request) == BUFFER_TYPE) {
        return forward(status.st_ino | BUFFER_KEY, KIND_DMA_BUF, request, argument);
    }
    return NEXT(ioctl)(descriptor, request, argument);
}

/* -------------------------------------------------------------------------------------------------- mmap */

/* The server says what to map instead; mmap of a socket has failed with ENODEV before. */
static void *map_file(void *at, size_t length, int protection, int flags, int descriptor, off_t offset) {
    struct stat status;
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) != 0 || !S_ISSOCK(status.st_mode)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    struct request_header request = {.op = OP_MMAP, .file = status.st_ino, .a = (uint64_t)offset, .b = length};
    struct iovec part = {&request, sizeof request};
    struct reply_header reply;
    int received, result = call_server(&part, 1, -1, &reply, NULL, 0, &received);
    if (result < 0 || received < 0) { /* ENOENT: a socket, but not one of these */
        errno = result < 0 && result != -ENOENT ? -result : ENODEV;
        return MAP_FAILED;
    }
    void *mapped = NEXT(mmap)(at, length, protection, flags, received, (off_t)reply.value);
    int saved = errno;
    syscall(SYS_close, received);
    errno = saved;
    return mapped;
}

EXPORT void *mmap(void *at, size_t length, int protection, int flags, int descriptor, off_t offset) {
    void *mapped = NEXT(mmap)(at, length, protection, flags, descriptor, offset);
    if (mapped != MAP_FAILED || errno != ENODEV || flags & MAP_ANONYMOUS || !is_active()) return mapped;
    return map_file(at, length, protection, flags, descriptor, offset);
}

EXPORT void *mmap64(void *at, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    return mmap(at, length, protection, flags, descriptor, offset);
}
