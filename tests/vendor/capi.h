/*
 * The structs and enumerations of the RKNN C API, declared by hand from the tables of the vendor's reference, as a
 * second opinion on openrknn.vendor: a C compiler lays them out, and the recording library uses them.
 *
 * API is the version: 152 for 1.5.2, 200 for 2.0.0-beta0, 232 for 2.3.2, 250 for 2.5.0.
 */
#ifndef OPENRKNN_TEST_CAPI_H
#define OPENRKNN_TEST_CAPI_H
#include <stdint.h>

#ifndef API
#define API 232
#endif

#ifdef __arm__
typedef uint32_t rknn_context;
typedef uint32_t rknn_custom_op_interal_context;
#else
typedef uint64_t rknn_context;
typedef uint64_t rknn_custom_op_interal_context;
#endif
typedef rknn_context rknn_matmul_ctx;

typedef enum {
    RKNN_TENSOR_FLOAT32, RKNN_TENSOR_FLOAT16, RKNN_TENSOR_INT8, RKNN_TENSOR_UINT8, RKNN_TENSOR_INT16,
    RKNN_TENSOR_UINT16, RKNN_TENSOR_INT32, RKNN_TENSOR_UINT32, RKNN_TENSOR_INT64, RKNN_TENSOR_BOOL, RKNN_TENSOR_INT4,
    RKNN_TENSOR_BFLOAT16, RKNN_TENSOR_TYPE_MAX
} rknn_tensor_type;
typedef enum {
    RKNN_TENSOR_QNT_NONE, RKNN_TENSOR_QNT_DFP, RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, RKNN_TENSOR_QNT_MAX
} rknn_tensor_qnt_type;
typedef enum {
    RKNN_TENSOR_NCHW, RKNN_TENSOR_NHWC, RKNN_TENSOR_NC1HWC2, RKNN_TENSOR_UNDEFINED, RKNN_TENSOR_FORMAT_MAX
} rknn_tensor_format;
typedef enum {
    RKNN_QUERY_IN_OUT_NUM, RKNN_QUERY_INPUT_ATTR, RKNN_QUERY_OUTPUT_ATTR, RKNN_QUERY_PERF_DETAIL, RKNN_QUERY_PERF_RUN,
    RKNN_QUERY_SDK_VERSION, RKNN_QUERY_MEM_SIZE, RKNN_QUERY_CUSTOM_STRING, RKNN_QUERY_NATIVE_INPUT_ATTR,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR, RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR, RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR,
    RKNN_QUERY_DEVICE_MEM_INFO, RKNN_QUERY_INPUT_DYNAMIC_RANGE, RKNN_QUERY_CURRENT_INPUT_ATTR,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR,
    RKNN_QUERY_CMD_MAX,
    RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = RKNN_QUERY_NATIVE_INPUT_ATTR,
    RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = RKNN_QUERY_NATIVE_OUTPUT_ATTR,
} rknn_query_cmd;
typedef enum {
    RKNN_NPU_CORE_AUTO = 0, RKNN_NPU_CORE_0 = 1, RKNN_NPU_CORE_1 = 2, RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1 = RKNN_NPU_CORE_0 | RKNN_NPU_CORE_1, RKNN_NPU_CORE_0_1_2 = RKNN_NPU_CORE_0_1 | RKNN_NPU_CORE_2,
    RKNN_NPU_CORE_ALL = 0xffff, RKNN_NPU_CORE_UNDEFINED
} rknn_core_mask;
typedef enum {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1, RKNN_TENSOR_MEMORY_FLAGS_FROM_FD, RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS,
    RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN
} rknn_tensor_mem_flags;
typedef enum {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0, RKNN_FLAG_MEMORY_CACHEABLE = 1, RKNN_FLAG_MEMORY_NON_CACHEABLE = 2,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 4
} rknn_mem_alloc_flags;
typedef enum {
    RKNN_MEMORY_SYNC_TO_DEVICE = 1, RKNN_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = RKNN_MEMORY_SYNC_TO_DEVICE | RKNN_MEMORY_SYNC_FROM_DEVICE
} rknn_mem_sync_mode;
typedef enum {
    RKNN_QUANT_TYPE_PER_LAYER_SYM, RKNN_QUANT_TYPE_PER_LAYER_ASYM, RKNN_QUANT_TYPE_PER_CHANNEL_SYM,
    RKNN_QUANT_TYPE_PER_CHANNEL_ASYM, RKNN_QUANT_TYPE_PER_GROUP_SYM, RKNN_QUANT_TYPE_PER_GROUP_ASYM
} rknn_matmul_quant_type;
typedef enum {
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1, RKNN_INT8_MM_INT8_TO_INT32 = 2, RKNN_INT8_MM_INT8_TO_INT8 = 3,
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4, RKNN_FLOAT16_MM_INT8_TO_FLOAT32 = 5, RKNN_FLOAT16_MM_INT8_TO_FLOAT16 = 6,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT32 = 7, RKNN_FLOAT16_MM_INT4_TO_FLOAT16 = 8, RKNN_INT8_MM_INT8_TO_FLOAT32 = 9,
    RKNN_INT4_MM_INT4_TO_INT16 = 10, RKNN_INT8_MM_INT4_TO_INT32 = 11, RKNN_FLOAT16_MM_INT4_TO_BFLOAT16 = 12,
    RKNN_INT8_MM_INT4_TO_FLOAT16 = 15
} rknn_matmul_type;
typedef enum { RKNN_MM_LAYOUT_NORM, RKNN_MM_LAYOUT_NATIVE, RKNN_MM_LAYOUT_TP_NORM } rknn_matmul_layout;
typedef enum { RKNN_TARGET_TYPE_CPU = 1, RKNN_TARGET_TYPE_GPU, RKNN_TARGET_TYPE_MAX } rknn_target_type;

