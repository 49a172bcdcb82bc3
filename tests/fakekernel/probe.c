/*
 * What programs do with device files, one subject per call: `probe SUBJECT`. Silent and 0 if all is as on a board;
 * else a line that says what was not. `test_preload.py` compiles and runs it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s (errno %d, %s)\n", __LINE__, #condition, errno, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

struct action { uint32_t number, value; };
struct create { uint32_t handle, flags; uint64_t size, object, address, sram; int32_t domain; uint32_t cores; };
struct map { uint32_t handle, reserved; uint64_t offset; };
struct prime { uint32_t handle, flags; int32_t fd; };
struct heap { uint64_t length; uint32_t fd, fd_flags; uint64_t flags; };
struct version {
    int major, minor, patch;
    size_t name_length;
    void *name;
    size_t date_length;
    void *date;
    size_t text_length;
    void *text;
};

#define ACTION _IOWR('d', 0x40, struct action)
#define VERSION _IOWR('d', 0x00, struct version)
#define CREATE _IOWR('d', 0x42, struct create)
#define MAP _IOWR('d', 0x43, struct map)
#define EXPORT_FD _IOWR('d', 0x2d, struct prime)
#define IMPORT_FD _IOWR('d', 0x2e, struct prime)
#define HEAP_ALLOC _IOWR('H', 0, struct heap)
#define BUFFER_SYNC _IOW('b', 0, uint64_t)

/* qemu's user emulation has an answer of its own for ioctls that it does not know. */
#define IS_NO_IOCTL (errno == ENOTTY || errno == ENOSYS)

static const char *node = "/dev/dri/card1";
static const char *self;

static int open_npu(int flags) {
    int npu = open(node, O_RDWR | flags);
    CHECK(npu >= 0);
    return npu;
}

static int answers(int npu) {
    struct action action = {0, 0};
    return ioctl(npu, ACTION, &action) == 0 && action.value == 0x46495245;
}

static struct create make(int npu, uint64_t size) {
    struct create create = {.flags = 3, .size = size};
    CHECK(ioctl(npu, CREATE, &create) == 0);
    return create;
}

static void *map_buffer(int npu, const struct create *made) {
    struct map map = {.handle = made->handle};
    CHECK(ioctl(npu, MAP, &map) == 0);
    return mmap(NULL, made->size, PROT_READ | PROT_WRITE, MAP_SHARED, npu, (off_t)map.offset);
}

/* ---------------------------------------------------------------------------------------------- subjects */

