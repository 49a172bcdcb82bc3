/* Quantisation parameters of matrices, and the conversion of B: what hangs on pointers inside the parameters. */
#include "capi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int copied_params(struct call *call, const rknn_quant_params *user, rknn_quant_params *params) {
    if (call->code != 0) return 0;
    if (!user || copy_in(params, user, sizeof *params) != 0) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "params is no address of an rknn_quant_params");
        return 0;
    }
    return 1;
}

/* Arrays that do not fit a packet go into a file; a descriptor, or -1. */
static int share_arrays(struct call *call, const rknn_quant_params *params, size_t scales, size_t zeros) {
    int file = shared_file("openrknn scales");
    int problem = file < 0 ? errno : copy_to_file(file, 0, params->scale, scales * sizeof *params->scale);
    if (!problem)
        problem = copy_to_file(file, (off_t)(scales * sizeof *params->scale), params->zp, zeros * sizeof *params->zp);
    if (problem) call_fail(call, problem == EFAULT ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_MALLOC_FAIL,
                           "scale or zp have fewer elements than scale_len and zp_len say: %s", strerror(problem));
    call_descriptor(call, file);
    return file;
}

EXPORT int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *user) {
    struct call call;
    rknn_quant_params params;
    int file = -1;
    call_begin(&call, "rknn_matmul_set_quant_params", OP_MATMUL_SET_QUANT_PARAMS);
    call_context(&call, context, KIND_MATMUL);
    if (copied_params(&call, user, &params)) {
        size_t scales = params.scale && params.scale_len > 0 ? (size_t)params.scale_len : 0;
        size_t zeros = params.zp && params.zp_len > 0 ? (size_t)params.zp_len : 0;
        call.request.a = (int64_t)scales, call.request.b = (int64_t)zeros;
        call_part(&call, &params, sizeof params);
        if ((scales + zeros) * 4 > LARGEST_PACKET / 2) {
            file = share_arrays(&call, &params, scales, zeros);
        } else {
            call_part(&call, params.scale, scales * sizeof *params.scale);
            call_part(&call, params.zp, zeros * sizeof *params.zp);
        }
    }
    call_end(&call);
    close_quietly(file);
    return call.code;
}

/* The arrays of the reply: behind the struct, or in a file. */
struct arrays { int file; const unsigned char *data; size_t at, bytes; };

/* One of them, 4 bytes for each element; it goes where `user` points, if anywhere. */
static void write_array(struct call *call, const char *name, void *user, struct arrays *arrays, int64_t count) {
    size_t bytes = count > 0 ? (size_t)count * 4 : 0;
    if (call->code != 0) return;
    if (bytes > arrays->bytes - arrays->at) { call_fail(call, RKNN_ERR_FAIL, "the engine answered too little"); return; }
    int problem = 0;
    if (user && arrays->file >= 0) problem = copy_from_file(arrays->file, (off_t)arrays->at, user, bytes);
    else if (user) problem = copy_out(user, arrays->data + arrays->at, bytes);
    if (problem) call_fail(call, RKNN_ERR_PARAM_INVALID, "there is no room for %lld elements where %s points to",
                           (long long)count, name);
    arrays->at += bytes;
}

static void write_params(struct call *call, rknn_quant_params *user, const rknn_quant_params *given, float *scale) {
    rknn_quant_params params;
    struct stat status;
    const struct capi_reply *reply = &call->message.reply;
    if (reply->payload_bytes < sizeof params) { call_fail(call, RKNN_ERR_FAIL, "the engine answered too little"); return; }
    memcpy(&params, call->message.payload, sizeof params);
    params.scale = given->scale, params.zp = given->zp;
    struct arrays arrays = {message_take(&call->message), call->message.payload + sizeof params, 0,
                            reply->payload_bytes - sizeof params};
    if (arrays.file >= 0) arrays.bytes = fstat(arrays.file, &status) == 0 ? (size_t)status.st_size : 0;
    write_array(call, "params->scale", given->scale, &arrays, reply->a);
    write_array(call, "params->zp", given->zp, &arrays, reply->b);
    if (scale) write_array(call, "scale", scale, &arrays, 1);
    close_quietly(arrays.file);
    if (call->code == 0 && copy_out(user, &params, sizeof params) != 0)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "params cannot be written");
}

