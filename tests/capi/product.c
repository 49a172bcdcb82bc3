/* A product as back ends of ggml make it: memory of a descriptor, synchronised, a version, ended by rknn_destroy. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

enum { ROWS = 4, DEPTH = 64, COLUMNS = 32 };

int main(void) {
    rknn_matmul_ctx context = 0;
    rknn_matmul_info info = {.M = ROWS, .K = DEPTH, .N = COLUMNS, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io = {0};
    CHECK(rknn_matmul_create(&context, &info, &io));
    rknn_sdk_version version = {0};
    CHECK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    MUST(strstr(version.api_version, "openrknn"));
    rknn_input_output_num numbers;
    MUST(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &numbers, sizeof numbers) == RKNN_ERR_CTX_INVALID);

    int file = memfd_create("b", 0);
    MUST(file >= 0 && ftruncate(file, io.B.size) == 0);
    int8_t *columns = mmap(NULL, io.B.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(columns != MAP_FAILED);
    for (int at = 0; at < DEPTH * COLUMNS; at++) columns[at] = (int8_t)(at % 7 - 3);
    rknn_tensor_mem *a = rknn_create_mem(context, io.A.size), *c = rknn_create_mem(context, io.C.size);
    rknn_tensor_mem *b = rknn_create_mem_from_fd(context, file, columns, io.B.size, 0);
    MUST(a && b && c);
    for (int at = 0; at < ROWS * DEPTH; at++) ((int8_t *)a->virt_addr)[at] = (int8_t)(at % 11 - 5);
    CHECK(rknn_mem_sync(context, a, RKNN_MEMORY_SYNC_TO_DEVICE));
    CHECK(rknn_matmul_set_io_mem(context, a, &io.A));
    CHECK(rknn_matmul_set_io_mem(context, b, &io.B));
    CHECK(rknn_matmul_set_io_mem(context, c, &io.C));
    CHECK(rknn_matmul_run(context));
    CHECK(rknn_mem_sync(context, c, RKNN_MEMORY_SYNC_FROM_DEVICE));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int sum = 0;
            for (int at = 0; at < DEPTH; at++)
                sum += ((row * DEPTH + at) % 11 - 5) * ((at * COLUMNS + column) % 7 - 3);
            MUST(((int32_t *)c->virt_addr)[row * COLUMNS + column] == sum);
        }
    CHECK(rknn_destroy_mem(context, a));
    CHECK(rknn_destroy_mem(context, b));
    CHECK(rknn_destroy_mem(context, c));
    CHECK(rknn_destroy(context));
    MUST(rknn_matmul_destroy(context) == RKNN_ERR_CTX_INVALID);
    puts("fine");
    return 0;
}
