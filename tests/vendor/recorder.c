/*
 * A library with the functions of the RKNN C API that records how it is called and behaves as the reference says.
 *
 * It stands in for librknnrt.so where none can be loaded (any machine), and for the functions that no library at hand
 * exports. There is one made-up model: inputs "image" (NHWC [1, 4, 6, 3], rows padded to 16 pixels) and "features"
 * (NHWC [1, 2, 2, 8], native [1, 1, 2, 2, 8]), outputs "map" (NCHW [1, 8, 2, 2]) and "scores" ([1, 10], no layout). If
 * its bytes begin with "dyn" it takes two shapes at "image"; with "bad" it cannot be loaded.
 *
 * recorder_log()               what was called since the last recorder_clear(): "name key=value ...\n"
 * recorder_fail(name, code)    the next call of a function returns this code (a pointer: NULL)
 *
 * API chooses the version as in capi.h; VERSION is the text of it.
 */
#define _GNU_SOURCE
#include "recorder_state.h"

#ifndef VERSION
#define VERSION "2.3.2"
#endif

const char recorder_version[] = "librknnrt version: " VERSION " (recorder@2026-01-01T00:00:00)";

/* ------------------------------------------------------------------------------------------------- the model */

static rknn_tensor_attr attribute(const char *name, int rank, const uint32_t *dims, int fmt, int stride) {
    rknn_tensor_attr a = {.n_dims = (uint32_t)rank, .n_elems = 1, .fmt = fmt, .type = RKNN_TENSOR_INT8,
                          .qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, .zp = -3, .scale = 0.5f,
                          .w_stride = (uint32_t)stride};
    snprintf(a.name, sizeof a.name, "%s", name);
    for (int i = 0; i < rank; i++) { a.dims[i] = dims[i]; a.n_elems *= dims[i]; }
    a.size = a.size_with_stride = a.n_elems;
    if (stride) a.size_with_stride = dims[0] * dims[1] * (uint32_t)stride * dims[3];
    return a;
}

static rknn_tensor_attr input(const struct context *context, unsigned index, int native) {
    uint32_t image[] = {1, context->shape ? 8 : 4, 6, 3};
    rknn_tensor_attr a = index == 0 ? attribute("image", 4, image, RKNN_TENSOR_NHWC, 16)
        : native ? attribute("features", 5, (uint32_t[]){1, 1, 2, 2, 8}, RKNN_TENSOR_NC1HWC2, 0)
                 : attribute("features", 4, (uint32_t[]){1, 2, 2, 8}, RKNN_TENSOR_NHWC, 0);
    a.index = index;
    return a;
}

static rknn_tensor_attr output(unsigned index, int form) {
    rknn_tensor_attr a = index == 1 ? attribute("scores", 2, (uint32_t[]){1, 10}, RKNN_TENSOR_UNDEFINED, 0)
        : form == 1 ? attribute("map", 5, (uint32_t[]){1, 1, 2, 2, 16}, RKNN_TENSOR_NC1HWC2, 0)
        : form == 2 ? attribute("map", 4, (uint32_t[]){1, 2, 2, 8}, RKNN_TENSOR_NHWC, 0)
                    : attribute("map", 4, (uint32_t[]){1, 8, 2, 2}, RKNN_TENSOR_NCHW, 0);
    a.index = index;
    return a;
}

/* ------------------------------------------------------------------------------------------------- contexts */

int rknn_init(rknn_context *number, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend) {
    note("rknn_init size=%u flag=%u extend=%d", size, flag, extend != NULL);
    if (size == 0) note(" path=%s", (char *)model);
    if (extend) {
        note(" ctx=%llu", (unsigned long long)extend->ctx);
#if API >= 150
        note(" offset=%d length=%u", extend->real_model_offset, extend->real_model_size);
#endif
#if API >= 210
        note(" fd=%d flags=%u", extend->model_buffer_fd, extend->model_buffer_flags);
#endif
#if API >= 250
        if (extend->user_key) note(" key=%.*s", (int)extend->user_key->key_size, (char *)extend->user_key->key_data);
#endif
    }
    note("\n");
    FAIL_IF_ASKED;
    if (size >= 3 && memcmp(model, "bad", 3) == 0) return MODEL;
    struct context *context;
    *number = allocate(&context);
    context->dynamic = size >= 3 && memcmp(model, "dyn", 3) == 0;
    context->flags = flag;
    return SUCC;
}

