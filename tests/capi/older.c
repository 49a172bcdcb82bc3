/* A program of an older version, compiled with OPENRKNN_ABI_VERSION: its structs and signatures are understood. */
#include "program.h"

static void product(void) {
    rknn_context context;
    rknn_matmul_info info = {0};
    rknn_matmul_io_attr io[2];
    info.M = 4, info.K = 64, info.N = 32;
#if OPENRKNN_ABI_VERSION < 160
    info.type = RKNN_TENSOR_INT8;
#else
    info.type = RKNN_INT8_MM_INT8_TO_INT32;
#endif
    CHECK(rknn_matmul_create(&context, &info, io));
    MUST(io[0].A.dims[0] == 4 && io[0].A.dims[1] == 64 && io[0].C.type == RKNN_TENSOR_INT32);
    rknn_tensor_mem *A = rknn_create_mem(context, io[0].A.size), *B = rknn_create_mem(context, io[0].B.size);
    rknn_tensor_mem *C = rknn_create_mem(context, io[0].C.size);
    MUST(A && B && C);
    memset(A->virt_addr, 2, io[0].A.size);
    memset(B->virt_addr, 3, io[0].B.size);
    CHECK(rknn_matmul_set_io_mem(context, A, &io[0].A));
    CHECK(rknn_matmul_set_io_mem(context, B, &io[0].B));
    CHECK(rknn_matmul_set_io_mem(context, C, &io[0].C));
    CHECK(rknn_matmul_run(context));
    for (int index = 0; index < 4 * 32; index++) MUST(((int32_t *)C->virt_addr)[index] == 64 * 2 * 3);
    CHECK(rknn_destroy_mem(context, A));
    CHECK(rknn_destroy_mem(context, B));
    CHECK(rknn_destroy_mem(context, C));
    CHECK(rknn_matmul_destroy(context));
#if OPENRKNN_ABI_VERSION >= 200
    rknn_matmul_shape shapes[2] = {{1, 64, 32}, {4, 64, 32}};
#if OPENRKNN_ABI_VERSION >= 210
    CHECK(rknn_matmul_create_dynamic_shape(&context, &info, 2, shapes, io));
#else
    CHECK(rknn_matmul_create_dyn_shape(&context, &info, 2, shapes, io));
#endif
    MUST(io[0].A.dims[0] == 1 && io[1].A.dims[0] == 4);
    CHECK(rknn_matmul_destroy(context));
    char normal[64 * 32], native[64 * 32];
    memset(normal, 5, sizeof normal);
#if OPENRKNN_ABI_VERSION >= 210
    CHECK(rknn_B_normal_layout_to_native_layout(normal, native, 64, 32, &info));
#else
    CHECK(rknn_B_normal_layout_to_native_layout(normal, native, 64, 32, 32, 32, info.type));
#endif
    MUST(native[0] == 5 && native[sizeof native - 1] == 5);
#endif
}

int main(int count, char **words) {
    rknn_context context, second;
    rknn_init_extend extend;
    rknn_mem_size sizes[2];
    if (count < 2) return 2;
    CHECK(rknn_init(&context, words[1], 0, 0, NULL));
    unsigned expected = run_once(context);
    memset(sizes, 0x55, sizeof sizes);
    CHECK(rknn_query(context, RKNN_QUERY_MEM_SIZE, &sizes[0], sizeof sizes[0]));
    MUST(sizes[0].total_weight_size > 0 && sizes[1].total_weight_size == 0x55555555);
    memset(&extend, 0, sizeof extend);
    extend.ctx = context;
    CHECK(rknn_init(&second, words[1], 0, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend));
    MUST(run_once(second) == expected);
    CHECK(rknn_destroy(second));
    CHECK(rknn_destroy(context));
    if (OPENRKNN_ABI_VERSION >= 150) product();
    printf("fine\n");
    return 0;
}
