/*
 * A preload library that shows the program an rknpu DRM device which computes nothing.
 *
 * The vendor's runtime can so load a model and submit it on a machine without an NPU. What it asks of the
 * kernel goes into a log (one JSON object per line), and at each SUBMIT the contents of all live buffers go
 * into files. Submitted tasks are marked as finished; no output is ever written.
 *
 * Environment:
 *   OPENRKNN_WITNESS_LOG       file of the log (required)
 *   OPENRKNN_WITNESS_DUMPS     folder for buffer contents (none: no dumps)
 *   OPENRKNN_WITNESS_HARDWARE  hardware version that the device reports (default: RK3588)
 *
 * The numbers below are the interface of the vendor's kernel driver (include/uapi: rknpu_ioctl.h and drm.h).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NR_VERSION = 0x00, NR_GEM_CLOSE = 0x09, NR_GEM_FLINK = 0x0a, NR_PRIME_EXPORT = 0x2d, NR_PRIME_IMPORT = 0x2e,
    NR_ACTION = 0x40, NR_SUBMIT = 0x41, NR_MEM_CREATE = 0x42, NR_MEM_MAP = 0x43, NR_MEM_DESTROY = 0x44,
    NR_MEM_SYNC = 0x45,
};
enum { ACTION_HARDWARE_VERSION = 0, ACTION_DRIVER_VERSION = 1, ACTION_FREQUENCY = 2, ACTION_IOMMU = 18 };
enum { MAX_BUFFERS = 4096, MAX_FILES = 1024, RANGES = 5, PAGE = 4096 };

#define HARDWARE_RK3588 0x46495245u
#define DRIVER_VERSION 908u /* 0.9.8 */
#define TOP_ADDRESS 0xfff00000u
#define OBJECT_BASE 0xffffff8000000000ull

struct drm_version_args {
    int major, minor, patch;
    size_t name_length; char *name;
    size_t date_length; char *date;
    size_t text_length; char *text;
};
struct action_args { uint32_t number, value; };
struct create_args { uint32_t handle, flags; uint64_t size, object, address; };
struct map_args { uint32_t handle, reserved; uint64_t offset; };
struct destroy_args { uint32_t handle, reserved; uint64_t object; };
struct sync_args { uint32_t flags, reserved; uint64_t object, offset, size; };
struct flink_args { uint32_t handle, name; };
struct prime_args { uint32_t handle, flags; int32_t fd; };
struct core_range { uint32_t start, count; };
struct submit_args {
    uint32_t flags, timeout, task_start, task_count, task_counter; int32_t priority;
    uint64_t task_object, reserved, task_base; int64_t elapsed;
    uint32_t core_mask; int32_t fence;
    struct core_range cores[RANGES];
};
struct task {
    uint32_t flags, operation, enable_mask, interrupt_mask, interrupt_clear, interrupt_status, amount, offset;
    uint64_t command_address;
} __attribute__((packed));

struct buffer {
    int live, fd;
    uint64_t size, address;
    uint8_t *bytes;
    uint8_t *dumped; /* what the newest dump holds, so that unchanged contents are not written again */
    int versions;
};

static struct buffer buffers[MAX_BUFFERS];
static int next_handle = 1;
static int submits;
static uint64_t next_address = TOP_ADDRESS;
static char is_device[MAX_FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---------------------------------------------------------------------------------------------- the log */

static void note(const char *format, ...) {
    static FILE *log;
    if (!log) {
        const char *path = getenv("OPENRKNN_WITNESS_LOG");
        log = path ? fopen(path, "a") : NULL;
        if (!log) { fputs("openrknn witness: OPENRKNN_WITNESS_LOG is not a writable file\n", stderr); abort(); }
    }
    va_list list;
    va_start(list, format);
    vfprintf(log, format, list);
    va_end(list);
    fflush(log); /* the runtime may crash at any time; what it asked before must be on file */
}

/* ---------------------------------------------------------------------------------------------- buffers */

static struct buffer *find_buffer(uint32_t handle) {
    return handle > 0 && handle < (uint32_t)next_handle && buffers[handle].live ? &buffers[handle] : NULL;
}

static uint32_t hardware_version(void) {
    const char *text = getenv("OPENRKNN_WITNESS_HARDWARE");
    return text ? (uint32_t)strtoul(text, NULL, 0) : HARDWARE_RK3588;
}

static int fail(int code) { errno = code; return -1; }

static void *real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "mmap");
    return next(at, length, protection, flags, fd, offset);
}

