/* The RKNN C API: contexts, tensors, memory.
 *
 * Part of openrknn: made from the tables of openrknn.vendor by `python -m tools.capi_headers`; do not edit.
 * Names, values and layouts are those of the vendor's header. */
#ifndef _RKNN_API_H
#define _RKNN_API_H

#include <stdint.h>

#ifndef OPENRKNN_ABI_VERSION
/* Whose structs these are: 250 for 2.5.0. For older ones (152 for 1.5.2) define it before, and start the program
   with OPENRKNN_ABI=1.5.2, because a library cannot see it. */
#define OPENRKNN_ABI_VERSION 250
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* How a context behaves: flags of rknn_init. */
#define RKNN_FLAG_PRIOR_HIGH 0x00000000 /* high priority: the default */
#define RKNN_FLAG_PRIOR_MEDIUM 0x00000001 /* medium priority */
#define RKNN_FLAG_PRIOR_LOW 0x00000002 /* low priority */
#define RKNN_FLAG_ASYNC_MASK 0x00000004 /* outputs_get returns the frame before the current one instead of waiting */
#define RKNN_FLAG_COLLECT_PERF_MASK 0x00000008 /* measure every operator, for the query PERF_DETAIL; runs slower */
#define RKNN_FLAG_MEM_ALLOC_OUTSIDE 0x00000010 /* the caller provides the memory for weights, internals, inputs and outputs */
#define RKNN_FLAG_SHARE_WEIGHT_MEM 0x00000020 /* use the weights of another context, whose model has the same network */
#define RKNN_FLAG_FENCE_IN_OUTSIDE 0x00000040 /* a run waits for a fence that the caller brings */
#define RKNN_FLAG_FENCE_OUT_OUTSIDE 0x00000080 /* a run gives the caller a fence */
#define RKNN_FLAG_COLLECT_MODEL_INFO_ONLY 0x00000100 /* load nothing, only answer how much memory the model needs */
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE 0x00000200 /* the caller provides the memory for internals */
#define RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU 0x00000400 /* operators that the NPU cannot do prefer the GPU to the CPU */
#define RKNN_FLAG_ENABLE_SRAM 0x00000800 /* put internals into SRAM as far as they fit */
#define RKNN_FLAG_SHARE_SRAM 0x00001000 /* use the SRAM of another context; needs ENABLE_SRAM */
#define RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY 0x00002000 /* leave the nice value of the process alone (else it becomes -19) */
#define RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE 0x00004000 /* the caller flushes the caches of inputs (TensorMemory.sync) */
#define RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE 0x00008000 /* the caller invalidates the caches of outputs (TensorMemory.sync) */
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY 0x00010000 /* the model is already in NPU memory and is not copied */
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT 0x00020000 /* allocate memory before there is a context (only for create_mem2) */

/* What functions return. */
#define RKNN_SUCC 0 /* it worked */
#define RKNN_ERR_FAIL (-1) /* the call failed */
#define RKNN_ERR_TIMEOUT (-2) /* the NPU did not finish in time */
#define RKNN_ERR_DEVICE_UNAVAILABLE (-3) /* there is no NPU */
#define RKNN_ERR_MALLOC_FAIL (-4) /* memory for the NPU could not be allocated */
#define RKNN_ERR_PARAM_INVALID (-5) /* an argument is wrong */
#define RKNN_ERR_MODEL_INVALID (-6) /* the model cannot be used here */
#define RKNN_ERR_CTX_INVALID (-7) /* the context is not one, or not ready */
#define RKNN_ERR_INPUT_INVALID (-8) /* an input is wrong */
#define RKNN_ERR_OUTPUT_INVALID (-9) /* an output is wrong */
#define RKNN_ERR_DEVICE_UNMATCH (-10) /* library and kernel driver do not fit */
#define RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL (-11) /* the model was compiled ahead for another driver */
#define RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION (-12) /* the model's optimisation level does not fit the driver */
#define RKNN_ERR_TARGET_PLATFORM_UNMATCH (-13) /* the model is for another chip */
#define RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE (-14) /* a custom operator asked to be skipped */
#define RKNN_ERR_KEY_INVALID (-14) /* the key of an encrypted model is wrong */
#define RKNN_ERR_DECRYPT_FAILED (-15) /* the model could not be decrypted */
#define RKNN_ERR_SOC_BIND_FAILED (-16) /* the model is bound to another chip */

