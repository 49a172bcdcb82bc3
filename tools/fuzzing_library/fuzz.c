/*
 * Calls every function of the RKNN C API in random order with random arguments.
 *
 *     fuzz SEED CALLS MODEL ...       exit 0: nothing crashed and nothing returned what it may not return
 *
 * Arguments are drawn from pools of good, dead and wild ones. Memory that the library may write to ends at a page that
 * cannot be touched, so that a byte too many is a fault here and not damage elsewhere; wild pointers go to pages that
 * are not there. The library must answer with a code. It is built with the sanitizers (tools/fuzz_library.py), and so
 * is this: a leak or a bad access inside the library ends the program with a report.
 */
#define _GNU_SOURCE
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

/* ------------------------------------------------------------------------------------------------- functions */

static int call_init(void) {
    int slot = (int)below(POOL), which = (int)below((uint32_t)model_count);
    rknn_init_extend extend;
    if (chance(50)) memset(&extend, 0, sizeof extend);
    else scribble(&extend, sizeof extend);
    extend.user_key = NULL;
    if (chance(60)) extend.ctx = context();
    void *model = models[which];
    uint32_t size = model_bytes[which], flags = chance(70) ? 0 : chance(80) ? 1u << below(18) : number();
    unsigned char *copy = NULL;
    if (chance(30)) {
        model = (void *)(uintptr_t)paths[which];
        size = 0;
    } else if (chance(30)) { /* a damaged one */
        copy = malloc(size);
        memcpy(copy, model, size);
        for (int i = 0; i < 8; i++) copy[below(size)] = (unsigned char)next();
        if (chance(30)) size = 1 + below(size);
        model = copy;
    } else if (chance(10)) {
        model = wild();
        size = number() & 0xfffff;
    }
    rknn_context made = 0;
    rknn_context *to = chance(97) ? &made : wild();
    int code = checked(INIT, rknn_init(to, model, size, flags, chance(70) ? NULL : handed(&extend, sizeof extend)));
    free(copy);
    if (!code && to == &made) {
        if (contexts[slot]) checked(DESTROY, rknn_destroy(gone = contexts[slot]));
        contexts[slot] = made;
    }
    return code;
}

static void call_destroy(void) {
    int slot = (int)below(POOL);
    rknn_context which = chance(60) ? contexts[slot] : context();
    if (checked(DESTROY, rknn_destroy(which))) return;
    gone = which;
    for (int i = 0; i < POOL; i++)
        if (contexts[i] == which) contexts[i] = 0;
}

static void call_query(void) {
    static const uint32_t sizes[] = {8, 16, 64, 512, 1024, 33040};
    uint32_t size = chance(50) ? sizeof(rknn_tensor_attr) : chance(50) ? sizes[below(6)] : number();
    unsigned char *info = place(size);
    uint32_t index = below(3);
    if (info >= room && info + sizeof index <= room + ROOM && chance(80)) memcpy(info, &index, sizeof index);
    checked(QUERY, rknn_query(context(), (rknn_query_cmd)(chance(95) ? below(19) : number()), info, size));
}

static void call_inputs_set(void) {
    rknn_input inputs[3];
    scribble(inputs, sizeof inputs);
    for (int i = 0; i < 3; i++) {
        inputs[i].index = chance(80) ? (uint32_t)i : number();
        inputs[i].size = chance(70) ? (uint32_t[]){192, 768, 3072, 12288, 1024, 64}[below(6)] : number();
        inputs[i].buf = place(inputs[i].size);
        inputs[i].type = (rknn_tensor_type)(chance(90) ? below(12) : number());
        inputs[i].fmt = (rknn_tensor_format)(chance(90) ? below(4) : number());
        inputs[i].pass_through = (uint8_t)(chance(80) ? 0 : below(3));
    }
    rknn_context to = context();
    uint32_t count = chance(85) ? 1 + below(2) : number();
    rknn_input_output_num numbers;
    if (chance(70) && !rknn_query(to, RKNN_QUERY_IN_OUT_NUM, &numbers, sizeof numbers) && numbers.n_input <= 3) {
        count = numbers.n_input;
        for (uint32_t i = 0; i < count; i++) { /* as the model wants it, nearly */
            rknn_tensor_attr attr = {.index = i};
            if (rknn_query(to, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) || attr.n_elems > ROOM / 4) continue;
            int is_float = chance(30);
            inputs[i] = (rknn_input){.index = i, .size = attr.n_elems * (is_float ? 4 : 1), .fmt = attr.fmt};
            inputs[i].type = is_float ? RKNN_TENSOR_FLOAT32 : chance(50) ? RKNN_TENSOR_UINT8 : attr.type;
            inputs[i].buf = place(inputs[i].size);
        }
    }
    checked(INPUTS_SET, rknn_inputs_set(to, count, chance(95) ? inputs : wild()));
}

