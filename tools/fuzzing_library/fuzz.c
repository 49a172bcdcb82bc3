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
#include "arguments.h"

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

#include "matmul_calls.h"

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