/* Limits. */
#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NUM_CHANNEL 15
#define RKNN_MAX_NAME_LEN 256
#define RKNN_MAX_DYNAMIC_SHAPE_NUM 512

#if defined(__arm__)
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

/* what rknn_query is asked. The NC1HWC2 names are other names for the plain native ones. */
typedef enum _rknn_query_cmd {
    RKNN_QUERY_IN_OUT_NUM = 0,
    RKNN_QUERY_INPUT_ATTR = 1,
    RKNN_QUERY_OUTPUT_ATTR = 2,
    RKNN_QUERY_PERF_DETAIL = 3,
    RKNN_QUERY_PERF_RUN = 4,
    RKNN_QUERY_SDK_VERSION = 5,
    RKNN_QUERY_MEM_SIZE = 6,
    RKNN_QUERY_CUSTOM_STRING = 7,
    RKNN_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR = 10,
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11,
    RKNN_QUERY_DEVICE_MEM_INFO = 12,
    RKNN_QUERY_INPUT_DYNAMIC_RANGE = 13,
    RKNN_QUERY_CURRENT_INPUT_ATTR = 14,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR = 15,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17,
    RKNN_QUERY_CMD_MAX = 18
} rknn_query_cmd;

/* the type of one element. */
typedef enum _rknn_tensor_type {
    RKNN_TENSOR_FLOAT32 = 0,
    RKNN_TENSOR_FLOAT16 = 1,
    RKNN_TENSOR_INT8 = 2,
    RKNN_TENSOR_UINT8 = 3,
    RKNN_TENSOR_INT16 = 4,
    RKNN_TENSOR_UINT16 = 5,
    RKNN_TENSOR_INT32 = 6,
    RKNN_TENSOR_UINT32 = 7,
    RKNN_TENSOR_INT64 = 8,
    RKNN_TENSOR_BOOL = 9,
    RKNN_TENSOR_INT4 = 10,
    RKNN_TENSOR_BFLOAT16 = 11,
    RKNN_TENSOR_TYPE_MAX = 12
} rknn_tensor_type;

/* how stored integers stand for real numbers. */
typedef enum _rknn_tensor_qnt_type {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2,
    RKNN_TENSOR_QNT_MAX = 3
} rknn_tensor_qnt_type;

/* the order of the dimensions in memory. */
typedef enum _rknn_tensor_format {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_NC1HWC2 = 2,
    RKNN_TENSOR_UNDEFINED = 3,
    RKNN_TENSOR_FORMAT_MAX = 4
} rknn_tensor_format;

/* which cores work on one context. */
typedef enum _rknn_core_mask {
    RKNN_NPU_CORE_AUTO = 0,
    RKNN_NPU_CORE_0 = 1,
    RKNN_NPU_CORE_1 = 2,
    RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1 = 3,
    RKNN_NPU_CORE_0_1_2 = 7,
    RKNN_NPU_CORE_ALL = 65535,
    RKNN_NPU_CORE_UNDEFINED = 65536,
} rknn_core_mask;

/* who allocated a memory. */
typedef enum _rknn_tensor_mem_flags {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_FD = 2,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS = 3,
    RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN = 4,
} rknn_tensor_mem_flags;

/* how rknn_create_mem2 allocates. */
typedef enum _rknn_mem_alloc_flags {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0,
    RKNN_FLAG_MEMORY_CACHEABLE = 1,
    RKNN_FLAG_MEMORY_NON_CACHEABLE = 2,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 4,
} rknn_mem_alloc_flags;

