/* Finding the user's engine, and starting it. */
#include "capi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WORDS = 16, PATIENCE_MS = 30000, STEP_MS = 2 };

/* ---------------------------------------------------------------- where it listens */

/* The user's own folder: nobody else may put a socket there. */
static int check_folder(const char *folder, char *reason, size_t room) {
    struct stat status;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        snprintf(reason, room, "%s cannot be made: %s", folder, strerror(errno));
        return -1;
    }
    if (lstat(folder, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077)) {
        snprintf(reason, room, "%s must be a folder of this user that nobody else can enter (chmod 700), and no link",
                 folder);
        return -1;
    }
    return 0;
}

static int socket_place(struct sockaddr_un *address, char *reason, size_t room) {
    const char *given = secure_getenv(SOCKET_VARIABLE), *runtime = secure_getenv("XDG_RUNTIME_DIR");
    char folder[PATH_MAX], path[PATH_MAX + 64];
    struct stat status;
    if (given && *given) {
        snprintf(path, sizeof path, "%s", given);
    } else {
        if (runtime && *runtime && stat(runtime, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid())
            snprintf(folder, sizeof folder, "%s/openrknn", runtime);
        else
            snprintf(folder, sizeof folder, "/tmp/openrknn-%u", (unsigned)geteuid());
        if (check_folder(folder, reason, room) != 0) return -1;
        snprintf(path, sizeof path, "%s/%s", folder, SOCKET_NAME);
    }
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) {
        snprintf(reason, room, "%.200s is too long for a socket (%zu characters at most); set %s", path,
                 sizeof address->sun_path - 1, SOCKET_VARIABLE);
        return -1;
    }
    strcpy(address->sun_path, path);
    return 0;
}

/* A descriptor, or -1: nobody listens, or -2: something else is wrong. */
static int connect_once(const struct sockaddr_un *address, char *reason, size_t room) {
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), result;
    if (made < 0) {
        snprintf(reason, room, "no socket: %s", strerror(errno));
        return -2;
    }
    do result = connect(made, (const struct sockaddr *)address, sizeof *address);
    while (result != 0 && errno == EINTR);
    if (result != 0) {
        int nobody = errno == ECONNREFUSED || errno == ENOENT;
        snprintf(reason, room, "the engine at %s cannot be reached: %s", address->sun_path, strerror(errno));
        close(made);
        return nobody ? -1 : -2;
    }
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(made, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) {
        snprintf(reason, room, "the engine at %s belongs to another user", address->sun_path);
        close(made);
        return -2;
    }
    return made;
}

/* ---------------------------------------------------------------- which program it is */

static int is_program(const char *path) { return access(path, X_OK) == 0; }

/* Beside the library, or in the bin folder of the installation that it belongs to: some folders above it. */
static int engine_near(char *path, size_t room) {
    static const char *const places[] = {"openrknn-engine", "../bin/openrknn-engine", "../../bin/openrknn-engine",
                                         "../../../bin/openrknn-engine", "../../../../bin/openrknn-engine",
                                         "../../../../../bin/openrknn-engine"};
    Dl_info info;
    char here[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)engine_connect, &info) || !info.dli_fname || !realpath(info.dli_fname, here)) return 0;
    char *slash = strrchr(here, '/');
    if (!slash) return 0;
    *slash = 0;
    for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
        int length = snprintf(path, room, "%s/%s", here, places[index]);
        if (length > 0 && length < (int)room && is_program(path)) return 1;
    }
    return 0;
}

static int split(char *text, char **words) {
    int count = 0;
    for (char *word = strtok_r(text, " ", &text); word && count < MOST_WORDS; word = strtok_r(NULL, " ", &text))
        words[count++] = word;
    words[count] = NULL;
    return count;
}

/* ---------------------------------------------------------------- starting it */

static void pause_ms(long milliseconds) {
    struct timespec left = {0, milliseconds * 1000000};
    nanosleep(&left, NULL); /* a signal may shorten it */
}

/* It goes into the background by itself and ends once it listens. Somebody else may have collected its status. */
static int wait_for(pid_t process, const char *program, char *reason, size_t room) {
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        int status;
        pid_t found = waitpid(process, &status, WNOHANG);
        if (found == process) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
            snprintf(reason, room, "%s did not start (its message is above); set %s to an engine that does", program,
                     ENGINE_VARIABLE);
            return -1;
        }
        if (found < 0 && errno != EINTR && kill(process, 0) != 0) return 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - begin.tv_sec) * 1000 > PATIENCE_MS) {
            snprintf(reason, room, "%s did not get ready within %d seconds", program, PATIENCE_MS / 1000);
            return -1;
        }
        pause_ms(STEP_MS);
    }
}

/* Signals that the program blocks or ignores must not reach into the engine. */
static int spawn(pid_t *process, char **words) {
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGCHLD);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGTERM);
    if (posix_spawnattr_init(&attributes) != 0) return ENOMEM;
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int result = posix_spawnp(process, words[0], NULL, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    return result;
}

static int start(char *reason, size_t room) {
    char text[PATH_MAX] = "openrknn-engine", *words[MOST_WORDS + 1] = {text, NULL};
    const char *given = secure_getenv(ENGINE_VARIABLE);
    if (given && *given) {
        snprintf(text, sizeof text, "%s", given);
        if (!split(text, words)) words[0] = text;
    } else if (!engine_near(text, sizeof text)) {
        strcpy(text, "openrknn-engine"); /* from PATH */
    }
    pid_t process;
    int result = spawn(&process, words);
    if (result != 0) {
        snprintf(reason, room, "the engine %.400s cannot be started: %s; install openrknn, or set %s to its "
                 "openrknn-engine", words[0], strerror(result), ENGINE_VARIABLE);
        return -1;
    }
    return wait_for(process, words[0], reason, room);
}

/* Programs that start together start one engine: the others wait at the lock and find it. */
static int start_lock(const struct sockaddr_un *address) {
    char path[sizeof address->sun_path + 16];
    snprintf(path, sizeof path, "%s.start", address->sun_path);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), result = -1;
    if (lock < 0) return -1;
    do result = flock(lock, LOCK_EX);
    while (result != 0 && errno == EINTR);
    return lock;
}

int engine_connect(char *reason, size_t room) {
    struct sockaddr_un address;
    if (socket_place(&address, reason, room) != 0) return -1;
    int made = connect_once(&address, reason, room);
    if (made != -1) return made;
    int lock = start_lock(&address);
    made = connect_once(&address, reason, room);
    if (made == -1 && start(reason, room) == 0) made = connect_once(&address, reason, room);
    close_quietly(lock);
    return made < 0 ? -1 : made;
}