static int mem_create(struct create_args *args) {
    uint64_t size = (args->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (next_handle == MAX_BUFFERS || size == 0 || size > next_address) return fail(ENOMEM);
    int fd = memfd_create("rknpu-buffer", 0);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) return -1;
    void *bytes = real_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return -1;
    next_address -= size;
    int handle = next_handle++;
    buffers[handle] = (struct buffer){.live = 1, .fd = fd, .size = size, .address = next_address, .bytes = bytes};
    note("{\"event\": \"create\", \"handle\": %d, \"flags\": %u, \"requested\": %llu, \"size\": %llu, "
         "\"address\": %llu}\n",
         handle, args->flags, (unsigned long long)args->size, (unsigned long long)size,
         (unsigned long long)next_address);
    *args = (struct create_args){handle, args->flags, size, OBJECT_BASE + handle, next_address};
    return 0;
}

static int mem_destroy(uint32_t handle, const char *event) {
    note("{\"event\": \"%s\", \"handle\": %u}\n", event, handle);
    struct buffer *buffer = find_buffer(handle);
    if (!buffer) return fail(EINVAL);
    munmap(buffer->bytes, buffer->size);
    close(buffer->fd);
    free(buffer->dumped);
    *buffer = (struct buffer){0};
    return 0;
}

static int mem_map(struct map_args *args) {
    if (!find_buffer(args->handle)) return fail(EINVAL);
    args->offset = (uint64_t)args->handle << 32; /* mmap finds the buffer by this */
    note("{\"event\": \"map\", \"handle\": %u}\n", args->handle);
    return 0;
}

static int mem_sync(const struct sync_args *args) {
    note("{\"event\": \"sync\", \"handle\": %llu, \"flags\": %u, \"offset\": %llu, \"size\": %llu}\n",
         (unsigned long long)(args->object - OBJECT_BASE), args->flags, (unsigned long long)args->offset,
         (unsigned long long)args->size);
    return 0;
}

static int prime_export(struct prime_args *args) {
    struct buffer *buffer = find_buffer(args->handle);
    if (!buffer) return fail(EINVAL);
    args->fd = dup(buffer->fd);
    note("{\"event\": \"export\", \"handle\": %u, \"fd\": %d}\n", args->handle, args->fd);
    return 0;
}

static int prime_import(struct prime_args *args) {
    struct stat wanted, own;
    if (fstat(args->fd, &wanted) != 0) return -1;
    for (int handle = 1; handle < next_handle; handle++)
        if (buffers[handle].live && fstat(buffers[handle].fd, &own) == 0 && own.st_ino == wanted.st_ino) {
            args->handle = handle;
            note("{\"event\": \"import\", \"handle\": %d, \"fd\": %d}\n", handle, args->fd);
            return 0;
        }
    return fail(EINVAL);
}

/* ---------------------------------------------------------------------------------------------- submits */

static void dump_buffer(int handle, const char *folder) {
    struct buffer *buffer = &buffers[handle];
    if (buffer->dumped && memcmp(buffer->dumped, buffer->bytes, buffer->size) == 0) return;
    if (!buffer->dumped) buffer->dumped = malloc(buffer->size);
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%d", folder, handle, buffer->versions);
    FILE *file = fopen(path, "wb");
    if (!file || !buffer->dumped || fwrite(buffer->bytes, 1, buffer->size, file) != buffer->size || fclose(file)) {
        fprintf(stderr, "openrknn witness: cannot write %s\n", path);
        abort();
    }
    memcpy(buffer->dumped, buffer->bytes, buffer->size);
    buffer->versions++;
}

static void note_buffers(void) {
    const char *folder = getenv("OPENRKNN_WITNESS_DUMPS"), *comma = "";
    for (int handle = 1; handle < next_handle; handle++) {
        if (!buffers[handle].live) continue;
        if (folder) dump_buffer(handle, folder);
        note("%s[%d, %d]", comma, handle, buffers[handle].versions - 1);
        comma = ", ";
    }
}

/* The kernel's rule: chips with one core use the plain fields; jobs for one or two cores use ranges 0 and 1, jobs for
 * three cores use ranges 2 to 4. */
static struct core_range range_of(const struct submit_args *args, int core) {
    int used = __builtin_popcount(args->core_mask);
    if (hardware_version() != HARDWARE_RK3588) return (struct core_range){args->task_start, args->task_count};
    return args->cores[used == 3 ? core + 2 : core];
}

/* As the kernel does it: the interrupt status goes into the last task of each core. */
static void finish_tasks(const struct buffer *buffer, const struct submit_args *args) {
    struct task *tasks = (struct task *)buffer->bytes;
    uint32_t mask = args->core_mask ? args->core_mask : 1; /* 0: the kernel chooses one */
    for (int core = 0; core < 3; core++) {
        struct core_range range = range_of(args, core);
        uint64_t last = (uint64_t)range.start + range.count - 1;
        if (!(mask >> core & 1) || !range.count || last >= buffer->size / sizeof *tasks) continue;
        tasks[last].interrupt_status = tasks[last].interrupt_mask;
    }
}

