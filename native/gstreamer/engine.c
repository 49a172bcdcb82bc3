/* The child process that runs the model. Python stays out of the pipeline's process, and what ends the child is an
 * error on the bus. The two speak over a socket pair; what the child writes to its standard error goes to the debug log
 * and, if it ends unexpectedly, into the error. */
#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <gst/gst.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OPENRKNN_DEFAULT_ENGINE
#define OPENRKNN_DEFAULT_ENGINE ""
#endif

GST_DEBUG_CATEGORY_EXTERN(openrknn_debug);
#define GST_CAT_DEFAULT openrknn_debug

enum { CHILD_SOCKET = 3, WORDS_KEPT = 4096, PATIENCE_MS = 5000 };

extern char **environ;

struct engine {
    char *name;
    int socket;
    int messages; /* the child's standard error */
    int wake;     /* eventfd: readable while interrupted */
    pid_t process;
    GString *words; /* the last that the child wrote */
    uint8_t *packet;
};

/* ---------------------------------------------------------------- starting */

static char **command_words(const char *command) {
    const char *given = secure_getenv(ENGINE_VARIABLE);
    if (command && *command) return g_strsplit(command, " ", 0);
    if (given && *given) return g_strsplit(given, " ", 0);
    if (*OPENRKNN_DEFAULT_ENGINE) {
        char **words = g_strsplit(OPENRKNN_DEFAULT_ENGINE, " ", 0);
        if (access(words[0], X_OK) == 0) return words;
        g_strfreev(words);
    }
    return g_strsplit(ENGINE_NAME, " ", 0); /* from PATH */
}

static int spawn(struct engine *engine, char **words, int socket, int messages) {
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    for (char **word = words; *word; word++)
        if (**word) g_ptr_array_add(all, *word);
    if (!all->len) return ENOENT;
    g_ptr_array_add(all, "--socket");
    g_ptr_array_add(all, G_STRINGIFY(3));
    g_ptr_array_add(all, NULL);
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, messages, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, CHILD_SOCKET);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions, CHILD_SOCKET + 1);
#endif
#endif
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    /* A group of its own: Ctrl-C in a terminal is for the program, which may want to end the pipeline in order. */
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int result = posix_spawnp(&engine->process, g_ptr_array_index(all, 0), &actions, &attributes,
                              (char **)all->pdata, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return result;
}

static void close_quietly(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

/* posix_spawn would close the sources of its dup2 calls if they were below 4. */
static int moved_up(int descriptor) {
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, CHILD_SOCKET + 1);
    if (high < 0) return descriptor;
    close(descriptor);
    return high;
}

static void engine_free(struct engine *engine) {
    close_quietly(&engine->socket);
    close_quietly(&engine->messages);
    close_quietly(&engine->wake);
    g_string_free(engine->words, TRUE);
    g_free(engine->packet);
    g_free(engine->name);
    g_free(engine);
}

struct engine *engine_start(const char *command, char **why) {
    int pair[2] = {-1, -1}, pipes[2] = {-1, -1}, problem = 0;
    struct engine *engine = g_new0(struct engine, 1);
    char **words = command_words(command);
    engine->name = g_strdup(words[0] ? words[0] : "");
    engine->words = g_string_new(NULL);
    engine->packet = g_malloc(LARGEST_PACKET);
    engine->messages = -1;
    engine->socket = -1;
    engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->wake < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
        pipe2(pipes, O_CLOEXEC) != 0) {
        problem = errno;
    } else {
        pair[1] = moved_up(pair[1]);
        pipes[1] = moved_up(pipes[1]);
        problem = spawn(engine, words, pair[1], pipes[1]);
    }
    close_quietly(&pair[1]);
    close_quietly(&pipes[1]);
    engine->socket = pair[0];
    engine->messages = pipes[0];
    g_strfreev(words);
    if (problem) {
        *why = g_strdup_printf("%s cannot be started: %s. Install openrknn (pip install openrknn), or set "
                               "the property `engine` or " ENGINE_VARIABLE " to the " ENGINE_NAME " of an installation",
                               engine->name, g_strerror(problem));
        engine_free(engine);
        return NULL;
    }
    fcntl(engine->messages, F_SETFL, O_NONBLOCK);
    return engine;
}

int engine_process(const struct engine *engine) { return (int)engine->process; }

/* ---------------------------------------------------------------- what the child writes */