int rknn_dup_context(rknn_context *in, rknn_context *out) {
    note("rknn_dup_context in=%llu\n", (unsigned long long)*in);
    FAIL_IF_ASKED;
    struct context *old = find(*in), *made;
    if (!old) return CTX;
    *out = allocate(&made);
    made->dynamic = old->dynamic;
    made->flags = old->flags;
    return SUCC;
}

int rknn_destroy(rknn_context number) {
    note("rknn_destroy ctx=%llu\n", (unsigned long long)number);
    CONTEXT_OR_FAIL(number);
    for (int i = 0; i < context->ops; i++)
        if (context->op[i].destroy) note("destroy_callback code=%d\n", context->op[i].destroy(&context->op_context[i]));
    context->used = 0;
    FAIL_IF_ASKED;
    return SUCC;
}

#define ANSWER(kind) if (size < sizeof(kind)) return PARAM; kind *answer = info; (void)answer
int rknn_query(rknn_context number, rknn_query_cmd cmd, void *info, uint32_t size) {
    static const char perf[] = "ID   OpType           DataType Target InputShape      OutputShape     DDR Cycles     "
                               "Time(us)       RW(KB)         FullName        \n"
                               "1    Conv             INT8     NPU    (1,3,4,6)       (1,8,2,2)       100            "
                               "42             1.50           Conv:conv one   \n"
                               "Total Operator Elapsed Time(us): 42\nTotal Memory RW Amount(MB): 0.25\n";
    note("rknn_query cmd=%d size=%u\n", cmd, size);
    CONTEXT_OR_FAIL(number);
    FAIL_IF_ASKED;
    switch (cmd) {
    case RKNN_QUERY_IN_OUT_NUM: { ANSWER(rknn_input_output_num); *answer = (rknn_input_output_num){2, 2}; return SUCC; }
    case RKNN_QUERY_CURRENT_INPUT_ATTR: case RKNN_QUERY_INPUT_ATTR: {
        ANSWER(rknn_tensor_attr);
        *answer = input(context, answer->index, 0);
        return SUCC;
    }
    case RKNN_QUERY_CURRENT_OUTPUT_ATTR: case RKNN_QUERY_OUTPUT_ATTR: {
        ANSWER(rknn_tensor_attr);
        *answer = output(answer->index, 0);
        return SUCC;
    }
    case RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR: case RKNN_QUERY_NATIVE_INPUT_ATTR:
    case RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: {
        ANSWER(rknn_tensor_attr);
        *answer = input(context, answer->index, 1);
        return SUCC;
    }
    case RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR: case RKNN_QUERY_NATIVE_OUTPUT_ATTR: {
        ANSWER(rknn_tensor_attr);
        *answer = output(answer->index, 1);
        return SUCC;
    }
    case RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR: {
        ANSWER(rknn_tensor_attr);
        *answer = output(answer->index, 2);
        return SUCC;
    }
    case RKNN_QUERY_PERF_DETAIL: {
        ANSWER(rknn_perf_detail);
        *answer = (rknn_perf_detail){(char *)perf, sizeof perf - 1};
        return SUCC;
    }
    case RKNN_QUERY_PERF_RUN: { ANSWER(rknn_perf_run); answer->run_duration = 1234; return SUCC; }
    case RKNN_QUERY_SDK_VERSION: {
        ANSWER(rknn_sdk_version);
        snprintf(answer->api_version, 256, "%s (recorder)", VERSION);
        snprintf(answer->drv_version, 256, "0.9.8");
        return SUCC;
    }
    case RKNN_QUERY_MEM_SIZE: {
        ANSWER(rknn_mem_size);
        memset(answer, 0, sizeof *answer);
        answer->total_weight_size = 1000, answer->total_internal_size = 2000;
#if API >= 140
        answer->total_dma_allocated_size = 5000000000ull, answer->total_sram_size = 64, answer->free_sram_size = 32;
#endif
        return SUCC;
    }
    case RKNN_QUERY_CUSTOM_STRING: {
        ANSWER(rknn_custom_string);
        snprintf(answer->string, 1024, "RGB");
        return SUCC;
    }
    case RKNN_QUERY_DEVICE_MEM_INFO: {
        ANSWER(rknn_tensor_mem);
        *answer = (rknn_tensor_mem){info, 0x8000, 9, 16, 4096, 1, NULL};
        return SUCC;
    }
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE: {
        ANSWER(rknn_input_range);
        if (!context->dynamic) return MODEL;
        rknn_tensor_attr a = input(context, answer->index, 0);
        memset(answer->dyn_range, 0, sizeof answer->dyn_range);
        snprintf(answer->name, 256, "%s", a.name);
        answer->fmt = RKNN_TENSOR_NHWC, answer->n_dims = 4, answer->shape_number = answer->index == 0 ? 2 : 1;
        for (unsigned i = 0; i < answer->shape_number; i++)
            memcpy(answer->dyn_range[i], a.index == 0 ? (uint32_t[]){1, i ? 8 : 4, 6, 3} : a.dims, 16);
        return SUCC;
    }
    default: return PARAM;
    }
}

