/* Every function with pointers that are NULL, wild, unmapped, cut by the end of a page, freed or of the other kind: each
   call is refused, and the process lives. */
#include "program.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static int refused;

#define BAD(call)                                                                         \
    do {                                                                                  \
        errno = 77;                                                                       \
        int code_ = (call);                                                               \
        if (code_ >= 0 || errno != 77) { printf("line %d: %s = %d\n", __LINE__, #call, code_); exit(1); } \
        refused++;                                                                        \
    } while (0)
#define NONE(call)                                                                        \
    do {                                                                                  \
        if ((call) != NULL) { printf("line %d: %s is not NULL\n", __LINE__, #call); exit(1); } \
        refused++;                                                                        \
    } while (0)

static rknn_context context, matmul;
static char *model;

static void bad_pointer(void *bad) {
    rknn_context made;
    rknn_tensor_attr attr = {0};
    rknn_matmul_info info = {.M = 4, .K = 64, .N = 64, .type = RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32};
    rknn_matmul_io_attr io;
    rknn_matmul_shape shape = {4, 64, 64};
    rknn_tensor_mem *good = rknn_create_mem(context, 4096);
    MUST(good);

    BAD(rknn_init(bad, model, 0, 0, NULL));
    BAD(rknn_init(&made, bad, 0, 0, NULL));
    BAD(rknn_init(&made, bad, 100000, 0, NULL));
    if (bad) BAD(rknn_init(&made, model, 0, 0, bad));
    BAD(rknn_dup_context(bad, &made));
    BAD(rknn_dup_context(&context, bad));
    for (int command = -1; command < 20; command++) BAD(rknn_query(context, (rknn_query_cmd)command, bad, 40000));
    BAD(rknn_inputs_set(context, 1, bad));
    rknn_input input = {.buf = bad, .size = 768, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    BAD(rknn_inputs_set(context, 1, &input));
    if (bad) BAD(rknn_run(context, bad));
    if (bad) BAD(rknn_wait(context, bad));
    BAD(rknn_outputs_get(context, 1, bad, NULL));
    rknn_output output = {.is_prealloc = 1, .buf = bad, .size = 100000};
    BAD(rknn_outputs_get(context, 1, &output, NULL));
    BAD(rknn_outputs_release(context, 1, bad));
    output.is_prealloc = 0;
    if (bad) BAD(rknn_outputs_release(context, 1, &output));
    BAD(rknn_destroy_mem(context, bad));
    BAD(rknn_set_weight_mem(context, bad));
    BAD(rknn_set_internal_mem(context, bad));
    BAD(rknn_set_io_mem(context, bad, &attr));
    BAD(rknn_set_io_mem(context, good, bad));
    BAD(rknn_set_input_shape(context, bad));
    BAD(rknn_set_input_shapes(context, 1, bad));
    BAD(rknn_mem_sync(context, bad, RKNN_MEMORY_SYNC_TO_DEVICE));
    BAD(rknn_matmul_create(bad, &info, &io));
    BAD(rknn_matmul_create(&made, bad, &io));
    BAD(rknn_matmul_create(&made, &info, bad));
    BAD(rknn_matmul_create_dynamic_shape(bad, &info, 1, &shape, &io));
    BAD(rknn_matmul_create_dynamic_shape(&made, bad, 1, &shape, &io));
    BAD(rknn_matmul_create_dynamic_shape(&made, &info, 1, bad, &io));
    BAD(rknn_matmul_create_dynamic_shape(&made, &info, 1, &shape, bad));
    BAD(rknn_matmul_set_io_mem(matmul, bad, &io.A));
    BAD(rknn_matmul_set_io_mem(matmul, good, bad));
    BAD(rknn_matmul_set_quant_params(matmul, bad));
    rknn_quant_params params = {.name = "B", .scale = bad, .scale_len = 64, .zp = bad, .zp_len = 64};
    BAD(rknn_matmul_set_quant_params(matmul, &params));
    BAD(rknn_matmul_get_quant_params(matmul, bad, NULL));
    BAD(rknn_matmul_set_dynamic_shape(matmul, bad));
    static char room[64 * 64 * 2];
    BAD(rknn_B_normal_layout_to_native_layout(bad, room, 64, 64, &info));
    BAD(rknn_B_normal_layout_to_native_layout(room, bad, 64, 64, &info));
    BAD(rknn_B_normal_layout_to_native_layout(room, room, 64, 64, bad));
    BAD(rknn_register_custom_ops(context, bad, 1));
    rknn_custom_op_context op_context = {.internal_ctx = 12345};
    rknn_custom_op_attr op_attr = {.n_elems = 3};
    rknn_custom_op_get_op_attr(bad, "axis", &op_attr);
    MUST(op_attr.n_elems == 0);
    rknn_custom_op_get_op_attr(&op_context, bad, &op_attr);
    rknn_custom_op_get_op_attr(&op_context, "axis", bad);
    CHECK(rknn_destroy_mem(context, good));
}

/* A number that is no context of this kind. */
static void bad_context(rknn_context wrong) {
    rknn_context made;
    rknn_tensor_attr attr = {0};
    rknn_input input = {.buf = &attr, .size = sizeof attr};
    rknn_output output = {0};
    rknn_custom_op op = {0};
    BAD(rknn_dup_context(&wrong, &made));
    if (wrong != matmul) BAD(rknn_destroy(wrong));
    BAD(rknn_query(wrong, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    BAD(rknn_inputs_set(wrong, 1, &input));
    BAD(rknn_set_batch_core_num(wrong, 1));
    BAD(rknn_set_core_mask(wrong, RKNN_NPU_CORE_0));
    BAD(rknn_run(wrong, NULL));
    BAD(rknn_wait(wrong, NULL));
    BAD(rknn_outputs_get(wrong, 1, &output, NULL));
    BAD(rknn_outputs_release(wrong, 1, &output));
    BAD(rknn_set_input_shapes(wrong, 1, &attr));
    BAD(rknn_register_custom_ops(wrong, &op, 1));
}

static void bad_product(rknn_context wrong) {
    rknn_quant_params params = {.name = "A"};
    rknn_matmul_shape shape = {4, 64, 64};
    BAD(rknn_matmul_set_core_mask(wrong, RKNN_NPU_CORE_0));
    BAD(rknn_matmul_set_quant_params(wrong, &params));
    BAD(rknn_matmul_get_quant_params(wrong, &params, NULL));
    BAD(rknn_matmul_set_dynamic_shape(wrong, &shape));
    BAD(rknn_matmul_run(wrong));
    BAD(rknn_matmul_destroy(wrong));
}

static void bad_numbers(void) {
    rknn_tensor_attr attr = {0};
    rknn_input input = {.buf = &attr, .size = UINT32_MAX};
    BAD(rknn_inputs_set(context, 1, &input));
    BAD(rknn_inputs_set(context, UINT32_MAX, &input));
    BAD(rknn_outputs_get(context, UINT32_MAX, (rknn_output *)&attr, NULL));
    BAD(rknn_set_input_shapes(context, UINT32_MAX, &attr));
    BAD(rknn_register_custom_ops(context, (rknn_custom_op *)&attr, UINT32_MAX));
    NONE(rknn_create_mem(context, 0));
    NONE(rknn_create_mem2(context, UINT64_MAX, 0));
    NONE(rknn_create_mem(12345, 4096));
    NONE(rknn_create_mem_from_fd(context, -1, NULL, 4096, 0));
    NONE(rknn_create_mem_from_fd(context, 999, NULL, 4096, 0));
    NONE(rknn_create_mem_from_fd(context, 0, NULL, UINT32_MAX, -1));
    NONE(rknn_create_mem_from_phys(context, 0xdead0000, NULL, 4096));
    NONE(rknn_create_mem_from_mb_blk(context, NULL, 0));
    rknn_tensor_mem *memory = rknn_create_mem(context, 4096), copy;
    MUST(memory);
    copy = *memory;
    CHECK(rknn_destroy_mem(context, memory));
    BAD(rknn_destroy_mem(context, &copy));
    BAD(rknn_set_io_mem(context, &copy, &attr));
}

int main(int count, char **words) {
    rknn_matmul_info info = {.M = 4, .K = 64, .N = 64, .type = RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32};
    rknn_matmul_io_attr io;
    if (count < 2) return 2;
    model = words[1];
    CHECK(rknn_init(&context, model, 0, 0, NULL));
    CHECK(rknn_matmul_create(&matmul, &info, &io));
    unsigned before = run_once(context);

    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED);
    memset(pages, 1, (size_t)page);
    mprotect(pages + page, (size_t)page, PROT_NONE);
    bad_pointer(NULL);
    bad_pointer((void *)8);
    bad_pointer((void *)(uintptr_t)0xdead0000u);
    bad_pointer(pages + page);     /* not accessible */
    bad_pointer(pages + page - 1); /* the last byte of a page */
    bad_context(0);
    bad_context(12345);
    bad_context(matmul);
    bad_product(0);
    bad_product(context);
    bad_numbers();

    MUST(run_once(context) == before);
    CHECK(rknn_matmul_destroy(matmul));
    CHECK(rknn_destroy(context));
    bad_context(context);
    bad_product(matmul);
    printf("%d refused\n", refused);
    return 0;
}