static void call_run(void) {
    rknn_run_extend extend;
    scribble(&extend, sizeof extend);
    extend.fence_fd = chance(80) ? -1 : (int32_t)below(64);
    extend.non_block = chance(60) ? 0 : 1;
    extend.timeout_ms = chance(60) ? 0 : (int32_t)below(20);
    void *given = chance(60) ? NULL : handed(&extend, sizeof extend);
    if (chance(75)) checked(RUN, rknn_run(context(), given));
    else checked(WAIT, rknn_wait(context(), given));
}

static void call_outputs(void) {
    rknn_output outputs[3];
    rknn_output_extend extend;
    memset(outputs, 0, sizeof outputs);
    for (int i = 0; i < 3; i++) {
        outputs[i].index = chance(85) ? (uint32_t)i : number();
        outputs[i].want_float = (uint8_t)below(2);
        outputs[i].is_prealloc = chance(30);
        if (outputs[i].is_prealloc) {
            outputs[i].size = chance(70) ? 4096 << below(4) : number();
            outputs[i].buf = place(outputs[i].size);
        }
    }
    uint32_t count = chance(85) ? 1 + below(2) : number();
    rknn_context from = context();
    rknn_output *given = chance(96) ? outputs : wild();
    int code =
        checked(OUTPUTS_GET, rknn_outputs_get(from, count, given, chance(70) ? NULL : handed(&extend, sizeof extend)));
    /* What was got is given back, or given back to the wrong one first; wrong ones must be refused. */
    if (chance(10)) checked(OUTPUTS_RELEASE, rknn_outputs_release(context(), number(), wild()));
    if (!code && count <= 3) {
        if (checked(OUTPUTS_RELEASE, rknn_outputs_release(from, count, outputs)))
            fprintf(stderr, "fuzz: a release was refused\n"), exit(3);
        if (chance(20)) checked(OUTPUTS_RELEASE, rknn_outputs_release(from, count, outputs)); /* twice */
    }
}

/* Memory that is to be destroyed later; `is_mapped`: by the library, so that it can be written to. */
static void keep(rknn_tensor_mem *made, rknn_context owner, int is_mapped) {
    if (!made) return;
    int slot = (int)below(POOL);
    if (memories[slot]) {
        freed = memories[slot];
        checked(DESTROY_MEM, rknn_destroy_mem(owner, freed));
    }
    memories[slot] = made;
    if (is_mapped && chance(50) && made->virt_addr && made->size) {
        memset(made->virt_addr, (int)below(256), made->size);
        ((unsigned char *)made->virt_addr)[made->size - 1] = 1;
    }
}

static void call_create_mem(void) {
    rknn_context owner = context();
    counts[CREATE_MEM]++;
    uint32_t size = chance(80) ? below(70000) : chance(70) ? number() & 0xffffff : number();
    switch (below(6)) {
    case 0: {
        int fd = memfd_create("fuzz", MFD_CLOEXEC);
        uint32_t length = below(70000);
        if (ftruncate(fd, length)) exit(2);
        int32_t offset = chance(60) ? 0 : (int32_t)number();
        int given = chance(85) ? fd : (int)number();
        if (given != fd && given >= 0 && given < 64) given = -1; /* descriptors of others are not ours to play with */
        keep(rknn_create_mem_from_fd(owner, given, wild(), chance(50) ? length : size, offset), owner, 0);
        close(fd);
        break;
    }
    case 1: keep(rknn_create_mem_from_phys(owner, next(), wild(), size), owner, 0); break;
    case 2: keep(rknn_create_mem_from_mb_blk(owner, wild(), (int32_t)number()), owner, 0); break;
    case 3: keep(rknn_create_mem2(owner, size, number()), owner, 1); break;
    default: keep(rknn_create_mem(owner, size), owner, 1); break;
    }
}