/* --------------------------------------------------------------------------------------- inputs, outputs, runs */

int rknn_inputs_set(rknn_context number, uint32_t n_inputs, rknn_input inputs[]) {
    note("rknn_inputs_set n=%u", n_inputs);
    for (uint32_t i = 0; i < n_inputs; i++)
        note(" [index=%u size=%u pass_through=%u type=%d fmt=%d first=%d]", inputs[i].index, inputs[i].size,
             inputs[i].pass_through, inputs[i].type, inputs[i].fmt, *(int8_t *)inputs[i].buf);
    note("\n");
    CONTEXT_OR_FAIL(number);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_set_batch_core_num(rknn_context number, int core_num) {
    note("rknn_set_batch_core_num n=%d\n", core_num);
    CONTEXT_OR_FAIL(number);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_set_core_mask(rknn_context number, rknn_core_mask mask) {
    note("rknn_set_core_mask mask=%d\n", (int)mask);
    CONTEXT_OR_FAIL(number);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

static int call_operator(struct context *context, int which, rknn_custom_op_callback *callback, const char *role) {
    if (!callback) return SUCC;
    float in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
    rknn_custom_op_tensor tensors[2] = {
        {attribute("in", 2, (uint32_t[]){2, 3}, RKNN_TENSOR_UNDEFINED, 0), {.virt_addr = in, .size = sizeof in}},
        {attribute("out", 2, (uint32_t[]){2, 3}, RKNN_TENSOR_UNDEFINED, 0), {.virt_addr = out, .size = sizeof out}},
    };
    tensors[0].attr.type = tensors[1].attr.type = RKNN_TENSOR_FLOAT32;
    int code = callback(&context->op_context[which], &tensors[0], 1, &tensors[1], 1);
    note("%s_callback code=%d sum=%g\n", role, code, out[0] + out[1] + out[2] + out[3] + out[4] + out[5]);
    return code == -14 ? SUCC : code;
}

int rknn_run(rknn_context number, rknn_run_extend *extend) {
    CONTEXT_OR_FAIL(number);
    if (extend) {
        note("rknn_run non_block=%d timeout=%d fence=%d\n", extend->non_block, extend->timeout_ms, extend->fence_fd);
        extend->frame_id = (uint64_t)context->runs + 1;
        extend->fence_fd = 77;
    } else note("rknn_run\n");
    FAIL_IF_ASKED;
    context->runs++;
    for (int i = 2; i < 4; i++)
        if (context->memories[i]) memset(context->memories[i]->virt_addr, i, context->memories[i]->size);
    for (int i = 0; i < context->ops; i++) {
        int code = call_operator(context, i, context->op[i].prepare, "prepare");
        if (code >= 0) code = call_operator(context, i, context->op[i].compute, "compute");
        if (code < 0) return code;
    }
    return SUCC;
}

int rknn_wait(rknn_context number, rknn_run_extend *extend) {
    note("rknn_wait frame=%llu timeout=%d\n", (unsigned long long)extend->frame_id, extend->timeout_ms);
    CONTEXT_OR_FAIL(number);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_outputs_get(rknn_context number, uint32_t n_outputs, rknn_output outputs[], rknn_output_extend *extend) {
    note("rknn_outputs_get n=%u", n_outputs);
    CONTEXT_OR_FAIL(number);
    for (uint32_t i = 0; i < n_outputs; i++) {
        rknn_output *one = &outputs[i];
        uint32_t elements = output(one->index, 0).n_elems, needed = elements * (one->want_float ? 4 : 1);
        note(" [index=%u want_float=%u is_prealloc=%u size=%u]", one->index, one->want_float, one->is_prealloc, one->size);
        if (!one->is_prealloc) { one->buf = malloc(needed); one->size = needed; }
        if (one->size < needed) { note(" too small"); continue; } /* as runtime 1.5.2 does: no error */
        for (uint32_t k = 0; k < elements; k++) {
            if (one->want_float) ((float *)one->buf)[k] = ((int)k + 3) * 0.5f;
            else ((int8_t *)one->buf)[k] = (int8_t)k;
        }
    }
    note("\n");
    if (extend) extend->frame_id = (uint64_t)context->runs;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_outputs_release(rknn_context number, uint32_t n_outputs, rknn_output outputs[]) {
    note("rknn_outputs_release n=%u\n", n_outputs);
    CONTEXT_OR_FAIL(number);
    (void)context;
    for (uint32_t i = 0; i < n_outputs; i++)
        if (!outputs[i].is_prealloc) { free(outputs[i].buf); outputs[i].buf = NULL; }
    return SUCC;
}

/* ------------------------------------------------------------------------------------------------- memory */

static rknn_tensor_mem *make_memory(uint64_t size, int flags) {
    int fd = memfd_create("recorder", 0);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) return NULL;
    rknn_tensor_mem *memory = calloc(1, sizeof *memory);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *memory = (rknn_tensor_mem){bytes, 0xfff00000, fd, 0, (uint32_t)size, (uint32_t)flags, bytes};
    return memory;
}

static rknn_tensor_mem *wrap_memory(void *at, uint64_t address, int fd, int offset, uint32_t size, int flags) {
    rknn_tensor_mem *memory = calloc(1, sizeof *memory);
    *memory = (rknn_tensor_mem){at, address, fd, offset, size, (uint32_t)flags, NULL};
    return memory;
}

rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr, uint32_t size) {
    note("rknn_create_mem_from_phys phys=%llu virt=%d size=%u\n", (unsigned long long)phys_addr, virt_addr != NULL, size);
    if (!find(ctx) || failing(__func__)) return NULL;
    return wrap_memory(virt_addr, phys_addr, -1, 0, size, RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS);
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size, int32_t offset) {
    note("rknn_create_mem_from_fd fd=%d virt=%d size=%u offset=%d\n", fd, virt_addr != NULL, size, offset);
    if (!find(ctx) || failing(__func__)) return NULL;
    return wrap_memory(virt_addr, ~0ull, fd, offset, size, RKNN_TENSOR_MEMORY_FLAGS_FROM_FD);
}

rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size) {
    note("rknn_create_mem size=%u\n", size);
    return !find(ctx) || failing(__func__) ? NULL : make_memory(size, RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE);
}

int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    note("rknn_destroy_mem size=%u\n", mem->size);
    if (ctx && !find(ctx)) return CTX;
    if (mem->priv_data) { munmap(mem->priv_data, mem->size); close(mem->fd); }
    free(mem);
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    note("rknn_set_weight_mem size=%u\n", mem->size);
    CONTEXT_OR_FAIL(ctx);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    note("rknn_set_internal_mem size=%u\n", mem->size);
    CONTEXT_OR_FAIL(ctx);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    static const char *names[] = {"image", "features", "map", "scores"};
    note("rknn_set_io_mem size=%u index=%u name=%s dims=%u,%u,%u,%u n_dims=%u fmt=%d type=%d pass_through=%u h_stride=%u\n",
         mem->size, attr->index, attr->name, attr->dims[0], attr->dims[1], attr->dims[2], attr->dims[3], attr->n_dims,
         attr->fmt, attr->type, attr->pass_through, attr->h_stride);
    CONTEXT_OR_FAIL(ctx);
    FAIL_IF_ASKED;
    for (int i = 0; i < 4; i++)
        if (strcmp(attr->name, names[i]) == 0) { context->memories[i] = mem; return SUCC; }
    return FAIL;
}

static int set_shape(struct context *context, const rknn_tensor_attr *attr) {
    note(" [index=%u name=%s dims=%u,%u,%u,%u fmt=%d]", attr->index, attr->name, attr->dims[0], attr->dims[1],
         attr->dims[2], attr->dims[3], attr->fmt);
    if (!context->dynamic) return MODEL;
    if (attr->index == 0) context->shape = attr->dims[1] == 8;
    return SUCC;
}

int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr) {
    note("rknn_set_input_shape");
    CONTEXT_OR_FAIL(ctx);
    int code = set_shape(context, attr);
    note("\n");
    FAIL_IF_ASKED;
    return code;
}

