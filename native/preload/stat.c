/* What a program is told about emulated files: nodes look like devices, not like the sockets that they are. */
#include "preload.h"
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A socket in the tree, or one that the server gave us. */
static const struct node *node_of(const struct stat64 *status) {
    const struct node *node = find_node(status);
    if (node || !S_ISSOCK(status->st_mode) || !is_active()) return node;
    int64_t file = file_of_socket(status->st_ino);
    return file < 0 ? NULL : node_number((unsigned)(file >> KIND_BITS));
}

const struct node *shown_node(mode_t mode, uint64_t inode, dev_t device) {
    struct stat64 status = {.st_mode = mode, .st_ino = inode, .st_dev = device};
    return S_ISSOCK(mode) ? node_of(&status) : NULL;
}

static int show(int result, struct stat64 *status) {
    if (result != 0 || !S_ISSOCK(status->st_mode)) return result;
    const struct node *node = node_of(status);
    if (node) status->st_mode = node->mode, status->st_rdev = node->device, status->st_ino = node->inode;
    return result;
}

static int stat_path(int folder, const char *path, struct stat64 *status, int flags) {
    char buffer[MAX_PATH];
    return show(real_stat(folder, redirect(path, buffer), status, flags), status);
}

EXPORT int stat64(const char *path, struct stat64 *status) { return stat_path(AT_FDCWD, path, status, 0); }
EXPORT int lstat64(const char *path, struct stat64 *status) {
    return stat_path(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fstat64(int descriptor, struct stat64 *status) {
    return show(real_stat(descriptor, "", status, AT_EMPTY_PATH), status);
}
EXPORT int fstatat64(int folder, const char *path, struct stat64 *status, int flags) {
    return stat_path(folder, path, status, flags);
}

/* FILLED(status, call): `call` fills `wide`, and `status` gets what is in it. */
#if UINTPTR_MAX > UINT32_MAX
#define FILLED(status, call) ({ struct stat64 *wide = (struct stat64 *)(status); (call); })
#else
#define FILLED(status, call) ({ struct stat64 found, *wide = &found; narrow((call), &found, (status)); })

static int narrow(int result, const struct stat64 *from, struct stat *into) {
    struct stat plain = {
        .st_dev = from->st_dev, .st_ino = (ino_t)from->st_ino, .st_mode = from->st_mode, .st_nlink = from->st_nlink,
        .st_uid = from->st_uid, .st_gid = from->st_gid, .st_rdev = from->st_rdev, .st_size = (off_t)from->st_size,
        .st_blksize = from->st_blksize, .st_blocks = (blkcnt_t)from->st_blocks,
        .st_atim = from->st_atim, .st_mtim = from->st_mtim, .st_ctim = from->st_ctim,
    };
    if (result != 0) return result;
    if (plain.st_ino != from->st_ino || plain.st_size != from->st_size || plain.st_blocks != from->st_blocks) {
        errno = EOVERFLOW;
        return -1;
    }
    if (write_user(into, &plain, sizeof plain) == 0) return 0;
    errno = EFAULT;
    return -1;
}
#endif

EXPORT int stat(const char *path, struct stat *status) { return FILLED(status, stat64(path, wide)); }
EXPORT int lstat(const char *path, struct stat *status) { return FILLED(status, lstat64(path, wide)); }
EXPORT int fstat(int descriptor, struct stat *status) { return FILLED(status, fstat64(descriptor, wide)); }
EXPORT int fstatat(int folder, const char *path, struct stat *status, int flags) {
    return FILLED(status, fstatat64(folder, path, wide, flags));
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
    if (result != 0) return result;
    const struct node *node = shown_node(status->stx_mode, status->stx_ino,
                                         makedev(status->stx_dev_major, status->stx_dev_minor));
    if (!node) return result;
    status->stx_mode = (uint16_t)node->mode, status->stx_ino = node->inode;
    status->stx_rdev_major = major(node->device), status->stx_rdev_minor = minor(node->device);
    return result;
}