static void call_destroy_mem(void) {
    int slot = (int)below(POOL);
    rknn_tensor_mem *which = chance(60) ? memories[slot] : memory();
    if (which && chance(20) && which == memories[slot])
        scribble(which, sizeof *which); /* its fields are the caller's */
    int code = checked(DESTROY_MEM, rknn_destroy_mem(context(), which));
    if (code && code != RKNN_ERR_DEVICE_UNAVAILABLE) return; /* without an engine it is gone all the same */
    freed = which;
    for (int i = 0; i < POOL; i++)
        if (memories[i] == which) memories[i] = NULL;
}

static void call_bind(void) {
    rknn_tensor_attr attr = attribute(), several[3] = {attr, attr, attr};
    rknn_tensor_mem *mem = memory();
    switch (below(7)) {
    case 0: checked(SET_WEIGHT_MEM, rknn_set_weight_mem(context(), mem)); break;
    case 1: checked(SET_INTERNAL_MEM, rknn_set_internal_mem(context(), mem)); break;
    case 2: checked(SET_INPUT_SHAPE, rknn_set_input_shape(context(), handed(&attr, sizeof attr))); break;
    case 3:
        checked(SET_INPUT_SHAPES, rknn_set_input_shapes(context(), chance(80) ? 1 + below(3) : number(),
                                                        handed(several, sizeof several)));
        break;
    case 4:
        checked(MEM_SYNC, rknn_mem_sync(context(), mem, (rknn_mem_sync_mode)(chance(80) ? below(4) : number())));
        break;
    default: checked(SET_IO_MEM, rknn_set_io_mem(context(), mem, handed(&attr, sizeof attr))); break;
    }
}

/* A model with memory of its own, as a zero-copy program has it. */
static void call_zero_copy(void) {
    rknn_context to = context();
    rknn_input_output_num numbers;
    rknn_tensor_mem *made[6] = {NULL};
    int count = 0;
    if (rknn_query(to, RKNN_QUERY_IN_OUT_NUM, &numbers, sizeof numbers)) return;
    for (uint32_t i = 0; i < numbers.n_input + numbers.n_output && count < 6; i++) {
        int is_output = i >= numbers.n_input;
        rknn_tensor_attr attr = {.index = is_output ? i - numbers.n_input : i};
        rknn_query_cmd cmd = is_output ? RKNN_QUERY_NATIVE_OUTPUT_ATTR : RKNN_QUERY_NATIVE_INPUT_ATTR;
        if (rknn_query(to, cmd, &attr, sizeof attr)) continue;
        counts[CREATE_MEM]++;
        made[count] = rknn_create_mem(to, attr.size_with_stride);
        if (!is_output && chance(50)) attr.type = RKNN_TENSOR_UINT8, attr.fmt = RKNN_TENSOR_NHWC;
        if (made[count]) checked(SET_IO_MEM, rknn_set_io_mem(to, made[count++], &attr));
    }
    for (uint32_t runs = below(3); runs; runs--) checked(RUN, rknn_run(to, NULL));
    for (int i = 0; i < count; i++)
        if (chance(90)) checked(DESTROY_MEM, rknn_destroy_mem(to, made[i]));
        else keep(made[i], to, 1);
}

static void call_cores(void) {
    if (chance(50))
        checked(SET_CORE_MASK, rknn_set_core_mask(context(), (rknn_core_mask)(chance(80) ? below(8) : number())));
    else checked(SET_BATCH_CORE_NUM, rknn_set_batch_core_num(context(), (int)(chance(80) ? below(4) : number())));
}

static void call_dup(void) {
    rknn_context from = context(), to = 0;
    int slot = (int)below(POOL);
    int code = checked(DUP_CONTEXT, rknn_dup_context(chance(95) ? &from : wild(), chance(95) ? &to : wild()));
    if (!code && to) {
        if (contexts[slot]) checked(DESTROY, rknn_destroy(gone = contexts[slot]));
        contexts[slot] = to;
    }
}