int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[]) {
    note("rknn_set_input_shapes n=%u", n_inputs);
    CONTEXT_OR_FAIL(ctx);
    int code = SUCC;
    for (uint32_t i = 0; i < n_inputs && code == SUCC; i++) code = set_shape(context, &attr[i]);
    note("\n");
    FAIL_IF_ASKED;
    return code;
}

#include "recorder_matmul.h"

/* ------------------------------------------------------------------------------------- since 1.6 and 2.0 */

#if API >= 160
int rknn_mem_sync(rknn_context number, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    note("rknn_mem_sync size=%u mode=%d\n", mem->size, mode);
    CONTEXT_OR_FAIL(number);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num) {
    note("rknn_register_custom_ops n=%u", custom_op_num);
    CONTEXT_OR_FAIL(ctx);
    for (uint32_t i = 0; i < custom_op_num; i++)
        note(" [type=%s version=%u target=%d kernel=%s source=%llu options=%s init=%d prepare=%d compute=%d native=%d "
             "destroy=%d]", op[i].op_type, op[i].version, op[i].target, op[i].cl_kernel_name,
             (unsigned long long)op[i].cl_source_size, op[i].cl_build_options, op[i].init != NULL,
             op[i].prepare != NULL, op[i].compute != NULL, op[i].compute_native != NULL, op[i].destroy != NULL);
    note("\n");
    FAIL_IF_ASKED;
    for (uint32_t i = 0; i < custom_op_num && context->ops < MAX_OPS; i++) {
        int which = context->ops++;
        context->op[which] = op[i];
        context->op_context[which] = (rknn_custom_op_context){
            .target = op[i].target, .gpu_ctx = {(void *)1, (void *)2, (void *)3}};
        int code = call_operator(context, which, op[i].init, "init");
        if (code < 0) return code;
    }
    return SUCC;
}