/* the direction in which caches are brought up to date. */
typedef enum _rknn_mem_sync_mode {
    RKNN_MEMORY_SYNC_TO_DEVICE = 1,
    RKNN_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = 3,
} rknn_mem_sync_mode;

/* RKNN_QUERY_IN_OUT_NUM. */
typedef struct _rknn_input_output_num {
    uint32_t n_input; /* how many inputs the model has */
    uint32_t n_output; /* how many outputs */
} rknn_input_output_num;

/* A tensor: the queries *_ATTR, rknn_set_io_mem and rknn_set_input_shapes. */
typedef struct _rknn_tensor_attr {
    uint32_t index; /* which input or output; set before a query */
    uint32_t n_dims; /* how many entries of dims count */
    uint32_t dims[RKNN_MAX_DIMS]; /* the shape, in the order of fmt */
    char name[RKNN_MAX_NAME_LEN]; /* the tensor's name */
    uint32_t n_elems; /* elements */
    uint32_t size; /* bytes without padding */
    rknn_tensor_format fmt; /* the order of the dimensions */
    rknn_tensor_type type; /* the type of one element */
    rknn_tensor_qnt_type qnt_type; /* how integers stand for real numbers */
    int8_t fl; /* fractional bits (dynamic fixed point) */
    int32_t zp; /* zero point (affine) */
    float scale; /* scale (affine) */
    uint32_t w_stride; /* pixels from one row to the next; 0: the width */
    uint32_t size_with_stride; /* bytes with the padding of rows */
    uint8_t pass_through; /* 1: the bytes go to the NPU as they are */
    uint32_t h_stride; /* rows from one batch to the next; 0: the height; set by the caller */
} rknn_tensor_attr;

/* RKNN_QUERY_INPUT_DYNAMIC_RANGE: the shapes that an input of a dynamic model takes. */
typedef struct _rknn_input_range {
    uint32_t index; /* which input; set before the query */
    uint32_t shape_number; /* how many shapes the model takes here */
    rknn_tensor_format fmt; /* the order of the dimensions */
    char name[RKNN_MAX_NAME_LEN]; /* the tensor's name */
    uint32_t dyn_range[RKNN_MAX_DYNAMIC_SHAPE_NUM][RKNN_MAX_DIMS]; /* the shapes */
    uint32_t n_dims; /* how many entries of each shape count */
} rknn_input_range;

/* RKNN_QUERY_PERF_DETAIL: needs RKNN_FLAG_COLLECT_PERF_MASK. */
typedef struct _rknn_perf_detail {
    char* perf_data; /* a text table; belongs to the context */
    uint64_t data_len; /* its bytes */
} rknn_perf_detail;

/* RKNN_QUERY_PERF_RUN. */
typedef struct _rknn_perf_run {
    int64_t run_duration; /* microseconds of the last run */
} rknn_perf_run;

/* RKNN_QUERY_SDK_VERSION. */
typedef struct _rknn_sdk_version {
    char api_version[256]; /* of the library */
    char drv_version[256]; /* of the kernel driver */
} rknn_sdk_version;

/* RKNN_QUERY_MEM_SIZE. */
#if OPENRKNN_ABI_VERSION >= 140
typedef struct _rknn_mem_size {
    uint32_t total_weight_size; /* bytes of weights */
    uint32_t total_internal_size; /* bytes of intermediate tensors */
    uint64_t total_dma_allocated_size; /* bytes that the context allocated in all */
    uint32_t total_sram_size; /* bytes of SRAM that the system keeps for the NPU */
    uint32_t free_sram_size; /* bytes of it that are free */
    uint32_t reserved[10];
} rknn_mem_size;
#else
typedef struct _rknn_mem_size {
    uint32_t total_weight_size; /* bytes of weights */
    uint32_t total_internal_size; /* bytes of intermediate tensors */
} rknn_mem_size;
#endif

/* RKNN_QUERY_CUSTOM_STRING. */
typedef struct _rknn_custom_string {
    char string[1024]; /* the text that was given when the model was built */
} rknn_custom_string;

