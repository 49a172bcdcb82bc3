/*
 * Products of matrices as a back end of ggml makes them: B is bound once, then many runs; benchmarks/matmul.py calls it.
 *
 *     matmul_loop TYPE M K N SECONDS
 *
 * Prints the nanoseconds of the best and of the median rknn_matmul_run.
 */
#define _GNU_SOURCE
#include <rknn_api.h>
#include <rknn_matmul_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 100000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void check(const char *what, int code) {
    if (code == 0) return;
    fprintf(stderr, "matmul_loop: %s returned %d\n", what, code);
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void bind(rknn_matmul_ctx context, rknn_matmul_tensor_attr *attribute) {
    rknn_tensor_mem *memory = rknn_create_mem(context, attribute->size);
    check("rknn_create_mem", memory ? 0 : -1);
    unsigned char *bytes = memory->virt_addr;
    for (uint32_t i = 0; i < attribute->size; i++) /* of float16, numbers near 1 */
        bytes[i] = (unsigned char)(attribute->type == RKNN_TENSOR_FLOAT16 && i % 2 ? 0x3c : i * 37 + i / 251);
    check("rknn_matmul_set_io_mem", rknn_matmul_set_io_mem(context, memory, attribute));
}

int main(int count, char **words) {
    static double times[MOST];
    if (count != 6) return 2;
    rknn_matmul_info info = {.type = (rknn_matmul_type)atoi(words[1]), .M = atoi(words[2]), .K = atoi(words[3]),
                             .N = atoi(words[4]), .B_layout = RKNN_MM_LAYOUT_NATIVE};
    rknn_matmul_io_attr io = {0};
    rknn_matmul_ctx context = 0;
    check("rknn_matmul_create", rknn_matmul_create(&context, &info, &io));
    bind(context, &io.A);
    bind(context, &io.B);
    bind(context, &io.C);
    check("rknn_matmul_run", rknn_matmul_run(context));
    int runs = 0;
    for (double end = now() + atof(words[5]) * 1e9; now() < end && runs < MOST; runs++) {
        double start = now();
        check("rknn_matmul_run", rknn_matmul_run(context));
        times[runs] = now() - start;
    }
    qsort(times, (size_t)runs, sizeof *times, compare);
    printf("%.0f %.0f\n", times[0], times[runs / 2]);
    check("rknn_matmul_destroy", rknn_matmul_destroy(context));
    return 0;
}
