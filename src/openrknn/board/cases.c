/*
 * Runs cases for a kernel driver: a text of one operation per line, which `openrknn.board.cases` writes. Each operation
 * that can fail prints one line with its result and its errno, so that the answers of two kernels can be compared.
 *
 *     case NAME                       close all files, forget all variables
 *     open VAR PATH FLAGS             buffer VAR SIZE          bytes VAR HEX
 *     ioctl FILE REQUEST ADDRESS      close FILE               dup VAR FILE
 *     map VAR FILE SIZE OFFSET PROT   unmap ADDRESS SIZE       memfd VAR SIZE
 *     set32 ADDRESS VALUE             set64 ADDRESS VALUE      write ADDRESS HEX
 *     get32 VAR ADDRESS               get64 VAR ADDRESS        show VALUE
 *     sum ADDRESS SIZE                later VAR NANOSECONDS    (now + nanoseconds, CLOCK_MONOTONIC)
 *     copy ADDRESS ADDRESS SIZE       poll FILE MILLISECONDS   (prints 1 if it is readable by then)
 *     child                           what follows, up to `end`, in another process; prints its end
 *     crowd NUMBER                    the same in so many processes at once; prints what one of them did, and how many
 *                                     of them did the same
 *     end                             kill                     (the child ends itself with SIGKILL)
 *
 * A value is a number, $VAR, or $VAR+number.
 *
 * With a second argument, the name of each case is also written to that file: in the kernel's log (/dev/kmsg) it shows
 * which case a warning belongs to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_NAMES = 128, MOST_WORDS = 8, FIRST_FILE = 3, LAST_FILE = 64, MOST_CHILDREN = 32, MOST_OUTPUT = 4096 };

static struct { char name[24]; uint64_t value; } variables[MOST_NAMES];
static int variable_count;
static struct { void *place; size_t size; } maps[MOST_NAMES];
static int map_count;
static int marks = -1;

static uint64_t value_of(const char *word) {
    if (word == NULL)
        return 0;
    if (*word != '$')
        return strtoull(word, NULL, 0);
    const char *plus = strchr(word, '+');
    size_t length = plus != NULL ? (size_t)(plus - word - 1) : strlen(word + 1);
    for (int i = 0; i < variable_count; i++)
        if (strlen(variables[i].name) == length && strncmp(variables[i].name, word + 1, length) == 0)
            return variables[i].value + (plus != NULL ? strtoull(plus + 1, NULL, 0) : 0);
    fprintf(stderr, "no variable %s\n", word);
    exit(2);
}

static void set(const char *name, uint64_t value) {
    for (int i = 0; i < variable_count; i++)
        if (strcmp(variables[i].name, name) == 0) {
            variables[i].value = value;
            return;
        }
    if (variable_count == MOST_NAMES)
        exit(2);
    snprintf(variables[variable_count].name, sizeof variables[0].name, "%s", name);
    variables[variable_count++].value = value;
}

static void *pointer(const char *word) { return (void *)(uintptr_t)value_of(word); }

static void answer(const char *what, long result) {
    if (result < 0)
        printf("%s: errno %d\n", what, errno);
    else
        printf("%s: %ld\n", what, result);
}

static size_t decode(const char *hex, unsigned char *target) {
    size_t count = strlen(hex) / 2;
    for (size_t i = 0; i < count; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        target[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return count;
}

static uint32_t sum_of(const unsigned char *data, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ data[i]) * 16777619u;
    return sum;
}

/* Maps first, and files in the reverse order: Linux 7.2's rocket breaks when a buffer outlives the file it is of. */
static void begin(const char *name) {
    while (map_count > 0) {
        map_count--;
        munmap(maps[map_count].place, maps[map_count].size);
    }
    for (int file = LAST_FILE; file >= FIRST_FILE; file--)
        close(file);
    variable_count = 0;
    char line[96]; /* in one write, and not by dprintf: that seeks, which /dev/kmsg refuses */
    int length = snprintf(line, sizeof line, "case %s\n", name);
    fputs(line, stdout);
    if (marks >= 0 && write(marks, line, (size_t)length) != length)
        marks = -1;
}