EXPORT int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *user, float *scale) {
    struct call call;
    rknn_quant_params params;
    call_begin(&call, "rknn_matmul_get_quant_params", OP_MATMUL_GET_QUANT_PARAMS);
    call_context(&call, ctx, KIND_MATMUL);
    if (copied_params(&call, user, &params)) {
        call.request.a = params.scale && params.scale_len > 0 ? params.scale_len : 0;
        call.request.b = params.zp && params.zp_len > 0 ? params.zp_len : 0;
        call.request.c = scale != NULL;
        call_part(&call, &params, sizeof params);
        if (call_send(&call) == 0) write_params(&call, user, &params, scale);
    }
    return call_end(&call);
}

/* ---------------------------------------------------------------- B */

static unsigned b_bits(int32_t type) {
    switch ((uint32_t)type) {
        MATRIX_B_BITS
        default: return 0;
    }
}

/* The bytes of B, or 0: then the engine says what is wrong with the sizes. */
static uint64_t b_bytes(int K, int N, int32_t type) {
    if (K <= 0 || N <= 0) return 0;
    uint64_t elements = (uint64_t)K * (uint64_t)N;
    return elements > (uint64_t)1 << 36 ? 0 : (elements * b_bits(type) + 7) / 8;
}

static int share_b(struct call *call, const void *B_input, uint64_t bytes) {
    int file = shared_file("openrknn B"), problem = file < 0 ? errno : copy_to_file(file, 0, B_input, (size_t)bytes);
    if (problem == EFAULT) call_fail(call, RKNN_ERR_PARAM_INVALID, "B_input has fewer than %llu bytes",
                                     (unsigned long long)bytes);
    else if (problem) call_fail(call, RKNN_ERR_MALLOC_FAIL, "no shared memory for B: %s", strerror(problem));
    return file;
}

static void write_b(struct call *call, void *B_output) {
    int file = message_take(&call->message);
    int problem = file < 0 ? EIO : copy_from_file(file, 0, B_output, (size_t)call->message.reply.a);
    if (problem) call_fail(call, problem == EFAULT ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_FAIL,
                           "B_output cannot be written: %s", strerror(problem));
    close_quietly(file);
}

/* Two signatures under one name: since 2.1.0 the fifth parameter is an rknn_matmul_info and the last; before, it was
   subN, and subK and a type followed. All are in the same places of every calling convention that we build for. */
int B_to_native(void *B_input, void *B_output, int K, int N, void *fifth, int subK, int type)
    __asm__("rknn_B_normal_layout_to_native_layout");

EXPORT int B_to_native(void *B_input, void *B_output, int K, int N, void *fifth, int subK, int type) {
    struct call call;
    rknn_matmul_info info = {0};
    int32_t kind = 0;
    call_begin(&call, "rknn_B_normal_layout_to_native_layout", OP_B_TO_NATIVE);
    call.request.a = K, call.request.b = N;
    if (call.code == 0 && (!B_input || !B_output)) call_fail(&call, RKNN_ERR_PARAM_INVALID, "B_input or B_output is NULL");
    if (abi()->number >= ABI_B_TAKES_INFO) {
        if (call.code == 0 && (!fifth || copy_in(&info, fifth, abi()->rknn_matmul_info) != 0))
            call_fail(&call, RKNN_ERR_PARAM_INVALID, "info is no address of an rknn_matmul_info");
        kind = (int32_t)info.type;
        call_part(&call, &info, abi()->rknn_matmul_info);
    } else {
        kind = type;
        call.request.c = (int32_t)(intptr_t)fifth, call.request.d = subK;
        call_part(&call, &kind, sizeof kind);
    }
    int file = call.code == 0 ? share_b(&call, B_input, b_bytes(K, N, kind)) : -1;
    call_descriptor(&call, file);
    if (call_send(&call) == 0) write_b(&call, B_output);
    close_quietly(file);
    return call_end(&call);
}
