/* Generated from tools.capi_headers.marshalling; do not edit. A test makes it again and compares. */
#include "capi.h"

EXPORT int rknn_set_batch_core_num(rknn_context context, int core_num) {
    struct call call;
    call_begin(&call, "rknn_set_batch_core_num", OP_SET_BATCH_CORE_NUM);
    call_context(&call, context, KIND_MODEL);
    call.request.a = core_num;
    return call_end(&call);
}

EXPORT int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask) {
    struct call call;
    call_begin(&call, "rknn_set_core_mask", OP_SET_CORE_MASK);
    call_context(&call, context, KIND_MODEL);
    call.request.a = core_mask;
    return call_end(&call);
}

EXPORT int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem* mem) {
    struct call call;
    call_begin(&call, "rknn_set_weight_mem", OP_SET_WEIGHT_MEM);
    call_context(&call, ctx, KIND_MODEL);
    call_memory(&call, mem, 1);
    return call_end(&call);
}

EXPORT int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem* mem) {
    struct call call;
    call_begin(&call, "rknn_set_internal_mem", OP_SET_INTERNAL_MEM);
    call_context(&call, ctx, KIND_MODEL);
    call_memory(&call, mem, 1);
    return call_end(&call);
}

EXPORT int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem* mem, rknn_tensor_attr* attr) {
    struct call call;
    call_begin(&call, "rknn_set_io_mem", OP_SET_IO_MEM);
    call_context(&call, ctx, KIND_MODEL);
    call_memory(&call, mem, 1);
    call_given(&call, "attr", attr, sizeof(rknn_tensor_attr), 1);
    return call_end(&call);
}

EXPORT int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr* attr) {
    struct call call;
    call_begin(&call, "rknn_set_input_shape", OP_SET_INPUT_SHAPE);
    call_context(&call, ctx, KIND_MODEL);
    call_given(&call, "attr", attr, sizeof(rknn_tensor_attr), 1);
    return call_end(&call);
}

EXPORT int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr* attr) {
    struct call call;
    call_begin(&call, "rknn_set_input_shapes", OP_SET_INPUT_SHAPES);
    call_context(&call, ctx, KIND_MODEL);
    call.request.a = n_inputs;
    call_given(&call, "attr", attr, sizeof(rknn_tensor_attr), call.request.a);
    return call_end(&call);
}

EXPORT int rknn_mem_sync(rknn_context context, rknn_tensor_mem* mem, rknn_mem_sync_mode mode) {
    struct call call;
    call_begin(&call, "rknn_mem_sync", OP_MEM_SYNC);
    call_context(&call, context, KIND_ANY);
    call_memory(&call, mem, 0);
    call.request.a = mode;
    return call_end(&call);
}

EXPORT int rknn_matmul_create(rknn_matmul_ctx* ctx, rknn_matmul_info* info, rknn_matmul_io_attr* io_attr) {
    struct call call;
    call_begin(&call, "rknn_matmul_create", OP_MATMUL_CREATE);
    call_given(&call, "info", info, abi()->rknn_matmul_info, 1);
    call_made(&call, "io_attr", io_attr, sizeof(rknn_matmul_io_attr), 1);
    call_new_context(&call, ctx, KIND_MATMUL);
    return call_end(&call);
}

EXPORT int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs) {
    struct call call;
    call_begin(&call, "rknn_matmul_create_dynamic_shape", OP_MATMUL_CREATE_DYNAMIC_SHAPE);
    call_given(&call, "info", info, abi()->rknn_matmul_info, 1);
    call.request.a = shape_num;
    call_given(&call, "dynamic_shapes", dynamic_shapes, sizeof(rknn_matmul_shape), call.request.a);
    call_made(&call, "io_attrs", io_attrs, sizeof(rknn_matmul_io_attr), call.request.a);
    call_new_context(&call, ctx, KIND_MATMUL);
    return call_end(&call);
}

int rknn_matmul_create_dyn_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs);
EXPORT int rknn_matmul_create_dyn_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs) {
    return rknn_matmul_create_dynamic_shape(ctx, info, shape_num, dynamic_shapes, io_attrs);
}

EXPORT int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem* mem, rknn_matmul_tensor_attr* attr) {
    struct call call;
    call_begin(&call, "rknn_matmul_set_io_mem", OP_MATMUL_SET_IO_MEM);
    call_context(&call, ctx, KIND_MATMUL);
    call_memory(&call, mem, 1);
    call_given(&call, "attr", attr, sizeof(rknn_matmul_tensor_attr), 1);
    return call_end(&call);
}

EXPORT int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask) {
    struct call call;
    call_begin(&call, "rknn_matmul_set_core_mask", OP_MATMUL_SET_CORE_MASK);
    call_context(&call, context, KIND_MATMUL);
    call.request.a = core_mask;
    return call_end(&call);
}

EXPORT int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape* shape) {
    struct call call;
    call_begin(&call, "rknn_matmul_set_dynamic_shape", OP_MATMUL_SET_DYNAMIC_SHAPE);
    call_context(&call, ctx, KIND_MATMUL);
    call_given(&call, "shape", shape, sizeof(rknn_matmul_shape), 1);
    return call_end(&call);
}

EXPORT int rknn_matmul_run(rknn_matmul_ctx ctx) {
    struct call call;
    call_begin(&call, "rknn_matmul_run", OP_MATMUL_RUN);
    call_context(&call, ctx, KIND_MATMUL);
    return call_end(&call);
}