static void prepare(char **words, int count) {
    const char *what = words[0];
    if (strcmp(what, "buffer") == 0)
        set(words[1], (uintptr_t)calloc(1, value_of(words[2]) + 64));
    else if (strcmp(what, "bytes") == 0) {
        unsigned char *data = calloc(1, strlen(words[2]) / 2 + 64);
        decode(words[2], data);
        set(words[1], (uintptr_t)data);
    } else if (strcmp(what, "set32") == 0)
        *(volatile uint32_t *)pointer(words[1]) = (uint32_t)value_of(words[2]);
    else if (strcmp(what, "set64") == 0)
        *(volatile uint64_t *)pointer(words[1]) = value_of(words[2]);
    else if (strcmp(what, "copy") == 0)
        memcpy(pointer(words[1]), pointer(words[2]), value_of(words[3]));
    else if (strcmp(what, "write") == 0)
        decode(words[2], pointer(words[1]));
    else if (strcmp(what, "get32") == 0)
        set(words[1], *(volatile uint32_t *)pointer(words[2]));
    else if (strcmp(what, "get64") == 0)
        set(words[1], *(volatile uint64_t *)pointer(words[2]));
    else if (strcmp(what, "later") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        set(words[1], (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + value_of(words[2]));
    } else {
        fprintf(stderr, "no operation %s of %d words\n", what, count);
        exit(2);
    }
}

static void act(char **words, int count) {
    const char *what = words[0];
    errno = 0;
    if (strcmp(what, "case") == 0)
        begin(words[1]);
    else if (strcmp(what, "open") == 0) {
        int file = open(words[2], (int)value_of(words[3]));
        set(words[1], (uint64_t)(int64_t)file);
        answer("open", file < 0 ? -1 : 0);
    } else if (strcmp(what, "ioctl") == 0)
        answer("ioctl", ioctl((int)value_of(words[1]), value_of(words[2]), pointer(words[3])));
    else if (strcmp(what, "close") == 0)
        answer("close", close((int)value_of(words[1])));
    else if (strcmp(what, "dup") == 0) {
        int file = dup((int)value_of(words[2]));
        set(words[1], (uint64_t)(int64_t)file);
        answer("dup", file < 0 ? -1 : 0);
    } else if (strcmp(what, "memfd") == 0) {
        int file = memfd_create("foreign", 0);
        set(words[1], (uint64_t)(int64_t)file);
        answer("memfd", file < 0 ? -1 : ftruncate(file, (off_t)value_of(words[2])));
    } else if (strcmp(what, "map") == 0) {
        void *place = mmap(NULL, value_of(words[3]), (int)value_of(words[5]), MAP_SHARED, (int)value_of(words[2]),
                           (off_t)value_of(words[4]));
        set(words[1], (uintptr_t)place);
        if (place != MAP_FAILED && map_count < MOST_NAMES) {
            maps[map_count].place = place;
            maps[map_count++].size = value_of(words[3]);
        }
        answer("map", place == MAP_FAILED ? -1 : 0);
    } else if (strcmp(what, "poll") == 0) {
        struct pollfd asked = {(int)value_of(words[1]), POLLIN, 0};
        answer("poll", poll(&asked, 1, (int)value_of(words[2])));
    } else if (strcmp(what, "unmap") == 0)
        answer("unmap", munmap(pointer(words[1]), value_of(words[2])));
    else if (strcmp(what, "show") == 0)
        printf("show: %llx\n", (unsigned long long)value_of(words[1]));
    else if (strcmp(what, "sum") == 0)
        printf("sum: %08x\n", sum_of(pointer(words[1]), value_of(words[2])));
    else if (strcmp(what, "kill") == 0) {
        fflush(stdout);
        raise(SIGKILL);
    } else
        prepare(words, count);
}

/* Start `count` processes; 0 in each of them, whose output goes to a file of its own. */
static pid_t start_crowd(int count, pid_t *children, int *outputs) {
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        outputs[i] = memfd_create("output", 0);
        if ((children[i] = fork()) == 0) {
            dup2(outputs[i], STDOUT_FILENO);
            return 0;
        }
    }
    return 1;
}

static void end_crowd(int count, pid_t *children, int *outputs) {
    static char first[MOST_OUTPUT], other[MOST_OUTPUT];
    int alike = 0;
    for (int i = 0; i < count; i++) {
        int status = 0;
        char *text = i == 0 ? first : other;
        waitpid(children[i], &status, 0);
        memset(text, 0, MOST_OUTPUT);
        if (pread(outputs[i], text, MOST_OUTPUT - 1, 0) < 0 || status != 0)
            snprintf(text, MOST_OUTPUT, "ended with %d\n", status);
        alike += strcmp(first, text) == 0;
        close(outputs[i]);
    }
    printf("%scrowd: %d of %d alike\n", first, alike, count);
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    char *line = NULL, *text = NULL;
    size_t size = 0;
    size_t room = 0;
    pid_t child = -1, children[MOST_CHILDREN];
    int skips = 0, crowd = 0, outputs[MOST_CHILDREN];
    if (file == NULL) {
        perror(argv[1]);
        return 2;
    }
    /* All of it at once: a child that reads on would move the place in the file for its parent. */
    if (getdelim(&text, &size, 0, file) <= 0 || (file = fmemopen(text, strlen(text), "r")) == NULL)
        return 2;
    if (argc > 2 && (marks = open(argv[2], O_WRONLY)) >= 0)
        marks = fcntl(marks, F_DUPFD, LAST_FILE + 1); /* `begin` closes those below */
    while (getline(&line, &room, file) > 0) {
        char *words[MOST_WORDS] = {0};
        int count = 0;
        for (char *word = strtok(line, " \n"); word != NULL && count < MOST_WORDS; word = strtok(NULL, " \n"))
            words[count++] = word;
        if (count == 0 || words[0][0] == '#')
            continue;
        if (strcmp(words[0], "child") == 0) {
            fflush(stdout);
            child = fork();
            skips = child != 0;
        } else if (strcmp(words[0], "crowd") == 0) {
            crowd = (int)value_of(words[1]);
            if (crowd > MOST_CHILDREN)
                return 2;
            child = start_crowd(crowd, children, outputs);
            skips = child != 0;
        } else if (strcmp(words[0], "end") == 0) {
            if (child == 0) {
                fflush(stdout);
                _exit(0);
            }
            skips = 0;
            if (crowd > 0) {
                end_crowd(crowd, children, outputs);
                crowd = 0;
                continue;
            }
            int status = 0;
            waitpid(child, &status, 0);
            printf("child: %d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
        } else if (!skips)
            act(words, count);
    }
    begin("end");
    printf("done\n");
    return 0;
}