/* Memory that the NPU and the program share. */
typedef struct _rknn_tensor_mem {
    void* virt_addr; /* where the CPU sees it */
    uint64_t phys_addr; /* where the NPU sees it */
    int32_t fd; /* its dma-buf */
    int32_t offset; /* where the tensor begins in it */
    uint32_t size; /* bytes */
    uint32_t flags; /* who allocated it (rknn_tensor_mem_flags) */
    void* priv_data; /* the library's own */
} rknn_tensor_mem;

/* Data for rknn_inputs_set. */
typedef struct _rknn_input {
    uint32_t index; /* which input */
    void* buf; /* the data */
    uint32_t size; /* bytes of the data */
    uint8_t pass_through; /* 1: the bytes go to the NPU as they are; type and fmt do not matter */
    rknn_tensor_type type; /* the type of the data */
    rknn_tensor_format fmt; /* the order of its dimensions */
} rknn_input;

/* Data from rknn_outputs_get. */
typedef struct _rknn_output {
    uint8_t want_float; /* 1: converted to float32 */
    uint8_t is_prealloc; /* 1: buf is the caller's */
    uint32_t index; /* which output */
    void* buf; /* the data */
    uint32_t size; /* bytes of the data */
} rknn_output;

/* More about a new context. */
#if OPENRKNN_ABI_VERSION >= 240
typedef struct _rknn_init_extend {
    rknn_context ctx; /* the context whose weights or SRAM are shared */
    int32_t real_model_offset; /* where the model begins in the file or buffer */
    uint32_t real_model_size; /* its bytes */
    int32_t model_buffer_fd; /* the dma-buf of a model that is not copied */
    uint32_t model_buffer_flags; /* the flags of that memory */
    void* user_key; /* an rknn_decrypt_key_mem, for encrypted models */
    uint8_t reserved[112];
} rknn_init_extend;
#elif OPENRKNN_ABI_VERSION >= 210
typedef struct _rknn_init_extend {
    rknn_context ctx; /* the context whose weights or SRAM are shared */
    int32_t real_model_offset; /* where the model begins in the file or buffer */
    uint32_t real_model_size; /* its bytes */
    int32_t model_buffer_fd; /* the dma-buf of a model that is not copied */
    uint32_t model_buffer_flags; /* the flags of that memory */
    uint8_t reserved[112];
} rknn_init_extend;
#elif OPENRKNN_ABI_VERSION >= 150
typedef struct _rknn_init_extend {
    rknn_context ctx; /* the context whose weights or SRAM are shared */
    int32_t real_model_offset; /* where the model begins in the file */
    uint32_t real_model_size; /* its bytes */
    uint8_t reserved[120];
} rknn_init_extend;
#else
typedef struct _rknn_init_extend {
    rknn_context ctx; /* the context whose weights or SRAM are shared */
    uint8_t reserved[128];
} rknn_init_extend;
#endif

/* A key. */
typedef struct _rknn_decrypt_key_mem {
    void* key_data; /* the key of an encrypted model */
    uint32_t key_size; /* its bytes */
} rknn_decrypt_key_mem;

/* More about a run. */
typedef struct _rknn_run_extend {
    uint64_t frame_id; /* the number of this run; set by the library */
    int32_t non_block; /* 1: return before the run has ended */
    int32_t timeout_ms; /* milliseconds to wait */
    int32_t fence_fd; /* a fence from another unit */
} rknn_run_extend;

/* More about outputs. */
typedef struct _rknn_output_extend {
    uint64_t frame_id; /* the number of the run that these outputs belong to */
} rknn_output_extend;

/* A name to print. */
static inline const char* get_qnt_type_string(rknn_tensor_qnt_type type) {
    switch (type) {
    case RKNN_TENSOR_QNT_NONE: return "NONE";
    case RKNN_TENSOR_QNT_DFP: return "DFP";
    case RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC: return "AFFINE";
    default: return "UNKNOW";
    }
}

