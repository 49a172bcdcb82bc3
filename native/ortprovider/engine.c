/* A host for programs that are not Python: a process of its own, `openrknn-ort-engine`, started with the first session.
 *
 * A request is a head and its content, the answer as well; one request at a time. Both processes are of one machine, so
 * numbers go as they are. The engine ends when this process does: it sees the end of the socket. */
#include "provider.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENGINE_NAME "openrknn-ort-engine"
#define ENGINE_VARIABLE "OPENRKNN_ORT_ENGINE"

enum { OPEN = 1, PLAN, BUILD, RUN, DROP, CLOSE };
enum { MARK = 0x4e4b5235, CHILD_SOCKET = 3, MOST_WORDS = 32, MOST_RANK = 64 };

struct request {
    uint32_t mark, call;
    int64_t number;
    uint64_t size;
};

struct answer {
    int64_t result;
    uint64_t size;
};

struct tensor_head {
    int32_t type;
    uint32_t rank;
    uint64_t bytes;
};

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static pid_t owner, engine;
static int64_t generation; /* numbers of an engine that is gone mean nothing to the next one */

/* ---------------------------------------------------------------- starting it */

/* In the bin folder of the installation that this library belongs to, some folders above it; else where $PATH says. */
static void find_engine(char *path, size_t room) {
    static const char *const places[] = {"bin", "../bin", "../../bin", "../../../bin", "../../../../bin",
                                         "../../../../../bin"};
    Dl_info info;
    char here[PATH_MAX];
    if (dladdr((void *)(uintptr_t)engine_host, &info) && info.dli_fname && realpath(info.dli_fname, here)) {
        *strrchr(here, '/') = 0;
        for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
            int length = snprintf(path, room, "%s/%s/" ENGINE_NAME, here, places[index]);
            if (length > 0 && (size_t)length < room && access(path, X_OK) == 0) return;
        }
    }
    snprintf(path, room, ENGINE_NAME);
}

