/* The names under which programs of 32-bit machines know stat if they were compiled with _TIME_BITS=64. */
#if __SIZEOF_POINTER__ == 4
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#define WITH_TIME64
#include "preload.h"

#define NEXT64(type, name) ((type)({ static void *cache; next_symbol(&cache, name); }))
#define REDIRECTED(path) char buffer[MAX_PATH]; const char *real = redirect(path, buffer)

typedef int of_path(const char *, struct stat *);
typedef int of_descriptor(int, struct stat *);
typedef int of_folder(int, const char *, struct stat *, int);

int __stat64_time64(const char *path, struct stat *status);
int __lstat64_time64(const char *path, struct stat *status);
int __fstat64_time64(int descriptor, struct stat *status);
int __fstatat64_time64(int folder, const char *path, struct stat *status, int flags);

static int show(int result, struct stat *status) {
    const struct node *node = result == 0 ? shown_node(status->st_mode, status->st_ino, status->st_dev) : NULL;
    if (node) status->st_mode = node->mode, status->st_rdev = node->device, status->st_ino = node->inode;
    return result;
}

EXPORT int __stat64_time64(const char *path, struct stat *status) {
    REDIRECTED(path);
    return show(NEXT64(of_path *, "__stat64_time64")(real, status), status);
}

EXPORT int __lstat64_time64(const char *path, struct stat *status) {
    REDIRECTED(path);
    return show(NEXT64(of_path *, "__lstat64_time64")(real, status), status);
}

EXPORT int __fstat64_time64(int descriptor, struct stat *status) {
    return show(NEXT64(of_descriptor *, "__fstat64_time64")(descriptor, status), status);
}

EXPORT int __fstatat64_time64(int folder, const char *path, struct stat *status, int flags) {
    REDIRECTED(path);
    return show(NEXT64(of_folder *, "__fstatat64_time64")(folder, real, status, flags), status);
}
#endif