static int submit(struct submit_args *args) {
    uint32_t handle = (uint32_t)(args->task_object - OBJECT_BASE);
    note("{\"event\": \"submit\", \"index\": %d, \"flags\": %u, \"timeout\": %u, \"task_start\": %u, "
         "\"task_count\": %u, \"priority\": %d, \"task_handle\": %u, \"task_base\": %llu, "
         "\"core_mask\": %u, \"cores\": [",
         submits++, args->flags, args->timeout, args->task_start, args->task_count, args->priority, handle,
         (unsigned long long)args->task_base, args->core_mask);
    for (int core = 0; core < RANGES; core++)
        note("%s[%u, %u]", core ? ", " : "", args->cores[core].start, args->cores[core].count);
    note("], \"buffers\": [");
    note_buffers();
    note("]}\n");
    struct buffer *tasks = find_buffer(handle);
    if (!tasks) return fail(EINVAL);
    finish_tasks(tasks, args);
    args->task_counter = args->task_count;
    args->elapsed = 1000;
    return 0;
}

/* ------------------------------------------------------------------------------------- questions, dispatch */

static void answer_text(char *to, size_t *length, const char *text) {
    size_t full = strlen(text);
    if (to && *length) memcpy(to, text, *length < full ? *length : full);
    *length = full;
}

static int version(struct drm_version_args *args) {
    args->major = 0, args->minor = 9, args->patch = 8;
    answer_text(args->name, &args->name_length, "rknpu");
    answer_text(args->date, &args->date_length, "20240828");
    answer_text(args->text, &args->text_length, "RKNPU driver");
    note("{\"event\": \"version\"}\n");
    return 0;
}

static int action(struct action_args *args) {
    if (args->number == ACTION_HARDWARE_VERSION) args->value = hardware_version();
    else if (args->number == ACTION_DRIVER_VERSION) args->value = DRIVER_VERSION;
    else if (args->number == ACTION_FREQUENCY) args->value = 1000000000;
    else if (args->number == ACTION_IOMMU) args->value = 1;
    else args->value = 0;
    note("{\"event\": \"action\", \"number\": %u, \"value\": %u}\n", args->number, args->value);
    return 0;
}

static int dispatch(unsigned long request, void *args) {
    switch (_IOC_NR(request)) {
    case NR_VERSION: return version(args);
    case NR_ACTION: return action(args);
    case NR_SUBMIT: return submit(args);
    case NR_MEM_CREATE: return mem_create(args);
    case NR_MEM_MAP: return mem_map(args);
    case NR_MEM_DESTROY: return mem_destroy(((struct destroy_args *)args)->handle, "destroy");
    case NR_MEM_SYNC: return mem_sync(args);
    case NR_GEM_CLOSE: return mem_destroy(*(uint32_t *)args, "close");
    case NR_GEM_FLINK: ((struct flink_args *)args)->name = ((struct flink_args *)args)->handle; return 0;
    case NR_PRIME_EXPORT: return prime_export(args);
    case NR_PRIME_IMPORT: return prime_import(args);
    }
    note("{\"event\": \"unknown\", \"request\": %lu}\n", request);
    return fail(EINVAL);
}

/* -------------------------------------------------------------------------- the C library's names, replaced */

static int is_node(const char *path) {
    return path && (!strcmp(path, "/dev/dri/card1") || !strcmp(path, "/dev/dri/renderD129"));
}

static int open_node(const char *path) {
    int fd = memfd_create("rknpu-node", 0);
    if (fd < 0 || fd >= MAX_FILES) return fail(EMFILE);
    is_device[fd] = 1;
    note("{\"event\": \"open\", \"path\": \"%s\"}\n", path);
    return fd;
}

static int is_ours(int fd) { return fd >= 0 && fd < MAX_FILES && is_device[fd]; }

static int mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; }

int open(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    if (is_node(path)) return open_node(path);
    if (!next) next = dlsym(RTLD_NEXT, "open");
    return next(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int close(int fd) {
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "close");
    if (is_ours(fd)) is_device[fd] = 0;
    return next(fd);
}

int ioctl(int fd, unsigned long request, ...) {
    static int (*next)(int, unsigned long, ...);
    va_list list;
    va_start(list, request);
    void *args = va_arg(list, void *);
    va_end(list);
    if (is_ours(fd)) {
        pthread_mutex_lock(&lock);
        int result = dispatch(request, args);
        pthread_mutex_unlock(&lock);
        return result;
    }
    if (!next) next = dlsym(RTLD_NEXT, "ioctl");
    return next(fd, request, args);
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    if (!is_ours(fd)) return real_mmap(at, length, protection, flags, fd, offset);
    struct buffer *buffer = find_buffer((uint32_t)((uint64_t)offset >> 32));
    if (!buffer) { errno = EINVAL; return MAP_FAILED; }
    return real_mmap(at, length, protection, flags, buffer->fd, offset & 0xffffffff);
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset) __attribute__((alias("mmap")));
