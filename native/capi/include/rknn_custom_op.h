/* The RKNN C API: operators of the program.
 *
 * Part of openrknn: made from the tables of openrknn.vendor by `python -m tools.capi_headers`; do not edit.
 * Names, values and layouts are those of the vendor's header. */
#ifndef _RKNN_CUSTOM_OP_H
#define _RKNN_CUSTOM_OP_H

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. */
#define RKNN_CUSTOM_OP_MAX_STR_LEN 64
#define RKNN_CUSTOM_OP_MAX_VALUE_LEN 32

/* Before the function of a plugin that returns its operator. */
#define RKNN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))

#if defined(__arm__)
typedef uint32_t rknn_custom_op_interal_context;
#else
typedef uint64_t rknn_custom_op_interal_context;
#endif

/* who executes a custom operator. */
typedef enum _rknn_target_type {
    RKNN_TARGET_TYPE_CPU = 1,
    RKNN_TARGET_TYPE_GPU = 2,
    RKNN_TARGET_TYPE_MAX = 3
} rknn_target_type;

/* What an operator on the GPU gets. */
typedef struct _rknn_gpu_op_context {
    void* cl_context; /* OpenCL's cl_context */
    void* cl_command_queue; /* OpenCL's cl_command_queue */
    void* cl_kernel; /* OpenCL's cl_kernel */
} rknn_gpu_op_context;

/* What every function of an operator gets. */
typedef struct _rknn_custom_op_context {
    rknn_target_type target; /* who executes the operator */
    rknn_custom_op_interal_context internal_ctx; /* the library's own */
    rknn_gpu_op_context gpu_ctx; /* for operators on the GPU */
    void* priv_data; /* the operator's own */
} rknn_custom_op_context;

/* A tensor of an operator. */
typedef struct _rknn_custom_op_tensor {
    rknn_tensor_attr attr; /* shape, type and name */
    rknn_tensor_mem mem; /* its memory */
} rknn_custom_op_tensor;

/* An attribute of an operator in the model. */
typedef struct _rknn_custom_op_attr {
    char name[RKNN_MAX_NAME_LEN]; /* the attribute's name */
    rknn_tensor_type dtype; /* the type of one element */
    uint32_t n_elems; /* how many */
    void* data; /* the values; they belong to the library */
} rknn_custom_op_attr;

/* An operator of the program. */
typedef struct _rknn_custom_op {
    uint32_t version; /* of the operator */
    rknn_target_type target; /* who executes it */
    char op_type[RKNN_MAX_NAME_LEN]; /* the operator's type in the model */
    char cl_kernel_name[RKNN_MAX_NAME_LEN]; /* the OpenCL function */
    char* cl_kernel_source; /* the OpenCL program, or the path of its file */
    uint64_t cl_source_size; /* bytes of the program; 0: it is a path */
    char cl_build_options[RKNN_MAX_NAME_LEN]; /* for OpenCL's compiler */
    int (*init)(rknn_custom_op_context* op_ctx, rknn_custom_op_tensor* inputs, uint32_t n_inputs, rknn_custom_op_tensor* outputs, uint32_t n_outputs); /* called at registration; may be NULL */
    int (*prepare)(rknn_custom_op_context* op_ctx, rknn_custom_op_tensor* inputs, uint32_t n_inputs, rknn_custom_op_tensor* outputs, uint32_t n_outputs); /* called at each run before compute; may be NULL */
    int (*compute)(rknn_custom_op_context* op_ctx, rknn_custom_op_tensor* inputs, uint32_t n_inputs, rknn_custom_op_tensor* outputs, uint32_t n_outputs); /* called at each run */
    int (*compute_native)(rknn_custom_op_context* op_ctx, rknn_custom_op_tensor* inputs, uint32_t n_inputs, rknn_custom_op_tensor* outputs, uint32_t n_outputs); /* the same on native layouts; not used by any known version */
    int (*destroy)(rknn_custom_op_context* op_ctx); /* called when the context is destroyed */
} rknn_custom_op;

/* The function of a plugin that returns its operator: get_rknn_custom_op. */
typedef rknn_custom_op* (*get_custom_op_func)(void);

/* Gives the model operators that the program has. */
int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op* op, uint32_t custom_op_num);

/* An attribute of the operator; n_elems is 0 if there is none. */
void rknn_custom_op_get_op_attr(rknn_custom_op_context* op_ctx, const char* attr_name, rknn_custom_op_attr* op_attr);

#ifdef __cplusplus
}
#endif

#endif
