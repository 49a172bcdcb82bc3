/* Random arguments: pools of good, dead and wild ones, and structs to hand in. */
#include <rknn_api.h>
#include <rknn_custom_op.h>
#include <rknn_matmul_api.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1 << 20, POOL = 6, LARGEST_CODE = 0, SMALLEST_CODE = -16 };

static uint64_t state;
static unsigned char *room; /* ROOM bytes, then a page that is not there */
static rknn_context contexts[POOL], matmuls[POOL], gone;
static rknn_matmul_io_attr matrices[POOL]; /* of matmuls */
static rknn_tensor_mem *memories[POOL], *freed;
static void *models[8];
static uint32_t model_bytes[8];
static int model_count;
static const char *paths[8];
enum {
    INIT,
    DESTROY,
    QUERY,
    INPUTS_SET,
    RUN,
    WAIT,
    OUTPUTS_GET,
    OUTPUTS_RELEASE,
    CREATE_MEM,
    DESTROY_MEM,
    SET_WEIGHT_MEM,
    SET_INTERNAL_MEM,
    SET_INPUT_SHAPE,
    SET_INPUT_SHAPES,
    MEM_SYNC,
    SET_IO_MEM,
    SET_CORE_MASK,
    SET_BATCH_CORE_NUM,
    DUP_CONTEXT,
    REGISTER_CUSTOM_OPS,
    MATMUL_CREATE,
    MATMUL_CREATE_DYNAMIC_SHAPE,
    MATMUL_DESTROY,
    MATMUL_SET_CORE_MASK,
    MATMUL_SET_QUANT_PARAMS,
    MATMUL_GET_QUANT_PARAMS,
    MATMUL_SET_DYNAMIC_SHAPE,
    MATMUL_RUN,
    B_NORMAL_LAYOUT_TO_NATIVE_LAYOUT,
    MATMUL_SET_IO_MEM,
    FUNCTIONS,
};
static const char *const names[FUNCTIONS] = {
    [INIT] = "rknn_init",
    [DESTROY] = "rknn_destroy",
    [QUERY] = "rknn_query",
    [INPUTS_SET] = "rknn_inputs_set",
    [RUN] = "rknn_run",
    [WAIT] = "rknn_wait",
    [OUTPUTS_GET] = "rknn_outputs_get",
    [OUTPUTS_RELEASE] = "rknn_outputs_release",
    [CREATE_MEM] = "rknn_create_mem*",
    [DESTROY_MEM] = "rknn_destroy_mem",
    [SET_WEIGHT_MEM] = "rknn_set_weight_mem",
    [SET_INTERNAL_MEM] = "rknn_set_internal_mem",
    [SET_INPUT_SHAPE] = "rknn_set_input_shape",
    [SET_INPUT_SHAPES] = "rknn_set_input_shapes",
    [MEM_SYNC] = "rknn_mem_sync",
    [SET_IO_MEM] = "rknn_set_io_mem",
    [SET_CORE_MASK] = "rknn_set_core_mask",
    [SET_BATCH_CORE_NUM] = "rknn_set_batch_core_num",
    [DUP_CONTEXT] = "rknn_dup_context",
    [REGISTER_CUSTOM_OPS] = "rknn_register_custom_ops",
    [MATMUL_CREATE] = "rknn_matmul_create",
    [MATMUL_CREATE_DYNAMIC_SHAPE] = "rknn_matmul_create_dynamic_shape",
    [MATMUL_DESTROY] = "rknn_matmul_destroy",
    [MATMUL_SET_CORE_MASK] = "rknn_matmul_set_core_mask",
    [MATMUL_SET_QUANT_PARAMS] = "rknn_matmul_set_quant_params",
    [MATMUL_GET_QUANT_PARAMS] = "rknn_matmul_get_quant_params",
    [MATMUL_SET_DYNAMIC_SHAPE] = "rknn_matmul_set_dynamic_shape",
    [MATMUL_RUN] = "rknn_matmul_run",
    [B_NORMAL_LAYOUT_TO_NATIVE_LAYOUT] = "rknn_B_normal_layout_to_native_layout",
    [MATMUL_SET_IO_MEM] = "rknn_matmul_set_io_mem",
};
static long counts[FUNCTIONS], refused[FUNCTIONS];

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint32_t below(uint32_t limit) { return (uint32_t)(next() % limit); }
static int chance(uint32_t percent) { return below(100) < percent; }

static uint32_t number(void) {
    static const uint32_t edges[] = {0, 1, 2, 3, 4, 8, 16, 17, 64, 255, 376, 4096, 0x7fffffff, 0x80000000, 0xffffffff};
    return chance(70) ? edges[below(sizeof edges / sizeof *edges)] : chance(50) ? below(1024) : (uint32_t)next();
}

static void *wild(void) {
    switch (below(5)) {
    case 0: return NULL;
    case 1: return (void *)16;
    case 2: return room + ROOM;                       /* the page that is not there */
    case 3: return (void *)(uintptr_t)0x7f0000001000; /* nobody's */
    default: return (void *)(uintptr_t)next();        /* often not even an address */
    }
}

