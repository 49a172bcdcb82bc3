/* The connection to the engine: the first conversation says hello and makes more; each call takes an idle one. */
#include "capi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

enum { FIRST_DESCRIPTOR = 100 }; /* out of the way of programs that count on small numbers */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct channel *control;      /* NULL: no connection */
static uint32_t current, last;       /* numbers of connections; 0: none */
static uint32_t inherited;           /* up to this number they are the parent's: this process was forked */
static struct channel *idle, *known; /* `known` are all but `control` */

void link_lock(void) { pthread_mutex_lock(&mutex); }
void link_unlock(void) { pthread_mutex_unlock(&mutex); }

/* ---------------------------------------------------------------- packets */

union control_space { struct cmsghdr header; char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))]; };

#if (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)) && UINTPTR_MAX > 0xffffffff
#define SENDMSG(socket, message, flags) syscall(SYS_sendmsg, socket, message, flags)
#else
#define SENDMSG sendmsg
#endif

int channel_send(struct channel *channel, struct iovec *parts, int count, const int *descriptors, int n) {
    union control_space space;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    if (channel->descriptor < 0) return ECONNRESET;
    if (n) {
        memset(&space, 0, sizeof space);
        message.msg_control = space.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        space.header.cmsg_level = SOL_SOCKET;
        space.header.cmsg_type = SCM_RIGHTS;
        space.header.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(&space.header), descriptors, (size_t)n * sizeof(int));
    }
    ssize_t sent;
    do sent = SENDMSG(channel->descriptor, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

static void keep_descriptors(struct msghdr *header, struct message *message) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count && message->n_descriptors < MOST_DESCRIPTORS; index++)
            memcpy(&message->descriptors[message->n_descriptors++], CMSG_DATA(part) + index * sizeof(int), sizeof(int));
    }
}

int channel_receive(struct channel *channel, struct message *message) {
    union control_space space;
    memset(message, 0, sizeof *message);
    struct iovec parts[2] = {{&message->reply, sizeof message->reply}, {channel->buffer, LARGEST_PACKET}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = space.bytes,
                            .msg_controllen = sizeof space.bytes};
    if (channel->descriptor < 0) return -1;
    ssize_t size;
    do size = recvmsg(channel->descriptor, &header, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    if (size < 0) return -1;
    keep_descriptors(&header, message);
    uint64_t bytes = (uint64_t)message->reply.payload_bytes + message->reply.reason_bytes;
    if ((size_t)size < sizeof message->reply || (header.msg_flags & MSG_TRUNC) ||
        bytes != (uint64_t)size - sizeof message->reply) {
        message_close(message);
        return -1;
    }
    message->payload = channel->buffer;
    message->reason = (const char *)channel->buffer + message->reply.payload_bytes;
    channel->buffer[bytes] = 0;
    return 0;
}

void message_close(struct message *message) {
    for (int index = 0; index < message->n_descriptors; index++) close_quietly(message->descriptors[index]);
    message->n_descriptors = 0;
}

int message_take(struct message *message) {
    if (!message->n_descriptors) return -1;
    int first = message->descriptors[0];
    message->n_descriptors--;
    memmove(message->descriptors, message->descriptors + 1, (size_t)message->n_descriptors * sizeof(int));
    return first;
}

/* ---------------------------------------------------------------- channels */

static uint64_t inode_of(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? (uint64_t)status.st_ino : 0;
}

static int moved_up(int descriptor) {
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high < 0) return descriptor;
    close(descriptor);
    return high;
}

/* Takes the descriptor over. */
static struct channel *channel_new(int descriptor) {
    struct channel *channel = calloc(1, sizeof *channel);
    if (channel) channel->buffer = malloc(LARGEST_PACKET + 1);
    if (!channel || !channel->buffer) {
        free(channel);
        close_quietly(descriptor);
        return NULL;
    }
    channel->descriptor = moved_up(descriptor);
    channel->inode = inode_of(channel->descriptor);
    return channel;
}

/* A program may have closed all descriptors and opened its own in their place; those are not ours to use or close. */
static int is_ours(const struct channel *channel) {
    return channel->descriptor >= 0 && inode_of(channel->descriptor) == channel->inode;
}

static void channel_free(struct channel *channel) {
    for (struct channel **at = &known; *at; at = &(*at)->next_known)
        if (*at == channel) { *at = channel->next_known; break; }
    if (is_ours(channel)) close_quietly(channel->descriptor);
    free(channel->buffer);
    free(channel);
}

/* With the mutex: the connection is of no use any more. Calls under way on other channels see its end themselves. */
static void drop(void) {
    while (idle) {
        struct channel *next = idle->next;
        channel_free(idle);
        idle = next;
    }
    if (control) channel_free(control);
    control = NULL;
    current = 0;
}

/* ---------------------------------------------------------------- hello */

static int is_ours_to_send(const char *variable) {
    return strncmp(variable, "OPENRKNN_", 9) == 0 || strncmp(variable, "RKNN_", 5) == 0;
}

static size_t gather_environment(unsigned char *into, size_t room) {
    size_t length = 0;
    for (char **at = environ; at && *at; at++) {
        size_t size = strlen(*at) + 1;
        if (!is_ours_to_send(*at) || size > room - length) continue;
        memcpy(into + length, *at, size);
        length += size;
    }
    return length;
}