/* Whether the child may still write more. */
static gboolean keep_words(struct engine *engine) {
    char text[1024];
    ssize_t size;
    while ((size = read(engine->messages, text, sizeof text)) > 0) {
        GST_INFO("%s: %.*s", engine->name, (int)size, text);
        g_string_append_len(engine->words, text, size);
        if (engine->words->len > WORDS_KEPT) g_string_erase(engine->words, 0, (gssize)engine->words->len - WORDS_KEPT);
    }
    return size < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Its standard error is closed when it has ended. */
static gboolean wait_for_end(struct engine *engine, int patience_ms) {
    struct pollfd end = {engine->messages, POLLIN, 0};
    while (keep_words(engine)) {
        int ready = poll(&end, 1, patience_ms);
        if (ready == 0 || (ready < 0 && errno != EINTR)) return FALSE;
    }
    return TRUE;
}

static char *how_it_ended(struct engine *engine) {
    int status = 0;
    g_autofree char *how = NULL;
    close_quietly(&engine->socket);
    if (!wait_for_end(engine, PATIENCE_MS)) kill(engine->process, SIGKILL);
    pid_t found;
    do found = waitpid(engine->process, &status, 0);
    while (found < 0 && errno == EINTR);
    if (found == engine->process && WIFSIGNALED(status))
        how = g_strdup_printf("signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (found == engine->process)
        how = g_strdup_printf("exit status %d", WEXITSTATUS(status));
    else
        how = g_strdup("its status is not known"); /* the program collects all children */
    engine->process = 0;
    g_strchomp(engine->words->str);
    return g_strdup_printf("%s has ended: %s%s%s", engine->name, how, *engine->words->str ? "\n" : "",
                           engine->words->str);
}

/* ---------------------------------------------------------------- requests and replies */

gboolean engine_send(struct engine *engine, uint32_t operation, uint64_t number, const void *payload, gsize bytes,
                     const int *descriptors, guint n_descriptors) {
    struct wire_request request = {.version = WIRE_VERSION, .operation = operation, .number = number,
                                   .payload_bytes = (uint32_t)bytes, .descriptors = n_descriptors};
    struct iovec parts[2] = {{&request, sizeof request}, {(void *)(uintptr_t)payload, bytes}};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (n_descriptors) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(n_descriptors * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_descriptors * sizeof(int));
        memcpy(CMSG_DATA(header), descriptors, n_descriptors * sizeof(int));
    }
    ssize_t sent;
    do sent = sendmsg(engine->socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)(sizeof request + bytes);
}

static int take_descriptor(struct msghdr *message) {
    int taken = -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        for (gsize at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
            if (taken >= 0) close(descriptor);
            else taken = descriptor;
        }
    }
    return taken;
}

/* A reply that is larger than a packet. */
static GBytes *large_reply(int descriptor, uint64_t bytes) {
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0 || (uint64_t)status.st_size != bytes) return NULL;
    uint8_t *data = g_try_malloc(bytes);
    gsize done = 0;
    while (data && done < bytes) {
        ssize_t size = pread(descriptor, data + done, bytes - done, (off_t)done);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        done += (gsize)size;
    }
    if (data && done == bytes) return g_bytes_new_take(data, bytes);
    g_free(data);
    return NULL;
}

/* 1: the reply to `number`; 0: to another request; -1: no reply can follow. */
static int receive_packet(struct engine *engine, uint64_t number, gboolean *refused, GBytes **payload) {
    char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    struct iovec part = {engine->packet, LARGEST_PACKET};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct wire_reply reply;
    ssize_t size;
    do size = recvmsg(engine->socket, &message, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    if (size <= 0) return -1;
    int descriptor = take_descriptor(&message), result = -1;
    if ((gsize)size >= sizeof reply && !(message.msg_flags & MSG_TRUNC)) {
        memcpy(&reply, engine->packet, sizeof reply);
        result = reply.number == number;
        *refused = reply.code != 0;
        if (result && reply.in_descriptor)
            *payload = large_reply(descriptor, reply.payload_bytes);
        else if (result && reply.payload_bytes == (uint64_t)size - sizeof reply)
            *payload = g_bytes_new(engine->packet + sizeof reply, reply.payload_bytes);
        if (result && !*payload) result = -1;
    }
    close_quietly(&descriptor);
    return result;
}

enum engine_answer engine_receive(struct engine *engine, uint64_t number, GBytes **payload, char **why) {
    struct pollfd watched[3] = {{engine->socket, POLLIN, 0}, {engine->wake, POLLIN, 0}, {engine->messages, POLLIN, 0}};
    for (;;) {
        gboolean refused = FALSE;
        int ready = engine->socket < 0 ? -1 : poll(watched, 3, -1), result = 0;
        if (ready < 0 && engine->socket >= 0 && errno == EINTR) continue;
        if (ready < 0) break;
        /* An engine that has written its last words may have sent a reply before. */
        if (watched[2].revents && !keep_words(engine)) watched[2].fd = -1;
        if (watched[1].revents) return ANSWER_INTERRUPTED;
        if (!watched[0].revents) continue;
        *payload = NULL;
        result = receive_packet(engine, number, &refused, payload);
        if (result > 0) return refused ? ANSWER_REFUSED : ANSWER_GIVEN;
        if (result < 0) break;
    }
    *why = engine->process ? how_it_ended(engine) : g_strdup_printf("%s has ended", engine->name);
    return ANSWER_ENDED;
}

void engine_interrupt(struct engine *engine, gboolean on) {
    uint64_t count = 1;
    ssize_t done = on ? write(engine->wake, &count, sizeof count) : read(engine->wake, &count, sizeof count);
    (void)done; /* it is full, or empty, already */
}

void engine_stop(struct engine *engine) {
    if (!engine) return;
    close_quietly(&engine->socket);
    if (engine->process) {
        if (!wait_for_end(engine, PATIENCE_MS)) kill(engine->process, SIGKILL);
        while (waitpid(engine->process, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    engine_free(engine);
}