static int start(char *why, uint32_t room) {
    char command[PATH_MAX], first[32], *words[MOST_WORDS + 5] = {NULL}, *rest = NULL;
    const char *given = secure_getenv(ENGINE_VARIABLE);
    int pair[2], count = 0;
    posix_spawn_file_actions_t actions;
    if (given && *given) {
        snprintf(command, sizeof command, "%s", given);
        for (char *word = strtok_r(command, " ", &rest); word && count < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
            words[count++] = word;
    } else {
        find_engine(command, sizeof command);
        words[count++] = command;
    }
    if (!count || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(why, room, "no engine can be started: %s", count ? strerror(errno) : ENGINE_VARIABLE " is blank");
        return -1;
    }
    snprintf(first, sizeof first, "%lld", (long long)(++generation << 32));
    words[count++] = "--socket";
    words[count++] = "3";
    words[count++] = "--first";
    words[count++] = first;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pair[1], CHILD_SOCKET);
    int failed = posix_spawnp(&engine, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    if (failed) {
        close(pair[0]);
        snprintf(why, room, "%.500s cannot be started: %s; set " ENGINE_VARIABLE " to the engine of an installed openrknn",
                 words[0], strerror(failed));
        return -1;
    }
    connection = pair[0];
    owner = getpid();
    return 0;
}

static void forget(void) {
    if (connection >= 0) close(connection);
    connection = -1;
    if (engine > 0 && owner == getpid()) waitpid(engine, NULL, 0); /* it ends with its socket */
    engine = 0;
}

/* ---------------------------------------------------------------- bytes */

static bool send_all(const void *data, uint64_t size) {
    const char *at = data;
    while (size) {
        ssize_t sent = send(connection, at, size < (1u << 30) ? size : (1u << 30), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        size -= (uint64_t)sent;
    }
    return true;
}

/* `data` NULL: they are read and forgotten. */
static bool receive_all(void *data, uint64_t size) {
    char spare[4096], *at = data;
    while (size) {
        uint64_t want = data ? size : size < sizeof spare ? size : sizeof spare;
        ssize_t got = recv(connection, data ? at : spare, want < (1u << 30) ? want : (1u << 30), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        if (data) at += got;
        size -= (uint64_t)got;
    }
    return true;
}

static int64_t broken(char *why, uint32_t room) {
    forget();
    snprintf(why, room, "the engine (" ENGINE_NAME ") has ended; its message is above. Make the session again");
    return -1;
}

/* With the lock held. `more` bytes follow, which the caller sends. */
static int64_t ask(uint32_t call, int64_t number, const void *content, uint64_t size, uint64_t more, char *why,
                   uint32_t room) {
    struct request request = {MARK, call, number, size + more};
    if (connection >= 0 && owner != getpid()) forget(); /* forked: the engine is the parent's */
    if (connection < 0 && (call != OPEN || start(why, room) != 0)) {
        if (call != OPEN) snprintf(why, room, "the engine of this session is gone. Make the session again");
        return -1;
    }
    return send_all(&request, sizeof request) && send_all(content, size) ? 0 : broken(why, room);
}

/* What follows the head of an answer is left in the socket, except a reason. */
static int64_t hear(uint64_t *follows, char *why, uint32_t room) {
    struct answer answer;
    if (!receive_all(&answer, sizeof answer)) return broken(why, room);
    *follows = answer.size;
    if (answer.result < 0) {
        uint64_t fits = answer.size < room ? answer.size : room - 1u;
        memset(why, 0, room);
        if (!receive_all(why, fits) || !receive_all(NULL, answer.size - fits)) return broken(why, room);
        *follows = 0;
    }
    return answer.result;
}

static int64_t simple(uint32_t call, int64_t number, const void *content, uint64_t size, char *why, uint32_t room) {
    uint64_t follows = 0;
    pthread_mutex_lock(&lock);
    int64_t result = ask(call, number, content, size, 0, why, room);
    if (result == 0) result = hear(&follows, why, room);
    if (result >= 0 && !receive_all(NULL, follows)) result = broken(why, room);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---------------------------------------------------------------- the functions of a host */

static int64_t engine_open(const char *options, uint64_t size, char *why, uint32_t room) {
    return simple(OPEN, 0, options, size, why, room);
}

static int32_t engine_plan(int64_t session, const void *model, uint64_t size, int32_t *parts, uint64_t nodes, char *why,
                           uint32_t room) {
    uint64_t follows = 0;
    pthread_mutex_lock(&lock);
    int64_t result = ask(PLAN, session, model, size, 0, why, room);
    if (result == 0) result = hear(&follows, why, room);
    if (result >= 0) {
        bool fits = follows == nodes * sizeof *parts;
        if (!receive_all(fits ? parts : NULL, follows))
            result = broken(why, room);
        else if (!fits) {
            snprintf(why, room, "the engine understood another number of nodes");
            result = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    return result < 0 ? -1 : 0;
}

static int64_t engine_build(int64_t session, const void *model, uint64_t size, char *why, uint32_t room) {
    return simple(BUILD, session, model, size, why, room);
}

static bool send_tensors(const struct host_tensor *inputs, uint32_t count) {
    for (uint32_t index = 0; index < count; index++) {
        const struct host_tensor *input = inputs + index;
        struct tensor_head head = {input->type, input->rank, input->bytes};
        if (!send_all(&head, sizeof head) || !send_all(input->dimensions, input->rank * sizeof *input->dimensions) ||
            !send_all(input->data, input->bytes))
            return false;
    }
    return true;
}

/* Straight to where ONNX Runtime wants them. */
static bool receive_tensors(uint64_t size, host_output output, void *context) {
    for (uint32_t index = 0; size; index++) {
        struct tensor_head head;
        int64_t dimensions[MOST_RANK];
        if (size < sizeof head || !receive_all(&head, sizeof head) || head.rank > MOST_RANK) return false;
        size -= sizeof head;
        uint64_t shape = head.rank * sizeof *dimensions;
        if (size < shape || !receive_all(dimensions, shape) || size - shape < head.bytes) return false;
        size -= shape + head.bytes;
        if (!receive_all(output(context, index, head.type, dimensions, head.rank, head.bytes), head.bytes)) return false;
    }
    return true;
}

static int32_t engine_run(int64_t part, const struct host_tensor *inputs, uint32_t count, host_output output,
                          void *context, char *why, uint32_t room) {
    uint64_t size = 0, follows = 0;
    for (uint32_t index = 0; index < count; index++)
        size += sizeof(struct tensor_head) + inputs[index].rank * sizeof(int64_t) + inputs[index].bytes;
    pthread_mutex_lock(&lock);
    int64_t result = ask(RUN, part, NULL, 0, size, why, room);
    if (result == 0) result = send_tensors(inputs, count) ? hear(&follows, why, room) : broken(why, room);
    if (result >= 0 && !receive_tensors(follows, output, context)) result = broken(why, room);
    pthread_mutex_unlock(&lock);
    return result < 0 ? -1 : 0;
}

static void engine_drop(int64_t part) {
    char why[REASON_ROOM];
    simple(DROP, part, NULL, 0, why, sizeof why);
}

static void engine_close(int64_t session) {
    char why[REASON_ROOM];
    simple(CLOSE, session, NULL, 0, why, sizeof why);
}

static const struct host ENGINE_HOST = {
    .version = HOST_VERSION,
    .open = engine_open,
    .plan = engine_plan,
    .build = engine_build,
    .run = engine_run,
    .drop = engine_drop,
    .close = engine_close,
};

const struct host *engine_host(void) { return &ENGINE_HOST; }
