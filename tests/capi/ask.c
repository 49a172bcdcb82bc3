/*
 * Calls functions of a library as a script says, and writes down what they return and leave in memory.
 *
 *   ask LIBRARY SCRIPT REPORT
 *
 * A line of the script is a command and its words; buffers have numbers:
 *
 *   buffer N SIZE FILL            make buffer N, every byte FILL
 *   file N PATH                   make buffer N of a file
 *   write N OFFSET HEX            put bytes there
 *   put N OFFSET VALUE            put 8 bytes there
 *   copy TO FROM LENGTH           copy bytes between addresses
 *   call LABEL FUNCTION VALUE...  call it with up to six integers or pointers; writes the low 32 bits of the result
 *   make LABEL N FUNCTION VALUE...  the same for a function that returns a pointer: it goes to the start of buffer N
 *   show LABEL VALUE LENGTH       write bytes at an address as hex
 *   sum LABEL VALUE LENGTH        write a checksum (FNV-1a, 64 bits) of bytes at an address
 *
 * A VALUE is a number, or @N+O (the address of byte O of buffer N), *N+O (the 8 bytes there), %N+O (the 4 bytes there);
 * "+O" can be left out. A command that would read address 0 is left out and noted as null.
 *
 * The report is JSON lines, flushed after each; a call is noted before it is made, so that a crash has a place. The
 * library is given to this program, not linked: it is the vendor's or ours.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 256, MAX_WORDS = 16, ROOM = 4096 };

typedef uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static void *library;
static FILE *report;
static uint8_t *buffers[MAX_BUFFERS];

static void stop(const char *what, const char *about) {
    fprintf(stderr, "ask: %s: %s\n", what, about);
    exit(2);
}

static unsigned number_of(const char *text) {
    unsigned number = (unsigned)strtoul(text, NULL, 0);
    if (number >= MAX_BUFFERS) stop("no such buffer", text);
    return number;
}

/* The fill goes on behind the end, so that a library that writes too far is seen and not punished. */
static void make_buffer(const char *name, size_t size, int fill) {
    unsigned number = number_of(name);
    free(buffers[number]);
    buffers[number] = malloc(size + ROOM);
    if (!buffers[number]) stop("no memory for buffer", name);
    memset(buffers[number], fill, size + ROOM);
}

static uint8_t *place(const char *text) {
    char *plus = strchr(text, '+');
    uint8_t *buffer = buffers[number_of(text)];
    if (!buffer) stop("buffer was not made", text);
    return buffer + (plus ? strtoull(plus + 1, NULL, 0) : 0);
}

static uint64_t value_of(const char *text) {
    uint64_t wide;
    uint32_t narrow;
    switch (*text) {
    case '@': return (uint64_t)(uintptr_t)place(text + 1);
    case '*': memcpy(&wide, place(text + 1), sizeof wide); return wide;
    case '%': memcpy(&narrow, place(text + 1), sizeof narrow); return narrow;
    case '-': return (uint64_t)strtoll(text, NULL, 0);
    }
    return strtoull(text, NULL, 0);
}

static void read_file(const char *name, const char *path) {
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END) != 0) stop("cannot read", path);
    size_t size = (size_t)ftell(stream);
    rewind(stream);
    make_buffer(name, size, 0);
    if (fread(buffers[number_of(name)], 1, size, stream) != size) stop("cannot read", path);
    fclose(stream);
}

static void write_hex(uint8_t *to, const char *text) {
    for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2) *to++ = (uint8_t)byte;
}

static uint64_t call(char **words, const char *label) {
    function called = (function)(uintptr_t)dlsym(library, words[0]);
    uint64_t values[6] = {0};
    for (int index = 0; index < 6 && words[index + 1]; index++) values[index] = value_of(words[index + 1]);
    fprintf(report, "{\"enter\": \"%s\"}\n", label);
    fflush(report);
    if (!called) { fprintf(report, "{\"label\": \"%s\", \"missing\": \"%s\"}\n", label, words[0]); return 0; }
    return called(values[0], values[1], values[2], values[3], values[4], values[5]);
}

static void show(const char *label, const uint8_t *from, uint64_t length) {
    fprintf(report, "{\"label\": \"%s\", \"bytes\": \"", label);
    for (uint64_t index = 0; index < length; index++) fprintf(report, "%02x", from[index]);
    fprintf(report, "\"}\n");
}

static void sum(const char *label, const uint8_t *from, uint64_t length) {
    uint64_t state = 0xcbf29ce484222325u;
    for (uint64_t index = 0; index < length; index++) state = (state ^ from[index]) * 0x100000001b3u;
    fprintf(report, "{\"label\": \"%s\", \"length\": %llu, \"sum\": \"%016llx\"}\n", label, (unsigned long long)length,
            (unsigned long long)state);
}

static void look(char **words) {
    const uint8_t *from = (const uint8_t *)(uintptr_t)value_of(words[2]);
    if (!from) fprintf(report, "{\"label\": \"%s\", \"null\": true}\n", words[1]);
    else (*words[0] == 's' && words[0][1] == 'h' ? show : sum)(words[1], from, value_of(words[3]));
}

static void copy(char **words) {
    void *to = (void *)(uintptr_t)value_of(words[1]);
    const void *from = (const void *)(uintptr_t)value_of(words[2]);
    if (to && from) memcpy(to, from, value_of(words[3]));
}

static void execute(char **words) {
    const char *name = words[0];
    uint64_t result;
    if (!strcmp(name, "buffer")) make_buffer(words[1], strtoull(words[2], NULL, 0), atoi(words[3]));
    else if (!strcmp(name, "file")) read_file(words[1], words[2]);
    else if (!strcmp(name, "write")) write_hex(place(words[1]) + strtoull(words[2], NULL, 0), words[3]);
    else if (!strcmp(name, "put")) {
        result = value_of(words[3]);
        memcpy(place(words[1]) + strtoull(words[2], NULL, 0), &result, sizeof result);
    } else if (!strcmp(name, "copy")) copy(words);
    else if (!strcmp(name, "call")) {
        result = call(words + 2, words[1]);
        fprintf(report, "{\"label\": \"%s\", \"code\": %d}\n", words[1], (int)(int32_t)result);
    } else if (!strcmp(name, "make")) {
        result = call(words + 3, words[1]);
        memcpy(place(words[2]), &result, sizeof result);
        fprintf(report, "{\"label\": \"%s\", \"made\": %s}\n", words[1], result ? "true" : "false");
    } else if (!strcmp(name, "show") || !strcmp(name, "sum")) look(words);
    else stop("unknown command", name);
    fflush(report);
}

int main(int count, char **arguments) {
    if (count != 4) stop("usage", "ask LIBRARY SCRIPT REPORT");
    FILE *script = fopen(arguments[2], "r");
    report = fopen(arguments[3], "w");
    if (!script || !report) stop("cannot open", script ? arguments[3] : arguments[2]);
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) stop("cannot load the library", dlerror());
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, script) > 0) {
        char *words[MAX_WORDS + 1] = {NULL}, *rest = NULL;
        int used = 0;
        for (char *word = strtok_r(line, " \n", &rest); word && used < MAX_WORDS; word = strtok_r(NULL, " \n", &rest))
            words[used++] = word;
        if (used) execute(words);
    }
    free(line);
    return 0;
}