static void listings(void) {
    int found = 0;
    DIR *folder = opendir("/dev/dri");
    CHECK(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        found += !strcmp(entry->d_name, "card1") || !strcmp(entry->d_name, "renderD129");
    closedir(folder);
    CHECK(found == 2);
    struct dirent **list;
    int count = scandir("/sys/class/devfreq", &list, NULL, alphasort);
    CHECK(count == 3 && !strcmp(list[2]->d_name, "fdab0000.npu"));
    glob_t names;
    CHECK(glob("/sys/class/devfreq/*npu*/cur_freq", 0, NULL, &names) == 0 && names.gl_pathc == 1);
    CHECK(!strcmp(names.gl_pathv[0], "/sys/class/devfreq/fdab0000.npu/cur_freq"));
    globfree(&names);
    CHECK(glob("/sys/class/drm/card[0-9]", 0, NULL, &names) == 0 && names.gl_pathc == 1);
    CHECK(glob("/dev/accel/*", 0, NULL, &names) == GLOB_NOMATCH);
    CHECK(!opendir("/dev/accel") && errno == ENOENT);
}

static void is_device(const struct stat *status, unsigned minor_number) {
    CHECK(S_ISCHR(status->st_mode));
    CHECK(major(status->st_rdev) == 226 && minor(status->st_rdev) == minor_number);
}

static void status(void) {
    struct stat status, open_status;
    struct statx wide;
    CHECK(stat(node, &status) == 0);
    is_device(&status, 1);
    CHECK(lstat("/dev/dri/renderD129", &status) == 0);
    is_device(&status, 129);
    CHECK(fstatat(AT_FDCWD, node, &status, 0) == 0);
    is_device(&status, 1);
    CHECK(stat("/dev/dri/by-path/platform-fdab0000.npu-card", &open_status) == 0);
    is_device(&open_status, 1);
    CHECK(open_status.st_ino == status.st_ino);
    int npu = open_npu(0);
    CHECK(fstat(npu, &open_status) == 0);
    is_device(&open_status, 1);
    CHECK(open_status.st_ino == status.st_ino);
    CHECK(statx(AT_FDCWD, node, 0, STATX_BASIC_STATS, &wide) == 0 && S_ISCHR(wide.stx_mode));
    CHECK(wide.stx_rdev_major == 226 && wide.stx_rdev_minor == 1);
    CHECK(statx(npu, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &wide) == 0 && S_ISCHR(wide.stx_mode));
    CHECK(stat("/proc/rknpu/load", &status) == 0 && S_ISREG(status.st_mode));
    CHECK(access(node, R_OK | W_OK) == 0 && faccessat(AT_FDCWD, node, R_OK, 0) == 0);
    CHECK(access("/dev/dri/card0", F_OK) != 0 && errno == ENOENT);
    CHECK(stat("/dev/rknpu", &status) != 0 && errno == ENOENT);
}

static void links(void) {
    char text[PATH_MAX], path[64];
    int npu = open_npu(0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", npu);
    ssize_t length = readlink(path, text, sizeof text);
    CHECK(length == (ssize_t)strlen(node) && !memcmp(text, node, (size_t)length));
    CHECK(realpath("/dev/dri/by-path/platform-fdab0000.npu-card", text) && !strcmp(text, node));
    CHECK(realpath("/sys/class/drm/card1/device", text) && !strcmp(text, "/sys/devices/platform/fdab0000.npu"));
    char *made = realpath("/sys/dev/char/226:129", NULL);
    CHECK(made && !strcmp(made, "/sys/devices/platform/fdab0000.npu/drm/renderD129"));
    length = readlink("/sys/devices/platform/fdab0000.npu/driver", text, sizeof text);
    CHECK(length > 0 && !memcmp(text + length - 6, "/RKNPU", 6));
    int folder = open("/dev/dri", O_RDONLY | O_DIRECTORY);
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    length = readlink(path, text, sizeof text);
    CHECK(length == 8 && !memcmp(text, "/dev/dri", 8));
}

static void other_ways(void) {
    int folder = open("/dev/dri", O_RDONLY | O_DIRECTORY), npu = openat(folder, "card1", O_RDWR);
    CHECK(npu >= 0 && answers(npu));
    struct stat status;
    CHECK(fstatat(folder, "card1", &status, 0) == 0);
    is_device(&status, 1);
    const char *spellings[] = {"//dev//dri/card1", "/dev/./dri/card1", "/dev/dri/../dri/card1",
                               "/dev/dri/by-path/platform-fdab0000.npu-card", "/../dev/dri/card1"};
    for (unsigned number = 0; number < sizeof spellings / sizeof *spellings; number++) {
        npu = open(spellings[number], O_RDWR);
        CHECK(npu >= 0 && answers(npu));
        close(npu);
    }
    npu = open64(node, O_RDWR);
    CHECK(npu >= 0 && answers(npu));
    npu = openat64(-1, node, O_RDWR);
    CHECK(npu >= 0 && answers(npu));
    volatile int flags = O_RDWR; /* with _FORTIFY_SOURCE this calls __open_2 */
    npu = open(node, flags);
    CHECK(npu >= 0 && answers(npu));
    CHECK(open("/dev/dri/card7", O_RDWR) < 0 && errno == ENOENT);
}

static void texts(void) {
    char line[256] = "";
    FILE *stream = fopen("/sys/kernel/debug/rknpu/load", "r");
    CHECK(stream && fgets(line, sizeof line, stream));
    CHECK(!strncmp(line, "NPU load:  Core0: ", 18));
    fclose(stream);
    stream = fopen64("/proc/device-tree/compatible", "rb");
    CHECK(stream && fread(line, 1, sizeof line, stream) > 10);
    fclose(stream);
    int text = open("/sys/class/devfreq/fdab0000.npu/cur_freq", O_RDONLY);
    CHECK(read(text, line, sizeof line) == 11 && lseek(text, 0, SEEK_SET) == 0 && read(text, line, 4) == 4);
    CHECK(!memcmp(line, "1000", 4));
    close(text);
    stream = fopen("/proc/rknpu/delayms", "w");
    CHECK(stream && fputs("77\n", stream) > 0 && fclose(stream) == 0);
    for (int tries = 0; tries < 1000; tries++) {
        stream = fopen("/proc/rknpu/delayms", "r");
        CHECK(stream && fgets(line, sizeof line, stream));
        fclose(stream);
        if (!strcmp(line, "77\n")) return;
        usleep(1000);
    }
    CHECK(!"the new value shows");
}

static void copies(void) {
    int npu = open_npu(0);
    struct create made = make(npu, 4096);
    int numbers[] = {dup(npu), dup2(npu, 77), dup3(npu, 78, O_CLOEXEC), fcntl(npu, F_DUPFD, 90),
                     fcntl(npu, F_DUPFD_CLOEXEC, 95)};
    close(npu);
    for (int number = 0; number < 5; number++) {
        CHECK(numbers[number] >= 0 && answers(numbers[number]));
        char *bytes = map_buffer(numbers[number], &made); /* the handle is the same open file's */
        CHECK(bytes != MAP_FAILED && bytes[0] == number);
        bytes[0]++;
    }
    CHECK(!(fcntl(numbers[0], F_GETFD) & FD_CLOEXEC));
    CHECK(fcntl(open_npu(O_CLOEXEC), F_GETFD) & FD_CLOEXEC);
    CHECK(!(fcntl(open_npu(0), F_GETFD) & FD_CLOEXEC));
}

static int wait_for(pid_t child) {
    int result;
    CHECK(waitpid(child, &result, 0) == child);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

static void forks(void) {
    int npu = open_npu(0);
    struct create made = make(npu, 4096);
    volatile char *bytes = map_buffer(npu, &made);
    CHECK(answers(npu));
    pid_t children[4];
    for (int number = 0; number < 4; number++) {
        children[number] = fork();
        CHECK(children[number] >= 0);
        if (!children[number]) {
            for (int turn = 0; turn < 300; turn++) CHECK(answers(npu)); /* the inherited file, all at once */
            volatile char *own_map = map_buffer(npu, &made); /* the driver lets no child inherit a map */
            own_map[number] = 1;
            int own = open_npu(0);
            CHECK(answers(own));
            _exit(0);
        }
    }
    for (int turn = 0; turn < 300; turn++) CHECK(answers(npu));
    for (int number = 0; number < 4; number++) CHECK(wait_for(children[number]) == 0);
    CHECK(answers(npu)); /* the children's ends did not close it */
    for (int number = 0; number < 4; number++) CHECK(bytes[number] == 1);
}

static void inherited(const char *number) { exit(number && answers(atoi(number)) ? 0 : 1); }

static void executes(void) {
    char number[16];
    snprintf(number, sizeof number, "%d", open_npu(0));
    pid_t child = fork();
    if (!child) {
        execl(self, self, "inherited", number, NULL);
        _exit(99);
    }
    CHECK(wait_for(child) == 0);
}

static void passes(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (!child) {
        int npu;
        CHECK(recvmsg(pair[1], &message, 0) == 1);
        memcpy(&npu, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof npu);
        _exit(answers(npu) ? 0 : 1);
    }
    int npu = open_npu(0);
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &npu, sizeof npu);
    CHECK(sendmsg(pair[0], &message, 0) == 1);
    CHECK(wait_for(child) == 0);
}

static void *work(void *shared) {
    int own = open_npu(0);
    for (int turn = 0; turn < 200; turn++) {
        CHECK(answers(*(int *)shared) && answers(own));
        struct create made = make(own, 4096);
        char *bytes = map_buffer(own, &made);
        CHECK(bytes != MAP_FAILED && bytes[0] == 0);
        munmap(bytes, 4096);
    }
    close(own);
    return NULL;
}

static void threads(void) {
    pthread_t all[8];
    int shared = open_npu(0);
    for (int number = 0; number < 8; number++) CHECK(pthread_create(&all[number], NULL, work, &shared) == 0);
    for (int number = 0; number < 8; number++) CHECK(pthread_join(all[number], NULL) == 0);
}

static void on_alarm(int number) { (void)number; }

static void signals(void) {
    struct sigaction handler = {.sa_handler = on_alarm}; /* without SA_RESTART */
    struct itimerval often = {{0, 500}, {0, 500}};
    int npu = open_npu(0);
    sigaction(SIGALRM, &handler, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int turn = 0; turn < 3000; turn++) CHECK(answers(npu));
}

/* Where the kernel says EFAULT: memory that is not there, that ends in the middle, that cannot be written. */
static void bad_pointers(int npu) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    CHECK(ioctl(npu, ACTION, pages + 4092) == -1 && errno == EFAULT); /* its second half */
    struct version version = {.name_length = 16, .name = (void *)8};
    CHECK(ioctl(npu, VERSION, &version) == -1 && errno == EFAULT);
    version = (struct version){.name_length = 16, .name = pages + 4096 - 4};
    CHECK(ioctl(npu, VERSION, &version) == -1 && errno == EFAULT);
    char name[16] = "";
    version = (struct version){.name_length = sizeof name, .name = name};
    CHECK(ioctl(npu, VERSION, &version) == 0 && version.name_length == 5 && !memcmp(name, "rknpu", 5));
    struct action *action = (struct action *)pages;
    CHECK(ioctl(npu, ACTION, action) == 0);
    CHECK(mprotect(pages, 4096, PROT_READ) == 0);
    CHECK(ioctl(npu, ACTION, action) == -1 && errno == EFAULT);
    CHECK(open((const char *)8, O_RDONLY) == -1 && errno == EFAULT);
    struct stat status;
    CHECK(stat((const char *)8, &status) == -1 && errno == EFAULT);
    CHECK(munmap(pages, 4096) == 0);
}

static void wrong(void) {
    int npu = open_npu(0);
    CHECK(ioctl(npu, ACTION, NULL) == -1 && errno == EFAULT);
    CHECK(ioctl(npu, ACTION, (void *)8) == -1 && errno == EFAULT);
    CHECK(ioctl(npu, ACTION, (void *)-8) == -1 && errno == EFAULT);
    CHECK(answers(npu));
    bad_pointers(npu);
    CHECK(answers(npu));
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, npu, 0) == MAP_FAILED && errno == EINVAL);
    struct prime prime = {.fd = 999};
    CHECK(ioctl(npu, IMPORT_FD, &prime) == -1 && errno == EBADF);
    close(npu);
    CHECK(ioctl(npu, ACTION, &prime) == -1 && errno == EBADF);
    CHECK(open(node, O_RDWR | O_DIRECTORY) < 0);
}