/* One request and its reply on the first conversation. */
static int converse(const struct capi_request *request, const void *payload, int descriptor, struct message *message) {
    struct iovec parts[2] = {{(void *)(uintptr_t)request, sizeof *request},
                             {(void *)(uintptr_t)payload, request->payload_bytes}};
    if (channel_send(control, parts, request->payload_bytes ? 2 : 1, &descriptor, descriptor >= 0) != 0) return -1;
    return channel_receive(control, message);
}

static int hello(char *reason, size_t room) {
    struct message message;
    struct capi_request request = {.operation = OP_HELLO, .a = abi()->number, .b = sizeof(void *), .c = getpid(),
                                   .d = WIRE_VERSION};
    unsigned char *variables = malloc(LARGEST_PACKET / 2);
    if (!variables) return RKNN_ERR_MALLOC_FAIL;
    request.payload_bytes = (uint32_t)gather_environment(variables, LARGEST_PACKET / 2);
    int result = converse(&request, variables, -1, &message);
    free(variables);
    if (result != 0) {
        snprintf(reason, room, "the engine closed the connection");
        return RKNN_ERR_DEVICE_UNAVAILABLE;
    }
    if (message.reply.code != 0) snprintf(reason, room, "%s", message.reason);
    message_close(&message);
    return message.reply.code;
}

static int connect_now(char *reason, size_t room) {
    int descriptor = engine_connect(reason, room);
    if (descriptor < 0) return RKNN_ERR_DEVICE_UNAVAILABLE;
    control = channel_new(descriptor);
    if (!control) return RKNN_ERR_MALLOC_FAIL;
    current = ++last;
    int code = hello(reason, room);
    if (code != 0) drop();
    return code;
}

/* Once more if an engine ended just then: it ends when nobody has used it for a while. */
static int connect_surely(char *reason, size_t room) {
    int code = connect_now(reason, room);
    return code == RKNN_ERR_DEVICE_UNAVAILABLE ? connect_now(reason, room) : code;
}

/* One more conversation: the other end goes to the engine. */
static int channel_make(struct channel **made, char *reason, size_t room) {
    int ends[2];
    struct message message;
    struct capi_request request = {.operation = OP_CHANNEL};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(reason, room, "no socket for the engine: %s", strerror(errno));
        return RKNN_ERR_FAIL;
    }
    struct channel *channel = channel_new(ends[0]);
    int result = channel && is_ours(control) ? converse(&request, NULL, ends[1], &message) : -1;
    close_quietly(ends[1]);
    if (!channel) return RKNN_ERR_MALLOC_FAIL;
    channel->link = current;
    if (result != 0) {
        channel_free(channel);
        drop();
        snprintf(reason, room, "the engine has ended; its contexts are lost, and the next rknn_init starts another");
        return RKNN_ERR_DEVICE_UNAVAILABLE;
    }
    message_close(&message);
    if (message.reply.code != 0) {
        snprintf(reason, room, "%s", message.reason);
        channel_free(channel);
        return message.reply.code;
    }
    channel->next_known = known, known = channel;
    *made = channel;
    return 0;
}

static struct channel *idle_one(void) {
    while (idle) {
        struct channel *channel = idle;
        idle = channel->next;
        if (is_ours(channel)) return channel;
        channel_free(channel);
    }
    return NULL;
}

static int problem_of(uint32_t link, char *reason, size_t room) {
    if (!link || link == current) return 0;
    snprintf(reason, room, "%s",
             link <= inherited ? "it belongs to the process that forked this one; call rknn_init here, after fork"
                               : "the engine that had it has ended; call rknn_init again, which starts another");
    return RKNN_ERR_DEVICE_UNAVAILABLE;
}

static int take(uint32_t link, struct channel **channel, char *reason, size_t room) {
    int dead = problem_of(link, reason, room);
    if (dead) return dead;
    /* An engine that ended while nobody called it is not an error for who needs any. */
    for (int attempt = 0;; attempt++) {
        if (!current) {
            int code = connect_surely(reason, room);
            if (code != 0) return code;
        }
        *channel = idle_one();
        if (*channel) return 0;
        int code = channel_make(channel, reason, room);
        if (code == 0 || link || current || attempt) return code;
    }
}

int channel_take(uint32_t link, struct channel **channel, char *reason, size_t room) {
    link_lock();
    int code = take(link, channel, reason, room);
    link_unlock();
    return code;
}

void channel_give(struct channel *channel) {
    link_lock();
    if (channel->link == current && current) channel->next = idle, idle = channel;
    else channel_free(channel);
    link_unlock();
}

void channel_break(struct channel *channel) {
    link_lock();
    if (channel->link == current) drop();
    channel_free(channel);
    link_unlock();
}

int link_problem(uint32_t link, char *reason, size_t room) {
    link_lock();
    int code = problem_of(link, reason, room);
    link_unlock();
    return code;
}

void link_close(void) {
    link_lock();
    drop();
    link_unlock();
}

/* In the child, with the mutex: the conversations are the parent's. One that this very thread has under way (it forked
   inside a callback) stays in memory, but leads nowhere. */
void link_forget_after_fork(void) {
    drop();
    inherited = last;
    for (struct channel *channel = known; channel; channel = channel->next_known) {
        if (is_ours(channel)) close_quietly(channel->descriptor);
        channel->descriptor = -1;
    }
}
