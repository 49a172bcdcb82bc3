/*
 * Runs one model through the vendor's C API, a turn for each line on standard input, and prints two numbers for each:
 * the milliseconds of the turn, and how many of them passed inside SUBMIT, where the NPU works.
 *
 *   exec_loop LIBRARY MODEL
 *
 * The declarations are our own, for the 64-bit interface of runtime 1.5.2. Compile with -rdynamic: the runtime's calls
 * of ioctl come through here first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_TENSORS = 16, QUERY_COUNTS = 0, QUERY_INPUT = 1, UINT8 = 3, NHWC = 1 };

struct counts { uint32_t inputs, outputs; };
struct attribute { uint32_t index, rank, dims[16]; char name[256]; uint32_t elements, size; int layout, type;
                   char rest[48]; };
struct input { uint32_t index; void *bytes; uint32_t size; uint8_t pass_through; int type, layout; };
struct output { uint8_t want_float, is_preallocated; uint32_t index; void *bytes; uint32_t size; };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

enum { SUBMIT_NUMBER = 0x41 };

static double inside_submit;

int ioctl(int descriptor, unsigned long request, ...) {
    static int (*next)(int, unsigned long, ...);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (!next) next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    if ((request & 0xffff) != ('d' << 8 | SUBMIT_NUMBER)) return next(descriptor, request, argument);
    double started = now();
    int result = next(descriptor, request, argument);
    inside_submit += now() - started;
    return result;
}

static void *read_file(const char *path, long *size) {
    FILE *stream = fopen(path, "rb");
    if (!stream) { perror(path); exit(2); }
    fseek(stream, 0, SEEK_END);
    *size = ftell(stream);
    rewind(stream);
    void *bytes = malloc((size_t)*size);
    if (fread(bytes, 1, (size_t)*size, stream) != (size_t)*size) exit(2);
    fclose(stream);
    return bytes;
}

static void *find(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) { fprintf(stderr, "the library has no %s\n", name); exit(2); }
    return symbol;
}

static void check(const char *call, int code) {
    if (code) { fprintf(stderr, "%s: %d\n", call, code); exit(1); }
}

int main(int count, char **words) {
    if (count != 3) return 2;
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    int (*init)(uint64_t *, void *, uint32_t, uint32_t, void *) = find(library, "rknn_init");
    int (*query)(uint64_t, int, void *, uint32_t) = find(library, "rknn_query");
    int (*set)(uint64_t, uint32_t, struct input *) = find(library, "rknn_inputs_set");
    int (*run)(uint64_t, void *) = find(library, "rknn_run");
    int (*get)(uint64_t, uint32_t, struct output *, void *) = find(library, "rknn_outputs_get");
    int (*release)(uint64_t, uint32_t, struct output *) = find(library, "rknn_outputs_release");
    long size;
    void *model = read_file(words[2], &size);
    uint64_t context;
    check("rknn_init", init(&context, model, (uint32_t)size, 0, NULL));
    struct counts counts;
    check("rknn_query", query(context, QUERY_COUNTS, &counts, sizeof counts));
    struct input inputs[MAX_TENSORS];
    for (uint32_t index = 0; index < counts.inputs; index++) {
        struct attribute attribute = {.index = index};
        check("rknn_query", query(context, QUERY_INPUT, &attribute, sizeof attribute));
        inputs[index] = (struct input){index, calloc(attribute.elements, 4), attribute.elements, 0, UINT8, NHWC};
    }
    for (int letter; (letter = getchar()) != EOF;) {
        if (letter != '\n') continue;
        struct output outputs[MAX_TENSORS] = {0};
        for (uint32_t index = 0; index < counts.outputs; index++)
            outputs[index] = (struct output){.index = index, .want_float = 1};
        double started = now();
        inside_submit = 0;
        check("rknn_inputs_set", set(context, counts.inputs, inputs));
        check("rknn_run", run(context, NULL));
        check("rknn_outputs_get", get(context, counts.outputs, outputs, NULL));
        printf("%.3f %.3f\n", now() - started, inside_submit);
        fflush(stdout);
        fflush(stdout);
        check("rknn_outputs_release", release(context, counts.outputs, outputs));
    }
    return 0;
}