/* Programs that close everything, and descriptors that come back as something else. */
static void closes(void) {
    int npu = open_npu(0);
    CHECK(answers(npu));
    for (int number = 3; number < 1024; number++) close(number);
    int others[300];
    for (int number = 0; number < 300; number++) {
        int pair[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0); /* these sit where our connections were */
        others[number] = pair[0];
    }
    for (int number = 0; number < 300; number += 7) CHECK(!answers(others[number]));
    npu = open_npu(0);
    CHECK(answers(npu));
    FILE *stream = fdopen(npu, "r");
    fclose(stream); /* not through close() */
    int plain = open("/dev/null", O_RDWR);
    struct stat status;
    CHECK(plain == npu && fstat(plain, &status) == 0 && major(status.st_rdev) == 1);
    struct action action;
    CHECK(ioctl(plain, ACTION, &action) == -1 && IS_NO_IOCTL);
}

static void untouched(void) {
    struct stat status;
    int value, pair[2];
    char text[64];
    int null = open("/dev/null", O_RDWR);
    CHECK(null >= 0 && ioctl(null, ACTION, &value) == -1 && IS_NO_IOCTL);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && ioctl(pair[0], FIONREAD, &value) == 0);
    CHECK(fstat(pair[0], &status) == 0 && S_ISSOCK(status.st_mode));
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, pair[0], 0) == MAP_FAILED && errno == ENODEV);
    CHECK(stat("/", &status) == 0 && S_ISDIR(status.st_mode));
    CHECK(access("/no/such/file", F_OK) == -1 && errno == ENOENT);
    CHECK(readlink("/proc/self/exe", text, sizeof text) > 0);
    int memory = memfd_create("plain", 0);
    CHECK(ftruncate(memory, 4096) == 0 && ioctl(memory, BUFFER_SYNC, &(uint64_t){3}) == -1 && IS_NO_IOCTL);
    char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(bytes != MAP_FAILED && (bytes[5] = 1));
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    char name[] = "probeXXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && write(file, "x", 1) == 1 && unlink(name) == 0);
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder && readdir(folder));
}