static void call_custom(void) {
    rknn_custom_op ops[2];
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < 2; i++) {
        ops[i].version = 1;
        ops[i].target = (rknn_target_type)(chance(80) ? 1 : number());
        strcpy(ops[i].op_type, (const char *[]){"Sin", "ArgMax", "Softmax", "cstOp", ""}[below(5)]);
        ops[i].init = chance(50) ? callback : NULL;
        ops[i].prepare = chance(50) ? callback : NULL;
        ops[i].compute = chance(90) ? callback : NULL;
        ops[i].destroy = chance(50) ? destroyed : NULL;
    }
    checked(REGISTER_CUSTOM_OPS,
            rknn_register_custom_ops(context(), chance(95) ? ops : wild(), chance(90) ? 1 + below(2) : number()));
    if (chance(20)) {
        rknn_custom_op_attr attr;
        rknn_custom_op_context op;
        scribble(&op, sizeof op);
        rknn_custom_op_get_op_attr(chance(50) ? &op : wild(), chance(50) ? "axis" : wild(),
                                   chance(80) ? &attr : wild());
    }
}

static void call_matmul_create(void) {
    rknn_matmul_info info = matmul_info();
    rknn_matmul_io_attr io[3];
    rknn_matmul_shape shapes[3];
    for (int i = 0; i < 3; i++) shapes[i] = (rknn_matmul_shape){1 + (int)below(32), info.K, info.N};
    rknn_context made = 0;
    int code, slot = (int)below(POOL);
    void *given = handed(&info, sizeof info);
    if (chance(70))
        code = checked(MATMUL_CREATE, rknn_matmul_create(chance(97) ? &made : wild(), given, chance(95) ? io : wild()));
    else
        code = checked(MATMUL_CREATE_DYNAMIC_SHAPE,
                       rknn_matmul_create_dynamic_shape(&made, given, chance(90) ? 1 + (int)below(3) : (int)number(),
                                                        handed(shapes, sizeof shapes), chance(95) ? io : wild()));
    if (!code && made) {
        if (matmuls[slot]) checked(MATMUL_DESTROY, rknn_matmul_destroy(matmuls[slot]));
        matmuls[slot] = made;
        matrices[slot] = io[0];
    }
}

/* A product as a program would make it: memory for all three, then runs. */
static void call_product(void) {
    int slot = (int)below(POOL);
    rknn_matmul_tensor_attr *attrs[3] = {&matrices[slot].A, &matrices[slot].B, &matrices[slot].C};
    rknn_tensor_mem *made[3] = {NULL};
    if (!matmuls[slot]) return;
    for (int i = 0; i < 3; i++) {
        counts[CREATE_MEM]++;
        made[i] = rknn_create_mem(matmuls[slot], attrs[i]->size);
        if (made[i]) checked(MATMUL_SET_IO_MEM, rknn_matmul_set_io_mem(matmuls[slot], made[i], attrs[i]));
    }
    for (uint32_t runs = below(3); runs; runs--) checked(MATMUL_RUN, rknn_matmul_run(matmuls[slot]));
    if (chance(30)) checked(DESTROY_MEM, rknn_destroy_mem(matmuls[slot], made[0])), made[0] = NULL; /* still bound */
    if (chance(30)) checked(MATMUL_RUN, rknn_matmul_run(matmuls[slot]));
    for (int i = 0; i < 3; i++)
        if (made[i]) checked(DESTROY_MEM, rknn_destroy_mem(matmuls[slot], made[i]));
}