typedef struct { uint32_t n_input, n_output; } rknn_input_output_num;
typedef struct {
    uint32_t index, n_dims, dims[16];
    char name[256];
    uint32_t n_elems, size;
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;
typedef struct {
    uint32_t index, shape_number;
    rknn_tensor_format fmt;
    char name[256];
    uint32_t dyn_range[512][16];
    uint32_t n_dims;
} rknn_input_range;
typedef struct { char *perf_data; uint64_t data_len; } rknn_perf_detail;
typedef struct { int64_t run_duration; } rknn_perf_run;
typedef struct { char api_version[256], drv_version[256]; } rknn_sdk_version;
typedef struct {
    uint32_t total_weight_size, total_internal_size;
#if API >= 140
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size, free_sram_size, reserved[10];
#endif
} rknn_mem_size;
typedef struct { char string[1024]; } rknn_custom_string;
typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd, offset;
    uint32_t size, flags;
    void *priv_data;
} rknn_tensor_mem;
typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;
typedef struct { uint8_t want_float, is_prealloc; uint32_t index; void *buf; uint32_t size; } rknn_output;
typedef struct { void *key_data; uint32_t key_size; } rknn_decrypt_key_mem;
typedef struct {
    rknn_context ctx;
#if API >= 150
    int32_t real_model_offset;
    uint32_t real_model_size;
#endif
#if API >= 210
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
#endif
#if API >= 250
    rknn_decrypt_key_mem *user_key;
#endif
#if API >= 210
    uint8_t reserved[112];
#elif API >= 150
    uint8_t reserved[120];
#else
    uint8_t reserved[128];
#endif
} rknn_init_extend;
typedef struct { uint64_t frame_id; int32_t non_block, timeout_ms, fence_fd; } rknn_run_extend;
typedef struct { uint64_t frame_id; } rknn_output_extend;

typedef struct {
    char name[256];
    float *scale;
    int32_t scale_len;
    int32_t *zp;
    int32_t zp_len;
} rknn_quant_params;
typedef struct {
    char name[256];
    uint32_t n_dims, dims[16], size;
    rknn_tensor_type type;
} rknn_matmul_tensor_attr;
typedef struct { rknn_matmul_tensor_attr A, B, C; } rknn_matmul_io_attr;
typedef struct { int32_t M, K, N; } rknn_matmul_shape;
typedef struct {
    int32_t M, K, N;
#if API < 160
    rknn_tensor_type type;
    int32_t native_layout, perf_layout;
#elif API < 200
    rknn_matmul_type type;
    int32_t B_layout, AC_layout;
#else
    rknn_matmul_type type;
    int16_t B_layout, B_quant_type, AC_layout, AC_quant_type;
    int32_t iommu_domain_id;
#if API >= 210
    int16_t group_size;
    int8_t reserved[34];
#else
    int8_t reserved[36];
#endif
#endif
} rknn_matmul_info;

typedef struct { void *cl_context, *cl_command_queue, *cl_kernel; } rknn_gpu_op_context;
typedef struct {
    rknn_target_type target;
    rknn_custom_op_interal_context internal_ctx;
    rknn_gpu_op_context gpu_ctx;
    void *priv_data;
} rknn_custom_op_context;
typedef struct { rknn_tensor_attr attr; rknn_tensor_mem mem; } rknn_custom_op_tensor;
typedef struct { char name[256]; rknn_tensor_type dtype; uint32_t n_elems; void *data; } rknn_custom_op_attr;
typedef int rknn_custom_op_callback(rknn_custom_op_context *, rknn_custom_op_tensor *, uint32_t,
                                    rknn_custom_op_tensor *, uint32_t);
typedef struct {
    uint32_t version;
    rknn_target_type target;
    char op_type[256], cl_kernel_name[256], *cl_kernel_source;
    uint64_t cl_source_size;
    char cl_build_options[256];
    rknn_custom_op_callback *init, *prepare, *compute, *compute_native;
    int (*destroy)(rknn_custom_op_context *);
} rknn_custom_op;
#endif