static void buffers(void) {
    int npu = open_npu(0);
    struct create made = make(npu, 8192);
    char *bytes = map_buffer(npu, &made);
    strcpy(bytes, "hello");
    struct prime prime = {.handle = made.handle, .flags = O_RDWR | O_CLOEXEC};
    CHECK(ioctl(npu, EXPORT_FD, &prime) == 0 && prime.fd > 2);
    CHECK(fcntl(prime.fd, F_GETFD) & FD_CLOEXEC);
    CHECK(lseek(prime.fd, 0, SEEK_END) == 8192);
    char *again = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, prime.fd, 0);
    CHECK(again != MAP_FAILED && !strcmp(again, "hello"));
    CHECK(ioctl(prime.fd, BUFFER_SYNC, &(uint64_t){3}) == 0);
    CHECK(ioctl(prime.fd, BUFFER_SYNC, &(uint64_t){1 << 10}) == -1 && errno == EINVAL);
    struct prime back = {.fd = prime.fd};
    CHECK(ioctl(npu, IMPORT_FD, &back) == 0 && back.handle == made.handle);
    int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
    struct heap request = {.length = 5000, .fd_flags = O_RDWR | O_CLOEXEC};
    CHECK(heap >= 0 && ioctl(heap, HEAP_ALLOC, &request) == 0);
    CHECK(ioctl((int)request.fd, BUFFER_SYNC, &(uint64_t){3}) == 0);
    struct prime foreign = {.fd = (int)request.fd};
    CHECK(ioctl(npu, IMPORT_FD, &foreign) == 0 && foreign.handle != made.handle);
}

static void libraries(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    int (*probe)(void) = (int (*)(void))dlsym(library, "probe_library");
    CHECK(probe && probe() == 42);
    CHECK(dlopen("/usr/lib/librknnrt.so", RTLD_NOW)); /* wherever it really is */
    CHECK(access("/usr/lib/librknnrt.so", R_OK) == 0);
}

int main(int count, char **words) {
    const struct { const char *name; void (*run)(void); } subjects[] = {
        {"listings", listings}, {"status", status}, {"links", links}, {"other_ways", other_ways}, {"texts", texts},
        {"copies", copies}, {"forks", forks}, {"executes", executes}, {"passes", passes}, {"threads", threads},
        {"signals", signals}, {"wrong", wrong}, {"closes", closes}, {"untouched", untouched}, {"buffers", buffers},
    };
    self = words[0];
    if (count > 2 && !strcmp(words[1], "inherited")) inherited(words[2]);
    if (count > 2 && !strcmp(words[1], "libraries")) { libraries(words[2]); return 0; }
    for (unsigned number = 0; count > 1 && number < sizeof subjects / sizeof *subjects; number++)
        if (!strcmp(words[1], subjects[number].name)) { subjects[number].run(); return 0; }
    return 2;
}
