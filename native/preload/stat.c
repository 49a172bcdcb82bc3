/* What a program is told about emulated files: nodes look like devices, not like the sockets that they are. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A socket in the tree, or one that the server gave us. */
static const struct node *node_of(const struct stat *status) {
    const struct node *node = find_node(status);
    if (node || !S_ISSOCK(status->st_mode) || !is_active()) return node;
    int64_t file = file_of_socket(status->st_ino);
    return file < 0 ? NULL : node_number((unsigned)(file >> KIND_BITS));
}

static int show(int result, struct stat *status) {
    if (result != 0 || !S_ISSOCK(status->st_mode)) return result;
    const struct node *node = node_of(status);
    if (node) status->st_mode = node->mode, status->st_rdev = node->device, status->st_ino = node->inode;
    return result;
}

static int stat_path(int folder, const char *path, struct stat *status, int flags) {
    char buffer[MAX_PATH];
    return show(real_stat(folder, redirect(path, buffer), status, flags), status);
}

static int stat_descriptor(int descriptor, struct stat *status) {
    return show(real_stat(descriptor, "", status, AT_EMPTY_PATH), status);
}

EXPORT int stat(const char *path, struct stat *status) { return stat_path(AT_FDCWD, path, status, 0); }
EXPORT int lstat(const char *path, struct stat *status) {
    return stat_path(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fstat(int descriptor, struct stat *status) { return stat_descriptor(descriptor, status); }
EXPORT int fstatat(int folder, const char *path, struct stat *status, int flags) {
    return stat_path(folder, path, status, flags);
}

EXPORT int stat64(const char *path, struct stat64 *status) { return stat(path, (struct stat *)status); }
EXPORT int lstat64(const char *path, struct stat64 *status) { return lstat(path, (struct stat *)status); }
EXPORT int fstat64(int descriptor, struct stat64 *status) { return fstat(descriptor, (struct stat *)status); }
EXPORT int fstatat64(int folder, const char *path, struct stat64 *status, int flags) {
    return fstatat(folder, path, (struct stat *)status, flags);
}

/* The names under which programs built before glibc 2.33 know them. */
EXPORT int __xstat(int version, const char *path, struct stat *status) { (void)version; return stat(path, status); }
EXPORT int __lxstat(int version, const char *path, struct stat *status) { (void)version; return lstat(path, status); }
EXPORT int __fxstat(int version, int descriptor, struct stat *status) {
    (void)version;
    return fstat(descriptor, status);
}
EXPORT int __fxstatat(int version, int folder, const char *path, struct stat *status, int flags) {
    (void)version;
    return fstatat(folder, path, status, flags);
}
EXPORT int __xstat64(int version, const char *path, struct stat64 *status) {
    (void)version;
    return stat64(path, status);
}
EXPORT int __lxstat64(int version, const char *path, struct stat64 *status) {
    (void)version;
    return lstat64(path, status);
}
EXPORT int __fxstat64(int version, int descriptor, struct stat64 *status) {
    (void)version;
    return fstat64(descriptor, status);
}
EXPORT int __fxstatat64(int version, int folder, const char *path, struct stat64 *status, int flags) {
    (void)version;
    return fstatat64(folder, path, status, flags);
}

EXPORT int statx(int folder, const char *path, int flags, unsigned mask, struct statx *status) {
    char buffer[MAX_PATH];
    int result = (int)syscall(SYS_statx, folder, redirect(path, buffer), flags, mask, status);
    if (result != 0 || !S_ISSOCK(status->stx_mode)) return result;
    struct stat plain = {.st_mode = status->stx_mode, .st_ino = status->stx_ino,
                         .st_dev = makedev(status->stx_dev_major, status->stx_dev_minor)};
    const struct node *node = node_of(&plain);
    if (!node) return result;
    status->stx_mode = (uint16_t)node->mode, status->stx_ino = node->inode;
    status->stx_rdev_major = major(node->device), status->stx_rdev_minor = minor(node->device);
    return result;
}
