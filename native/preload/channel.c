/* Connections to the server: idle ones wait in a few slots, and a call takes one or makes a new one. */
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { SLOTS = 16, FIRST_DESCRIPTOR = 200 };

/* descriptor + 1 in the low 32 bits, the inode number of its socket above: a program may have closed the descriptor
   behind our back (closefrom) and opened something else in its place, and then the inode tells. 0: empty. */
static _Atomic uint64_t slots[SLOTS];
static _Atomic pid_t owner;

void *next_symbol(void **cache, const char *name) {
    void *symbol = __atomic_load_n(cache, __ATOMIC_RELAXED);
    if (!symbol) {
        symbol = dlsym(RTLD_NEXT, name);
        __atomic_store_n(cache, symbol, __ATOMIC_RELAXED);
    }
    return symbol;
}

/* The kernel's struct is the C library's on x86-64 and Arm; the call works with every version of the C library. */
#ifdef SYS_newfstatat
_Static_assert(sizeof(struct stat64) == (sizeof(nlink_t) == 8 ? 144 : 128), "struct stat64");
enum { STAT_CALL = SYS_newfstatat };
#else
_Static_assert(sizeof(struct stat64) == 104, "struct stat64");
enum { STAT_CALL = SYS_fstatat64 };
#endif

int real_stat(int folder, const char *path, struct stat64 *status, int flags) {
    return (int)syscall(STAT_CALL, folder, path, status, flags);
}

static void close_quietly(int descriptor) {
    int saved = errno;
    syscall(SYS_close, descriptor);
    errno = saved;
}

static uint32_t inode_of(int descriptor) {
    struct stat64 status;
    if (real_stat(descriptor, "", &status, AT_EMPTY_PATH) != 0 || !S_ISSOCK(status.st_mode)) return 0;
    return (uint32_t)status.st_ino;
}

/* A forked process must not talk into its parent's conversations. */
static void forget_after_fork(void) {
    pid_t self = getpid();
    if (atomic_load(&owner) == self) return;
    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t entry = atomic_exchange(&slots[slot], 0);
        int descriptor = (int)(uint32_t)entry - 1;
        if (entry && inode_of(descriptor) == (uint32_t)(entry >> 32)) close_quietly(descriptor);
    }
    atomic_store(&owner, self);
}

static int connect_server(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", device_folder());
    if (length < 0 || length >= (int)sizeof address.sun_path) return -1;
    int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (low < 0) return -1;
    /* Out of the way of programs that count on small numbers. */
    int high = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high >= 0) { close_quietly(low); low = high; }
    int result;
    do result = connect(low, (struct sockaddr *)&address, sizeof address);
    while (result != 0 && errno == EINTR);
    if (result == 0) return low;
    close_quietly(low);
    return -1;
}

static int take_channel(void) {
    forget_after_fork();
    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t entry = atomic_load_explicit(&slots[slot], memory_order_relaxed);
        if (!entry || !atomic_compare_exchange_strong(&slots[slot], &entry, 0)) continue;
        int descriptor = (int)(uint32_t)entry - 1;
        if (inode_of(descriptor) == (uint32_t)(entry >> 32)) return descriptor;
    }
    return connect_server();
}

static void give_back(int descriptor) {
    uint64_t entry = (uint64_t)inode_of(descriptor) << 32 | (uint32_t)(descriptor + 1);
    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&slots[slot], &empty, entry)) return;
    }
    close_quietly(descriptor);
}

union control { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; };

static int send_all(int channel, struct iovec *parts, int count, int descriptor) {
    union control control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    if (descriptor >= 0) {
        message.msg_control = control.bytes, message.msg_controllen = sizeof control.bytes;
        control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    }
    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(channel, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return -1;
        message.msg_control = NULL, message.msg_controllen = 0;
        while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
            sent -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++, message.msg_iovlen--;
        }
        if (message.msg_iovlen) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
            message.msg_iov->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

static int received_descriptor(struct msghdr *message) {
    int descriptor = -1;
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
        memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
    return descriptor;
}

/* Waits as the kernel would: a signal does not end it. */
static int receive_all(int channel, struct reply_header *reply, char *into, size_t room, int *received) {
    size_t done = 0, wanted = sizeof *reply;
    while (done < wanted) {
        union control control;
        struct iovec parts[2] = {{into, room}, {0}};
        int count = 1;
        if (done < sizeof *reply) {
            parts[0] = (struct iovec){(char *)reply + done, sizeof *reply - done};
            parts[1] = (struct iovec){into, room};
            count = room ? 2 : 1;
        } else {
            parts[0] = (struct iovec){into + (done - sizeof *reply), wanted - done};
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count,
                                 .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        ssize_t size = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return -1;
        int descriptor = received_descriptor(&message);
        if (descriptor >= 0) *received = descriptor;
        done += (size_t)size;
        if (done >= sizeof *reply) {
            if (reply->length > room) return -1;
            wanted = sizeof *reply + reply->length;
        }
    }
    return 0;
}

int call_server(struct iovec *parts, int count, int descriptor, struct reply_header *reply, void *into, size_t room,
                int *received) {
    int saved = errno, channel = take_channel();
    *received = -1;
    *reply = (struct reply_header){0};
    if (channel < 0) { errno = saved; return -ENODEV; }
    if (send_all(channel, parts, count, descriptor) != 0) {
        int problem = errno == EFAULT || errno == EBADF ? errno : ENODEV;
        close_quietly(channel);
        errno = saved;
        return -problem;
    }
    if (receive_all(channel, reply, into, room, received) != 0) {
        close_quietly(channel);
        if (*received >= 0) close_quietly(*received);
        errno = saved;
        return -ENODEV;
    }
    give_back(channel);
    errno = saved;
    return reply->result;
}