/* A name to print. */
static inline const char* get_type_string(rknn_tensor_type type) {
    switch (type) {
    case RKNN_TENSOR_FLOAT32: return "FP32";
    case RKNN_TENSOR_FLOAT16: return "FP16";
    case RKNN_TENSOR_INT8: return "INT8";
    case RKNN_TENSOR_UINT8: return "UINT8";
    case RKNN_TENSOR_INT16: return "INT16";
    case RKNN_TENSOR_UINT16: return "UINT16";
    case RKNN_TENSOR_INT32: return "INT32";
    case RKNN_TENSOR_UINT32: return "UINT32";
    case RKNN_TENSOR_INT64: return "INT64";
    case RKNN_TENSOR_BOOL: return "BOOL";
    case RKNN_TENSOR_INT4: return "INT4";
    case RKNN_TENSOR_BFLOAT16: return "BF16";
    default: return "UNKNOW";
    }
}

/* A name to print. */
static inline const char* get_format_string(rknn_tensor_format fmt) {
    switch (fmt) {
    case RKNN_TENSOR_NCHW: return "NCHW";
    case RKNN_TENSOR_NHWC: return "NHWC";
    case RKNN_TENSOR_NC1HWC2: return "NC1HWC2";
    case RKNN_TENSOR_UNDEFINED: return "UNDEFINED";
    default: return "UNKNOW";
    }
}

/* Loads a model: `size` bytes at `model`, or the file whose path `model` is if `size` is 0. */
int rknn_init(rknn_context* context, void* model, uint32_t size, uint32_t flag, rknn_init_extend* extend);

/* Makes another context of the same model that shares its weights. */
int rknn_dup_context(rknn_context* context_in, rknn_context* context_out);

/* Ends a context. */
int rknn_destroy(rknn_context context);

/* Asks about the model, its tensors or the last run; `info` is the struct that belongs to `cmd`. */
int rknn_query(rknn_context context, rknn_query_cmd cmd, void* info, uint32_t size);

/* Hands over input data; they are copied. */
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input* inputs);

/* Chooses how many cores share a batch. */
int rknn_set_batch_core_num(rknn_context context, int core_num);

/* Chooses the cores. */
int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask);

/* Runs the model once; `extend` may be NULL. */
int rknn_run(rknn_context context, rknn_run_extend* extend);

/* Waits for a run that was started with non_block. */
int rknn_wait(rknn_context context, rknn_run_extend* extend);

/* Waits for the run and fetches outputs; `extend` may be NULL. */
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output* outputs, rknn_output_extend* extend);

/* Frees what rknn_outputs_get allocated. */
int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output* outputs);

/* Memory of the program, by the address that the NPU sees. */
rknn_tensor_mem* rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void* virt_addr, uint32_t size);

/* Memory of the program, by its descriptor. */
rknn_tensor_mem* rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void* virt_addr, uint32_t size, int32_t offset);

/* Memory of the vendor's media library. */
rknn_tensor_mem* rknn_create_mem_from_mb_blk(rknn_context ctx, void* mb_blk, int32_t offset);

/* Allocates memory that the NPU and the program share. */
rknn_tensor_mem* rknn_create_mem(rknn_context ctx, uint32_t size);

/* As rknn_create_mem, with flags (rknn_mem_alloc_flags). */
rknn_tensor_mem* rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags);

/* Gives memory back. */
int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem* mem);

/* Puts the weights there (RKNN_FLAG_MEM_ALLOC_OUTSIDE). */
int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem* mem);

/* Puts intermediate tensors there (RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE). */
int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem* mem);

/* Binds memory to an input or output; nothing is copied from then on. */
int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem* mem, rknn_tensor_attr* attr);

/* Chooses the shape of one input of a dynamic model; rknn_set_input_shapes takes all. */
int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr* attr);

/* Chooses the shapes of a dynamic model, one for each input. */
int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr* attr);

/* Brings caches up to date. */
int rknn_mem_sync(rknn_context context, rknn_tensor_mem* mem, rknn_mem_sync_mode mode);

#ifdef __cplusplus
}
#endif

#endif
