/* The RKNN C API: products of matrices.
 *
 * Part of openrknn: made from the tables of openrknn.vendor by `python -m tools.capi_headers`; do not edit.
 * Names, values and layouts are those of the vendor's header. */
#ifndef _RKNN_MATMUL_API_H
#define _RKNN_MATMUL_API_H

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef rknn_context rknn_matmul_ctx;

/* which numbers of a matrix share a scale. */
typedef enum _rknn_matmul_quant_type {
    RKNN_QUANT_TYPE_PER_LAYER_SYM = 0,
    RKNN_QUANT_TYPE_PER_LAYER_ASYM = 1,
    RKNN_QUANT_TYPE_PER_CHANNEL_SYM = 2,
    RKNN_QUANT_TYPE_PER_CHANNEL_ASYM = 3,
    RKNN_QUANT_TYPE_PER_GROUP_SYM = 4,
    RKNN_QUANT_TYPE_PER_GROUP_ASYM = 5,
} rknn_matmul_quant_type;

/* the element types of A, B and C. */
typedef enum _rknn_matmul_type {
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1,
    RKNN_INT8_MM_INT8_TO_INT32 = 2,
    RKNN_INT8_MM_INT8_TO_INT8 = 3,
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT32 = 5,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT16 = 6,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT32 = 7,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT16 = 8,
    RKNN_INT8_MM_INT8_TO_FLOAT32 = 9,
    RKNN_INT4_MM_INT4_TO_INT16 = 10,
    RKNN_INT8_MM_INT4_TO_INT32 = 11,
    RKNN_FLOAT16_MM_INT4_TO_BFLOAT16 = 12,
    RKNN_INT8_MM_INT4_TO_FLOAT16 = 15,
} rknn_matmul_type;

/* the memory layout of a matrix. */
typedef enum _rknn_matmul_layout {
    RKNN_MM_LAYOUT_NORM = 0,
    RKNN_MM_LAYOUT_NATIVE = 1,
    RKNN_MM_LAYOUT_TP_NORM = 2,
} rknn_matmul_layout;

/* How the integers of a matrix stand for real numbers. */
typedef struct _rknn_quant_params {
    char name[RKNN_MAX_NAME_LEN]; /* the matrix's name */
    float* scale; /* one scale, or one for each column or group */
    int32_t scale_len; /* how many */
    int32_t* zp; /* the zero points */
    int32_t zp_len; /* how many */
} rknn_quant_params;

/* A matrix. */
typedef struct _rknn_matmul_tensor_attr {
    char name[RKNN_MAX_NAME_LEN]; /* the matrix's name */
    uint32_t n_dims; /* how many entries of dims count */
    uint32_t dims[RKNN_MAX_DIMS]; /* the shape in memory */
    uint32_t size; /* bytes */
    rknn_tensor_type type; /* the type of one element */
} rknn_matmul_tensor_attr;

/* The three matrices of C = A x B. */
typedef struct _rknn_matmul_io_attr {
    rknn_matmul_tensor_attr A; /* [M, K] */
    rknn_matmul_tensor_attr B; /* [K, N] */
    rknn_matmul_tensor_attr C; /* [M, N] */
} rknn_matmul_io_attr;

/* The sizes of one product. */
typedef struct _rknn_matmul_shape {
    int32_t M; /* rows of A and C */
    int32_t K; /* columns of A, rows of B */
    int32_t N; /* columns of B and C */
} rknn_matmul_shape;

/* What a product is. */
#if OPENRKNN_ABI_VERSION >= 210
typedef struct _rknn_matmul_info {
    int32_t M; /* rows of A and C */
    int32_t K; /* columns of A, rows of B */
    int32_t N; /* columns of B and C */
    rknn_matmul_type type; /* of A, B and C */
    int16_t B_layout; /* memory layout of B (rknn_matmul_layout) */
    int16_t B_quant_type; /* which numbers of B share a scale (rknn_matmul_quant_type) */
    int16_t AC_layout; /* memory layout of A and C */
    int16_t AC_quant_type; /* which numbers of A and of C share a scale */
    int32_t iommu_domain_id; /* which of the 4 GB address spaces */
    int16_t group_size; /* rows of B that share a scale (quantisation per group) */
    int8_t reserved[34];
} rknn_matmul_info;
#elif OPENRKNN_ABI_VERSION >= 200
typedef struct _rknn_matmul_info {
    int32_t M; /* rows of A and C */
    int32_t K; /* columns of A, rows of B */
    int32_t N; /* columns of B and C */
    rknn_matmul_type type; /* of A, B and C */
    int16_t B_layout; /* memory layout of B (rknn_matmul_layout) */
    int16_t B_quant_type; /* which numbers of B share a scale (rknn_matmul_quant_type) */
    int16_t AC_layout; /* memory layout of A and C */
    int16_t AC_quant_type; /* which numbers of A and of C share a scale */
    int32_t iommu_domain_id; /* which of the 4 GB address spaces */
    int8_t reserved[36];
} rknn_matmul_info;
#elif OPENRKNN_ABI_VERSION >= 160
typedef struct _rknn_matmul_info {
    int32_t M; /* rows of A and C */
    int32_t K; /* columns of A, rows of B */
    int32_t N; /* columns of B and C */
    rknn_matmul_type type; /* of A, B and C */
    int32_t B_layout; /* memory layout of B */
    int32_t AC_layout; /* memory layout of A and C */
} rknn_matmul_info;
#else
typedef struct _rknn_matmul_info {
    int32_t M; /* rows of A and C */
    int32_t K; /* columns of A, rows of B */
    int32_t N; /* columns of B and C */
    rknn_tensor_type type; /* of A and B: float16 gives float32, int8 gives int32 */
    int32_t native_layout; /* 1: B in the NPU's own layout */
    int32_t perf_layout; /* 1: A and C in the NPU's own layout */
} rknn_matmul_info;
#endif

/* Makes a context for C = A x B, and says how the matrices must lie in memory. */
int rknn_matmul_create(rknn_matmul_ctx* ctx, rknn_matmul_info* info, rknn_matmul_io_attr* io_attr);

/* The same for several sizes. */
#if OPENRKNN_ABI_VERSION >= 210
int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs);
#else
int rknn_matmul_create_dyn_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs);
#endif

/* Binds memory to a matrix. */
int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem* mem, rknn_matmul_tensor_attr* attr);

/* Chooses the cores. */
int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask);

/* Says how the integers of a matrix stand for real numbers. */
int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params* params);

/* The scales that A, B and C give together. */
int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params* params, float* scale);

/* Chooses one of the sizes. */
int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape* shape);

/* Multiplies. */
int rknn_matmul_run(rknn_matmul_ctx ctx);

/* Ends a context. */
int rknn_matmul_destroy(rknn_matmul_ctx ctx);

/* Brings B into the NPU's own layout. */
#if OPENRKNN_ABI_VERSION >= 210
int rknn_B_normal_layout_to_native_layout(void* B_input, void* B_output, int K, int N, rknn_matmul_info* info);
#else
int rknn_B_normal_layout_to_native_layout(void* B_input, void* B_output, int K, int N, int subN, int subK, rknn_matmul_type type);
#endif

#ifdef __cplusplus
}
#endif

#endif