/* Room for `size` bytes whose end is the end of what can be touched; now and then a wild pointer. */
static void *place(size_t size) {
    if (chance(8)) return wild();
    return size > ROOM ? room : room + ROOM - size;
}

static rknn_context context(void) {
    for (int i = 0; i < POOL && chance(97); i++) { /* one that lives, if there is one */
        rknn_context drawn = contexts[below(POOL)];
        if (drawn) return drawn;
    }
    switch (below(4)) {
    case 0: return gone;
    case 1: return matmuls[below(POOL)];
    case 2: return 0;
    default: return (rknn_context)next();
    }
}

static rknn_context matmul(void) {
    for (int i = 0; i < POOL && chance(97); i++) {
        rknn_context drawn = matmuls[below(POOL)];
        if (drawn) return drawn;
    }
    return chance(50) ? contexts[below(POOL)] : (rknn_context)next();
}

static rknn_tensor_mem *memory(void) {
    for (int i = 0; i < POOL && chance(97); i++) {
        rknn_tensor_mem *drawn = memories[below(POOL)];
        if (drawn) return drawn;
    }
    return chance(40) ? freed : wild();
}

static void scribble(void *to, size_t size) {
    unsigned char *bytes = to;
    for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(chance(60) ? 0 : next());
}

static int checked(int which, int code) {
    counts[which]++;
    if (code) refused[which]++;
    if (code > LARGEST_CODE || code < SMALLEST_CODE) {
        fprintf(stderr, "fuzz: %s returned %d, which is no code of the API\n", names[which], code);
        exit(3);
    }
    return code;
}

/* ----------------------------------------------------------------------------------------- structs to hand in */

static rknn_tensor_attr attribute(void) {
    rknn_tensor_attr attr;
    if (chance(30)) scribble(&attr, sizeof attr);
    else memset(&attr, 0, sizeof attr);
    attr.index = chance(80) ? below(3) : number();
    if (chance(60)) {
        rknn_query(context(), chance(50) ? RKNN_QUERY_NATIVE_INPUT_ATTR : RKNN_QUERY_NATIVE_OUTPUT_ATTR, &attr,
                   sizeof attr);
        if (chance(40)) attr.type = (rknn_tensor_type)below(14);
        if (chance(40)) attr.fmt = (rknn_tensor_format)below(6);
        if (chance(20)) attr.pass_through = (uint8_t)below(3);
        if (chance(20)) attr.size = number();
        if (chance(20)) attr.w_stride = number();
        if (chance(10)) attr.n_dims = number();
    }
    return attr;
}

static rknn_matmul_info matmul_info(void) {
    static const int32_t sizes[] = {0, 1, 4, 16, 32, 64, 128, -1, 33};
    rknn_matmul_info info;
    if (chance(60)) { /* a good one */
        memset(&info, 0, sizeof info);
        info.M = 1 << below(6);
        info.K = 32 << below(3);
        info.N = 32 << below(3);
        info.type = chance(50) ? RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 : RKNN_INT8_MM_INT8_TO_INT32;
        info.B_layout = (int16_t)below(2);
        info.AC_layout = (int16_t)below(2);
        return info;
    }
    if (chance(20)) scribble(&info, sizeof info);
    else memset(&info, 0, sizeof info);
    info.M = chance(95) ? sizes[below(9)] : (int32_t)number();
    info.K = chance(95) ? sizes[below(9)] : (int32_t)number();
    info.N = chance(95) ? sizes[below(9)] : (int32_t)number();
    info.type = (rknn_matmul_type)(chance(90) ? 1 + below(12) : number());
    info.B_layout = (int16_t)(chance(90) ? below(3) : number());
    info.AC_layout = (int16_t)(chance(90) ? below(2) : number());
    if (chance(20)) info.B_quant_type = (int16_t)below(8);
    if (chance(20)) info.AC_quant_type = (int16_t)below(8);
    if (chance(20)) info.group_size = (int16_t)number();
    return info;
}

static void *handed(const void *from, size_t size) {
    void *to = place(size);
    if ((unsigned char *)to >= room && (unsigned char *)to + size <= room + ROOM) memcpy(to, from, size);
    return to;
}

static int callback(rknn_custom_op_context *op, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                    rknn_custom_op_tensor *outputs, uint32_t n_outputs) {
    rknn_custom_op_attr attr;
    rknn_custom_op_get_op_attr(op, chance(50) ? "axis" : "none", &attr);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (inputs[i].mem.virt_addr && inputs[i].mem.size) state ^= *(volatile unsigned char *)inputs[i].mem.virt_addr;
    for (uint32_t i = 0; i < n_outputs; i++)
        if (outputs[i].mem.virt_addr) memset(outputs[i].mem.virt_addr, 0, outputs[i].mem.size);
    return chance(90) ? 0 : (int)below(20) - 10;
}

static int destroyed(rknn_custom_op_context *op) { return op ? 0 : -1; }
