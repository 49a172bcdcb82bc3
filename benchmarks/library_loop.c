/*
 * A C program that uses the library as any other does; benchmarks/library.py tells it what to do, a line at a time.
 *
 *     library_loop MODEL bound|plain
 *
 * On standard input: "run N" makes N runs, "init N" makes N contexts and destroys them, "until SECONDS" runs for as
 * long. Each line is answered with one: nanoseconds of the best and of the median call, or the number of runs.
 */
#define _GNU_SOURCE
#include <rknn_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16 };

static rknn_context context;
static rknn_input_output_num counts;
static rknn_input inputs[MOST];
static rknn_output outputs[MOST];
static rknn_tensor_mem *memories[2 * MOST];
static const char *path;
static int is_bound;

static void stop(const char *what, int code) {
    fprintf(stderr, "library_loop: %s returned %d\n", what, code);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void check(const char *what, int code) {
    if (code < 0) stop(what, code);
}

static void bind(int is_output, uint32_t index) {
    rknn_tensor_attr attr = {.index = index};
    int query = is_output ? RKNN_QUERY_NATIVE_OUTPUT_ATTR : RKNN_QUERY_NATIVE_INPUT_ATTR;
    check("rknn_query", rknn_query(context, query, &attr, sizeof attr));
    rknn_tensor_mem *memory = rknn_create_mem(context, attr.size_with_stride);
    if (!memory) stop("rknn_create_mem", 0);
    memset(memory->virt_addr, 3, attr.size_with_stride);
    check("rknn_set_io_mem", rknn_set_io_mem(context, memory, &attr));
    memories[(is_output ? MOST : 0) + index] = memory;
}

static void prepare(void) {
    check("rknn_init", rknn_init(&context, (void *)path, 0, 0, NULL));
    check("rknn_query", rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &counts, sizeof counts));
    if (counts.n_input > MOST || counts.n_output > MOST) stop("too many tensors", 0);
    for (uint32_t i = 0; i < counts.n_input && is_bound; i++) bind(0, i);
    for (uint32_t i = 0; i < counts.n_output && is_bound; i++) bind(1, i);
    for (uint32_t i = 0; i < counts.n_input && !is_bound; i++) {
        rknn_tensor_attr attr = {.index = i};
        check("rknn_query", rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
        inputs[i] = (rknn_input){.index = i,
                                 .buf = calloc(1, attr.n_elems),
                                 .size = attr.n_elems,
                                 .type = RKNN_TENSOR_UINT8,
                                 .fmt = RKNN_TENSOR_NHWC};
    }
    for (uint32_t i = 0; i < counts.n_output && !is_bound; i++) {
        rknn_tensor_attr attr = {.index = i};
        check("rknn_query", rknn_query(context, RKNN_QUERY_OUTPUT_ATTR, &attr, sizeof attr));
        outputs[i] = (rknn_output){
            .index = i, .want_float = 1, .is_prealloc = 1, .buf = malloc(attr.n_elems * 4), .size = attr.n_elems * 4};
    }
}

static void run_once(void) {
    if (!is_bound) check("rknn_inputs_set", rknn_inputs_set(context, counts.n_input, inputs));
    check("rknn_run", rknn_run(context, NULL));
    if (!is_bound) {
        check("rknn_outputs_get", rknn_outputs_get(context, counts.n_output, outputs, NULL));
        check("rknn_outputs_release", rknn_outputs_release(context, counts.n_output, outputs));
    }
}

static void init_once(void) {
    rknn_context another;
    check("rknn_init", rknn_init(&another, (void *)path, 0, 0, NULL));
    check("rknn_destroy", rknn_destroy(another));
}

static int compare(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void measure(void (*call)(void), int calls) {
    double *times = malloc(sizeof *times * (size_t)calls);
    for (int i = 0; i < calls; i++) {
        double began = now();
        call();
        times[i] = now() - began;
    }
    qsort(times, (size_t)calls, sizeof *times, compare);
    printf("%.0f %.0f\n", times[0], times[calls / 2]);
    free(times);
}

static void run_until(double seconds) {
    double end = now() + seconds * 1e9;
    long runs = 0;
    while (now() < end) run_once(), runs++;
    printf("%ld\n", runs);
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: library_loop MODEL bound|plain\n"), 2;
    path = words[1];
    is_bound = !strcmp(words[2], "bound");
    double began = now();
    prepare();
    run_once();
    printf("%.0f\n", now() - began);
    fflush(stdout);
    char line[64], verb[16];
    double amount;
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%15s %lf", verb, &amount) == 2) {
        if (!strcmp(verb, "run")) measure(run_once, (int)amount);
        else if (!strcmp(verb, "init")) measure(init_once, (int)amount);
        else run_until(amount);
        fflush(stdout);
    }
    return rknn_destroy(context) ? 1 : 0;
}
