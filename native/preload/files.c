/* Functions that take a path: the emulated ones are looked up in the tree, and nodes are opened by the server. */
#include "preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/xattr.h>
#include <unistd.h>

int open_node(int folder, const char *path, int flags) {
    struct stat64 status;
    const struct node *node;
    if (real_stat(folder, path, &status, 0) != 0 || !(node = find_node(&status))) { errno = ENXIO; return -1; }
    struct request_header request = {.op = OP_OPEN, .a = (uint64_t)number_of_node(node), .b = (uint64_t)(unsigned)flags};
    struct iovec part = {&request, sizeof request};
    struct reply_header reply;
    int descriptor, result = call_server(&part, 1, -1, &reply, NULL, 0, &descriptor);
    if (result < 0 || descriptor < 0) { errno = result < 0 ? -result : ENODEV; return -1; }
    if (!(flags & O_CLOEXEC)) fcntl(descriptor, F_SETFD, 0);
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) == 0 && S_ISSOCK(status.st_mode))
        remember_file(status.st_ino, reply.value);
    return descriptor;
}

/* Nobody can open a socket file: that is how a node shows, even below a relative path. */
static int or_node(int descriptor, int folder, const char *path, int flags) {
    return descriptor < 0 && errno == ENXIO && is_active() ? open_node(folder, path, flags) : descriptor;
}

static mode_t mode_argument(int flags, va_list list) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define MODE(last) ({ va_list list; va_start(list, last); mode_t mode = mode_argument(last, list); va_end(list); mode; })
#define REDIRECTED(path) char buffer[MAX_PATH]; const char *real = redirect(path, buffer)

EXPORT int open(const char *path, int flags, ...) {
    mode_t mode = MODE(flags);
    REDIRECTED(path);
    return or_node(NEXT(open)(real, flags, mode), AT_FDCWD, real, flags);
}

EXPORT int open64(const char *path, int flags, ...) {
    mode_t mode = MODE(flags);
    REDIRECTED(path);
    return or_node(NEXT(open64)(real, flags, mode), AT_FDCWD, real, flags);
}

EXPORT int openat(int folder, const char *path, int flags, ...) {
    mode_t mode = MODE(flags);
    REDIRECTED(path);
    return or_node(NEXT(openat)(folder, real, flags, mode), folder, real, flags);
}

EXPORT int openat64(int folder, const char *path, int flags, ...) {
    mode_t mode = MODE(flags);
    REDIRECTED(path);
    return or_node(NEXT(openat64)(folder, real, flags, mode), folder, real, flags);
}

EXPORT int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

EXPORT int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* What programs compiled with _FORTIFY_SOURCE call. */
EXPORT int __open_2(const char *path, int flags) { return open(path, flags); }
EXPORT int __open64_2(const char *path, int flags) { return open64(path, flags); }
EXPORT int __openat_2(int folder, const char *path, int flags) { return openat(folder, path, flags); }
EXPORT int __openat64_2(int folder, const char *path, int flags) { return openat64(folder, path, flags); }

static int flags_of_mode(const char *mode) {
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

static FILE *stream_of_node(const char *path, const char *mode) {
    int descriptor = open_node(AT_FDCWD, path, flags_of_mode(mode));
    return descriptor < 0 ? NULL : fdopen(descriptor, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    REDIRECTED(path);
    FILE *stream = NEXT(fopen)(real, mode);
    return stream || errno != ENXIO || real == path ? stream : stream_of_node(real, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
    REDIRECTED(path);
    FILE *stream = NEXT(fopen64)(real, mode);
    return stream || errno != ENXIO || real == path ? stream : stream_of_node(real, mode);
}

EXPORT DIR *opendir(const char *path) {
    REDIRECTED(path);
    return NEXT(opendir)(real);
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*select)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **)) {
    REDIRECTED(path);
    return NEXT(scandir)(real, list, select, compare);
}

EXPORT int scandir64(const char *path, struct dirent64 ***list, int (*select)(const struct dirent64 *),
                     int (*compare)(const struct dirent64 **, const struct dirent64 **)) {
    REDIRECTED(path);
    return NEXT(scandir64)(real, list, select, compare);
}

EXPORT int access(const char *path, int mode) {
    REDIRECTED(path);
    return NEXT(access)(real, mode);
}

EXPORT int faccessat(int folder, const char *path, int mode, int flags) {
    REDIRECTED(path);
    return NEXT(faccessat)(folder, real, mode, flags);
}

EXPORT int euidaccess(const char *path, int mode) {
    REDIRECTED(path);
    return NEXT(euidaccess)(real, mode);
}

EXPORT int eaccess(const char *path, int mode) { return euidaccess(path, mode); }

/* /proc/self/fd/N of an emulated file shows the node's path, and below an emulated folder the folder's. */
static ssize_t shown_link(const char *path, char *into, ssize_t length, size_t room) {
    char link[MAX_PATH];
    unsigned long long inode;
    int64_t file;
    const struct node *node = NULL;
    if (length <= 0 || length >= MAX_PATH || !is_active() || !path || strncmp(path, "/proc/", 6) != 0) return length;
    memcpy(link, into, (size_t)length);
    link[length] = 0;
    if (sscanf(link, "socket:[%llu]", &inode) == 1 && (file = file_of_socket(inode)) >= 0)
        node = node_number((unsigned)(file >> KIND_BITS));
    if (node) snprintf(link, sizeof link, "%s", node->path);
    else if (!strip_root(link)) return length;
    size_t size = strlen(link) < room ? strlen(link) : room;
    memcpy(into, link, size);
    return (ssize_t)size;
}

EXPORT ssize_t readlink(const char *path, char *into, size_t room) {
    REDIRECTED(path);
    return shown_link(path, into, NEXT(readlink)(real, into, room), room);
}

EXPORT ssize_t readlinkat(int folder, const char *path, char *into, size_t room) {
    REDIRECTED(path);
    return shown_link(path, into, NEXT(readlinkat)(folder, real, into, room), room);
}

EXPORT ssize_t __readlink_chk(const char *path, char *into, size_t room, size_t size) {
    if (room > size) abort();
    return readlink(path, into, room);
}

EXPORT char *realpath(const char *path, char *into) {
    REDIRECTED(path);
    char *result = NEXT(realpath)(real, into);
    if (result && real != path) strip_root(result);
    return result;
}

EXPORT char *__realpath_chk(const char *path, char *into, size_t size) {
    if (into && size < MAX_PATH) abort();
    return realpath(path, into);
}

EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }

EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size) {
    REDIRECTED(path);
    return NEXT(getxattr)(real, name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size) {
    REDIRECTED(path);
    return NEXT(lgetxattr)(real, name, value, size);
}

EXPORT ssize_t listxattr(const char *path, char *list, size_t size) {
    REDIRECTED(path);
    return NEXT(listxattr)(real, list, size);
}

EXPORT ssize_t llistxattr(const char *path, char *list, size_t size) {
    REDIRECTED(path);
    return NEXT(llistxattr)(real, list, size);
}

EXPORT int inotify_add_watch(int watcher, const char *path, uint32_t mask) {
    REDIRECTED(path);
    return NEXT(inotify_add_watch)(watcher, real, mask);
}

/* The literal folders in front of the first wildcard decide. */
static const char *redirected_pattern(const char *pattern, char *buffer) {
    char literal[MAX_PATH];
    size_t length = strcspn(pattern, "*?[\\{~");
    if (length >= sizeof literal) return pattern;
    memcpy(literal, pattern, length);
    literal[length] = 0;
    char *slash = strrchr(literal, '/');
    if (pattern[length] && slash) *slash = 0;
    const char *real = redirect(literal, buffer);
    if (real == literal) return pattern;
    size_t head = strlen(real), tail = strlen(pattern + strlen(literal));
    if (head + tail >= MAX_PATH) return pattern;
    memcpy(buffer + head, pattern + strlen(literal), tail + 1);
    return buffer;
}

EXPORT int glob(const char *pattern, int flags, int (*problem)(const char *, int), glob_t *found) {
    char buffer[MAX_PATH];
    const char *real = redirected_pattern(pattern, buffer);
    int result = NEXT(glob)(real, flags, problem, found);
    for (size_t number = 0; result == 0 && real != pattern && number < found->gl_pathc; number++)
        if (found->gl_pathv[found->gl_offs * !!(flags & GLOB_DOOFFS) + number])
            strip_root(found->gl_pathv[found->gl_offs * !!(flags & GLOB_DOOFFS) + number]);
    return result;
}

EXPORT int glob64(const char *pattern, int flags, int (*problem)(const char *, int), glob64_t *found) {
    return glob(pattern, flags, problem, (glob_t *)found); /* the same struct but for types of functions that are not called */
}

#if UINTPTR_MAX == UINT32_MAX
/* What programs compiled with _TIME_BITS=64 call. */
EXPORT int __glob64_time64(const char *pattern, int flags, int (*problem)(const char *, int), glob64_t *found) {
    return glob64(pattern, flags, problem, found);
}
#endif

static const char *library_path(const char *path, char *buffer) {
    const char *instead = opened_instead(path, buffer);
    return instead == path && path[0] == '/' ? redirect(path, buffer) : instead;
}

static __attribute__((noinline)) int is_redirected(const char *path) {
    char buffer[MAX_PATH];
    return library_path(path, buffer) != path;
}

static __attribute__((noinline)) void *load_redirected(const char *path, int mode) {
    char buffer[MAX_PATH];
    return NEXT(dlopen)(library_path(path, buffer), mode);
}

/* The loader looks at its caller (for $ORIGIN and run paths), so everything else must be a jump, not a call. */
EXPORT void *dlopen(const char *path, int mode) {
    static void *cache;
    void *(*next)(const char *, int) = next_symbol(&cache, "dlopen");
    if (path && is_redirected(path)) return load_redirected(path, mode);
    return next(path, mode);
}
