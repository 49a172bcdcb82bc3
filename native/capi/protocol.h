/* Generated from openrknn.capi.wire; do not edit. A test makes it again and compares. */
#ifndef OPENRKNN_CAPI_PROTOCOL_H
#define OPENRKNN_CAPI_PROTOCOL_H
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION 0x8088ffc5
#define SOCKET_NAME "engine-8088ffc5.socket"
#define SOCKET_VARIABLE "OPENRKNN_ENGINE_SOCKET"
#define ENGINE_VARIABLE "OPENRKNN_ENGINE"
enum { LARGEST_PACKET = 196608, MOST_DESCRIPTORS = 4 };

enum operation {
    OP_HELLO = 1, /* a version (major * 10000 + minor * 100 + patch), b bytes of a pointer, c process, d WIRE_VERSION; payload: NAME=VALUE texts, each ended by a zero byte -> value: the engine's process */
    OP_CHANNEL = 2, /* descriptor: one end of a socket pair, served from now on like this one */
    OP_INIT = 3, /* a flag, b the argument size, c where the model begins in the descriptor, d its bytes; payload: rknn_init_extend or nothing; descriptor: the model -> value: context; payload: the name of the device */
    OP_DUP_CONTEXT = 4, /* -> value: context */
    OP_DESTROY = 5,
    OP_QUERY = 6, /* a cmd, b size; payload: at most `size` bytes of info -> payload: what to write there; for PERF_DETAIL a descriptor with the text and a: its bytes */
    OP_INPUTS_SET = 7, /* a count, b bytes of the staging memory; payload: rknn_input[a], buf is an offset in it; descriptor: the staging memory, if it is new */
    OP_SET_BATCH_CORE_NUM = 8, /* a core_num */
    OP_SET_CORE_MASK = 9, /* a core_mask */
    OP_RUN = 10, /* payload: rknn_run_extend or nothing; descriptor: its fence -> payload: rknn_run_extend */
    OP_WAIT = 11, /* payload: rknn_run_extend or nothing -> payload: rknn_run_extend */
    OP_OUTPUTS_GET = 12, /* a count, b 1: an rknn_output_extend is wanted; payload: rknn_output[a] -> payload: rknn_output[a], buf is an offset in the results, then rknn_output_extend; a bytes of the results; descriptor: the results, if they are new */
    OP_CREATE_MEM = 13, /* a size, b alloc_flags; context 0: without one -> value: memory, a bytes to map, b offset; payload: rknn_tensor_mem; descriptor: the memory */
    OP_MEM_FROM_FD = 14, /* a size, b offset; descriptor: the memory -> value: memory; payload: rknn_tensor_mem */
    OP_MEM_FROM_PHYS = 15, /* a address, b size -> as MEM_FROM_FD */
    OP_MEM_FROM_MB_BLK = 16, /* a offset -> as MEM_FROM_FD */
    OP_DESTROY_MEM = 17,
    OP_SET_WEIGHT_MEM = 18, /* a mem->offset, b mem->size */
    OP_SET_INTERNAL_MEM = 19, /* a mem->offset, b mem->size */
    OP_SET_IO_MEM = 20, /* a mem->offset, b mem->size; payload: rknn_tensor_attr */
    OP_SET_INPUT_SHAPE = 21, /* payload: rknn_tensor_attr */
    OP_SET_INPUT_SHAPES = 22, /* a count; payload: rknn_tensor_attr[a] */
    OP_MEM_SYNC = 23, /* a mode */
    OP_MATMUL_CREATE = 24, /* payload: rknn_matmul_info -> value: context; payload: rknn_matmul_io_attr */
    OP_MATMUL_CREATE_DYNAMIC_SHAPE = 25, /* a count; payload: rknn_matmul_info, rknn_matmul_shape[a] -> value: context; payload: rknn_matmul_io_attr[a] */
    OP_MATMUL_SET_IO_MEM = 26, /* a mem->offset, b mem->size; payload: rknn_matmul_tensor_attr */
    OP_MATMUL_SET_CORE_MASK = 27, /* a core_mask */
    OP_MATMUL_SET_QUANT_PARAMS = 28, /* a count of scales, b count of zero points; payload: rknn_quant_params, scales (float), zero points (int32); if these are too many, they are in a descriptor */
    OP_MATMUL_GET_QUANT_PARAMS = 29, /* a room for scales, b room for zero points, c 1: `scale` is wanted; payload: rknn_quant_params -> a scales, b zero points; payload: rknn_quant_params, scales, zero points, then `scale` (float) if it was wanted; if these are too many, they are in a descriptor */
    OP_MATMUL_SET_DYNAMIC_SHAPE = 30, /* payload: rknn_matmul_shape */
    OP_MATMUL_RUN = 31,
    OP_MATMUL_DESTROY = 32,
    OP_B_TO_NATIVE = 33, /* a K, b N, c subN, d subK (before 2.1: no info then); payload: rknn_matmul_info, or rknn_matmul_type (int32) before 2.1; descriptor: B -> a bytes; descriptor: the result */
    OP_REGISTER_CUSTOM_OPS = 34, /* a count; payload: rknn_custom_op[a] */
    OP_GET_OP_ATTR = 35, /* a: internal_ctx of the operator; payload: the attribute's name -> payload: rknn_custom_op_attr, then the values */
    OP_CALLBACK_DONE = 36, /* a: what the function returned */
    OP_LLM_INIT = 37, /* payload: model, context, keep, skip_special, ignore_eos as NAME=VALUE texts, each ended by a zero byte -> value: language model */
    OP_LLM_RUN = 38, /* a RKLLMInputType, b bytes of tokens; payload: texts as in LLM_INIT: role, thinking, mode, keep_history, max_new_tokens, save_cache, prompt, and what says how to sample; descriptor: tokens (int32), if these are the input */
    OP_LLM_NEXT = 39, /* -> a LLMCallState, b token, c rows, d columns, value: RKLLMInferMode; payload: the text, or RKLLMPerfStat at the end; descriptor: float32 [c, d], if there are rows */
    OP_LLM_STOP = 40,
    OP_LLM_CLEAR = 41, /* a 1: keep the system prompt, b first position, c end (-1: all) */
    OP_LLM_LENGTH = 42, /* -> value: positions in the cache */
    OP_LLM_TEMPLATE = 43, /* payload: system, prefix, postfix as in LLM_INIT */
    OP_LLM_TOOLS = 44, /* payload: system, tools, response as in LLM_INIT */
    OP_LLM_LOAD_CACHE = 45, /* payload: path as in LLM_INIT */
    OP_LLM_DESTROY = 46,
};

enum phase { PHASE_INIT = 0, PHASE_PREPARE = 1, PHASE_COMPUTE = 2, PHASE_DESTROY = 3 };

struct capi_request {
    uint32_t operation;
    uint32_t payload_bytes;
    uint64_t context;
    uint64_t memory;
    int64_t a;
    int64_t b;
    int64_t c;
    int64_t d;
};
_Static_assert(sizeof(struct capi_request) == 56, "capi_request");

struct capi_reply {
    int32_t code;
    uint32_t payload_bytes;
    uint32_t reason_bytes;
    uint32_t is_callback;
    uint64_t value;
    int64_t a;
    int64_t b;
    int64_t c;
    int64_t d;
};
_Static_assert(sizeof(struct capi_reply) == 56, "capi_reply");

#endif