static void call_matmul(void) {
    rknn_matmul_tensor_attr attr;
    rknn_matmul_shape shape = {1 + (int)below(32), 32, 32};
    float scales[64];
    int32_t zeros[64];
    rknn_quant_params params;
    scribble(&attr, sizeof attr);
    memset(&params, 0, sizeof params);
    for (int i = 0; i < 64; i++) scales[i] = 0.5f, zeros[i] = 1;
    strcpy(params.name, (const char *[]){"A", "B", "C", "x"}[below(4)]);
    params.scale = chance(90) ? scales : wild();
    params.scale_len = chance(80) ? 1 << below(7) : (int32_t)number();
    params.zp = chance(90) ? zeros : wild();
    params.zp_len = chance(80) ? 1 << below(7) : (int32_t)number();
    if (params.scale == scales && (params.scale_len > 64 || params.scale_len < 0)) params.scale = wild();
    if (params.zp == zeros && (params.zp_len > 64 || params.zp_len < 0)) params.zp = wild();
    strcpy(attr.name, (const char *[]){"A", "B", "C", "x"}[below(4)]);
    switch (below(8)) {
    case 0:
        checked(MATMUL_SET_CORE_MASK,
                rknn_matmul_set_core_mask(matmul(), (rknn_core_mask)(chance(80) ? below(8) : number())));
        break;
    case 1:
        checked(MATMUL_SET_QUANT_PARAMS, rknn_matmul_set_quant_params(matmul(), chance(95) ? &params : wild()));
        break;
    case 2:
        checked(MATMUL_GET_QUANT_PARAMS,
                rknn_matmul_get_quant_params(matmul(), chance(95) ? &params : wild(), chance(90) ? scales : wild()));
        break;
    case 3:
        checked(MATMUL_SET_DYNAMIC_SHAPE, rknn_matmul_set_dynamic_shape(matmul(), chance(90) ? &shape : wild()));
        break;
    case 4: checked(MATMUL_RUN, rknn_matmul_run(matmul())); break;
    case 5: {
        rknn_context which = matmul();
        if (checked(MATMUL_DESTROY, rknn_matmul_destroy(which))) break;
        for (int i = 0; i < POOL; i++)
            if (matmuls[i] == which) matmuls[i] = 0;
        break;
    }
    case 6: {
        rknn_matmul_info info = matmul_info();
        int k = chance(90) ? info.K : (int)number(), n = chance(90) ? info.N : (int)number();
        checked(B_NORMAL_LAYOUT_TO_NATIVE_LAYOUT,
                rknn_B_normal_layout_to_native_layout(chance(90) ? room : wild(), chance(90) ? room + ROOM / 2 : wild(),
                                                      k, n, handed(&info, sizeof info)));
        break;
    }
    default: checked(MATMUL_SET_IO_MEM, rknn_matmul_set_io_mem(matmul(), memory(), chance(95) ? &attr : wild())); break;
    }
}

/* ---------------------------------------------------------------------------------------------------- the run */

static void one_call(void) {
    static void (*const functions[])(void) = {
        call_query, call_inputs_set, call_run,       call_outputs, call_create_mem, call_destroy_mem,
        call_bind,  call_bind,       call_cores,     call_matmul,  call_matmul,     call_matmul_create,
        call_run,   call_product,    call_zero_copy, call_custom,
    };
    uint32_t drawn = below(1000);
    int alive = 0;
    for (int i = 0; i < POOL; i++) alive += contexts[i] != 0;
    if (drawn < 8 || (alive < 2 && drawn < 300)) call_init();
    else if (drawn < 12) call_destroy();
    else if (drawn < 14) call_dup();
    else functions[below(sizeof functions / sizeof *functions)]();
}

static void give_back(void) {
    for (int i = 0; i < POOL; i++) {
        if (memories[i]) rknn_destroy_mem(0, memories[i]);
        if (contexts[i]) rknn_destroy(contexts[i]);
        if (matmuls[i]) rknn_matmul_destroy(matmuls[i]);
    }
    for (int i = 0; i < model_count; i++) free(models[i]);
}

static void read_model(const char *path) {
    int file = open(path, O_RDONLY), slot = model_count++;
    off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    models[slot] = malloc((size_t)size + 1);
    if (size <= 0 || pread(file, models[slot], (size_t)size, 0) != size) {
        fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    model_bytes[slot] = (uint32_t)size;
    paths[slot] = path;
    close(file);
}

int main(int count, char **words) {
    if (count < 4) return fprintf(stderr, "usage: fuzz SEED CALLS MODEL ...\n"), 2;
    state = strtoull(words[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1;
    for (int i = 3; i < count && model_count < 8; i++) read_model(words[i]);
    room = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + ROOM, 4096, PROT_NONE)) return 2;
    long calls = strtol(words[2], NULL, 0), total = 0;
    while (total < calls) {
        if (chance(1)) scribble(room + below(ROOM - 4096), 4096);
        one_call();
        total = 0;
        for (int i = 0; i < FUNCTIONS; i++) total += counts[i];
    }
    give_back();
    for (int i = 0; i < FUNCTIONS; i++) printf("%s %ld %ld\n", names[i], counts[i], refused[i]);
    return 0;
}