void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name, rknn_custom_op_attr *op_attr) {
    static int64_t axis = -1;
    static float factors[3] = {0.5f, 1.5f, 2.5f};
    note("rknn_custom_op_get_op_attr target=%d name=%s\n", op_ctx->target, attr_name);
    snprintf(op_attr->name, sizeof op_attr->name, "%s", attr_name);
    op_attr->n_elems = 0, op_attr->data = NULL;
    if (strcmp(attr_name, "axis") == 0) op_attr->dtype = RKNN_TENSOR_INT64, op_attr->n_elems = 1, op_attr->data = &axis;
    if (strcmp(attr_name, "factors") == 0)
        op_attr->dtype = RKNN_TENSOR_FLOAT32, op_attr->n_elems = 3, op_attr->data = factors;
}
#endif

#if API >= 200
rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags) {
    note("rknn_create_mem2 ctx=%d size=%llu flags=%llu\n", ctx != 0, (unsigned long long)size,
         (unsigned long long)alloc_flags);
    if ((!find(ctx) && !(alloc_flags & 0x20000)) || failing(__func__)) return NULL;
    return make_memory(size, RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE);
}
#endif

#if API == 232
rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset) {
    note("rknn_create_mem_from_mb_blk block=%lu offset=%d\n", (unsigned long)mb_blk, offset);
    return !find(ctx) || failing(__func__) ? NULL : make_memory(4096, RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE);
}
#endif
