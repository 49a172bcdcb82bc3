"""The declarations of the structs; `openrknn.vendor.tables.layouts` says where they come from and reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_BASIC = {
    "rknn_input_output_num": {
        "1.3.0": """
            uint32_t n_input            how many inputs the model has
            uint32_t n_output           how many outputs""",
    },
    "rknn_tensor_attr": {
        "1.3.0": """
            uint32_t index              which input or output; set before a query
            uint32_t n_dims             how many entries of dims count
            uint32_t dims[RKNN_MAX_DIMS]        the shape, in the order of fmt
            char name[RKNN_MAX_NAME_LEN]        the tensor's name
            uint32_t n_elems            elements
            uint32_t size               bytes without padding
            rknn_tensor_format fmt      the order of the dimensions
            rknn_tensor_type type       the type of one element
            rknn_tensor_qnt_type qnt_type       how integers stand for real numbers
            int8_t fl                   fractional bits (dynamic fixed point)
            int32_t zp                  zero point (affine)
            float scale                 scale (affine)
            uint32_t w_stride           pixels from one row to the next; 0: the width
            uint32_t size_with_stride   bytes with the padding of rows
            uint8_t pass_through        1: the bytes go to the NPU as they are
            uint32_t h_stride           rows from one batch to the next; 0: the height; set by the caller""",
    },
    "rknn_input_range": {
        "1.3.0": """
            uint32_t index              which input; set before the query
            uint32_t shape_number       how many shapes the model takes here
            rknn_tensor_format fmt      the order of the dimensions
            char name[RKNN_MAX_NAME_LEN]        the tensor's name
            uint32_t dyn_range[RKNN_MAX_DYNAMIC_SHAPE_NUM][RKNN_MAX_DIMS]  the shapes
            uint32_t n_dims             how many entries of each shape count""",
    },
    "rknn_perf_detail": {
        "1.3.0": """
            char* perf_data             a text table; belongs to the context
            uint64_t data_len           its bytes""",
    },
    "rknn_perf_run": {
        "1.3.0": """
            int64_t run_duration        microseconds of the last run""",
    },
    "rknn_sdk_version": {
        "1.3.0": """
            char api_version[256]       of the library
            char drv_version[256]       of the kernel driver""",
    },
    "rknn_mem_size": {
        "1.3.0": """
            uint32_t total_weight_size          bytes of weights
            uint32_t total_internal_size        bytes of intermediate tensors""",
        "1.4.0": """
            uint32_t total_weight_size          bytes of weights
            uint32_t total_internal_size        bytes of intermediate tensors
            uint64_t total_dma_allocated_size   bytes that the context allocated in all
            uint32_t total_sram_size            bytes of SRAM that the system keeps for the NPU
            uint32_t free_sram_size             bytes of it that are free
            uint32_t reserved[10]""",
    },
    "rknn_custom_string": {
        "1.3.0": """
            char string[1024]           the text that was given when the model was built""",
    },
    "rknn_tensor_mem": {
        "1.3.0": """
            void* virt_addr             where the CPU sees it
            uint64_t phys_addr          where the NPU sees it
            int32_t fd                  its dma-buf
            int32_t offset              where the tensor begins in it
            uint32_t size               bytes
            uint32_t flags              who allocated it (rknn_tensor_mem_flags)
            void* priv_data             the library's own""",
    },
    "rknn_input": {
        "1.3.0": """
            uint32_t index              which input
            void* buf                   the data
            uint32_t size               bytes of the data
            uint8_t pass_through        1: the bytes go to the NPU as they are; type and fmt do not matter
            rknn_tensor_type type       the type of the data
            rknn_tensor_format fmt      the order of its dimensions""",
    },
    "rknn_output": {
        "1.3.0": """
            uint8_t want_float          1: converted to float32
            uint8_t is_prealloc         1: buf is the caller's
            uint32_t index              which output
            void* buf                   the data
            uint32_t size               bytes of the data""",
    },
    "rknn_init_extend": {
        "1.3.0": """
            rknn_context ctx            the context whose weights or SRAM are shared
            uint8_t reserved[128]""",
        "1.5.0": """
            rknn_context ctx            the context whose weights or SRAM are shared
            int32_t real_model_offset   where the model begins in the file
            uint32_t real_model_size    its bytes
            uint8_t reserved[120]""",
        "2.1.0": """
            rknn_context ctx            the context whose weights or SRAM are shared
            int32_t real_model_offset   where the model begins in the file or buffer
            uint32_t real_model_size    its bytes
            int32_t model_buffer_fd     the dma-buf of a model that is not copied
            uint32_t model_buffer_flags  the flags of that memory
            uint8_t reserved[112]""",
        # Seen in 2.5.0. Nobody has seen 2.4: it gets the longer struct, whose new field is 0 unless there is a key.
        "2.4.0": """
            rknn_context ctx            the context whose weights or SRAM are shared
            int32_t real_model_offset   where the model begins in the file or buffer
            uint32_t real_model_size    its bytes
            int32_t model_buffer_fd     the dma-buf of a model that is not copied
            uint32_t model_buffer_flags  the flags of that memory
            void* user_key              an rknn_decrypt_key_mem, for encrypted models
            uint8_t reserved[112]""",
    },
    "rknn_decrypt_key_mem": {
        "2.5.0": """
            void* key_data              the key of an encrypted model
            uint32_t key_size           its bytes""",
    },
    "rknn_run_extend": {
        "1.3.0": """
            uint64_t frame_id           the number of this run; set by the library
            int32_t non_block           1: return before the run has ended
            int32_t timeout_ms          milliseconds to wait
            int32_t fence_fd            a fence from another unit""",
    },
    "rknn_output_extend": {
        "1.3.0": """
            uint64_t frame_id           the number of the run that these outputs belong to""",
    },
}

_MATMUL = {
    "rknn_quant_params": {
        "2.0.0b0": """
            char name[RKNN_MAX_NAME_LEN]        the matrix's name
            float* scale                one scale, or one for each column or group
            int32_t scale_len           how many
            int32_t* zp                 the zero points
            int32_t zp_len              how many""",
    },
    "rknn_matmul_tensor_attr": {
        "1.5.0": """
            char name[RKNN_MAX_NAME_LEN]        the matrix's name
            uint32_t n_dims             how many entries of dims count
            uint32_t dims[RKNN_MAX_DIMS]        the shape in memory
            uint32_t size               bytes
            rknn_tensor_type type       the type of one element""",
    },
    "rknn_matmul_io_attr": {
        "1.5.0": """
            rknn_matmul_tensor_attr A   [M, K]
            rknn_matmul_tensor_attr B   [K, N]
            rknn_matmul_tensor_attr C   [M, N]""",
    },
    "rknn_matmul_shape": {
        "2.0.0b0": """
            int32_t M                   rows of A and C
            int32_t K                   columns of A, rows of B
            int32_t N                   columns of B and C""",
    },
    "rknn_matmul_info": {
        "1.5.0": """
            int32_t M                   rows of A and C
            int32_t K                   columns of A, rows of B
            int32_t N                   columns of B and C
            rknn_tensor_type type       of A and B: float16 gives float32, int8 gives int32
            int32_t native_layout       1: B in the NPU's own layout
            int32_t perf_layout         1: A and C in the NPU's own layout""",
        "1.6.0": """
            int32_t M                   rows of A and C
            int32_t K                   columns of A, rows of B
            int32_t N                   columns of B and C
            rknn_matmul_type type       of A, B and C
            int32_t B_layout            memory layout of B
            int32_t AC_layout           memory layout of A and C""",
        "2.0.0b0": """
            int32_t M                   rows of A and C
            int32_t K                   columns of A, rows of B
            int32_t N                   columns of B and C
            rknn_matmul_type type       of A, B and C
            int16_t B_layout            memory layout of B (rknn_matmul_layout)
            int16_t B_quant_type        which numbers of B share a scale (rknn_matmul_quant_type)
            int16_t AC_layout           memory layout of A and C
            int16_t AC_quant_type       which numbers of A and of C share a scale
            int32_t iommu_domain_id     which of the 4 GB address spaces
            int8_t reserved[36]""",
        "2.1.0": """
            int32_t M                   rows of A and C
            int32_t K                   columns of A, rows of B
            int32_t N                   columns of B and C
            rknn_matmul_type type       of A, B and C
            int16_t B_layout            memory layout of B (rknn_matmul_layout)
            int16_t B_quant_type        which numbers of B share a scale (rknn_matmul_quant_type)
            int16_t AC_layout           memory layout of A and C
            int16_t AC_quant_type       which numbers of A and of C share a scale
            int32_t iommu_domain_id     which of the 4 GB address spaces
            int16_t group_size          rows of B that share a scale (quantisation per group)
            int8_t reserved[34]""",
    },
}

_CUSTOM = {
    "rknn_gpu_op_context": {
        "1.6.0": """
            void* cl_context            OpenCL's cl_context
            void* cl_command_queue      OpenCL's cl_command_queue
            void* cl_kernel             OpenCL's cl_kernel""",
    },
    "rknn_custom_op_context": {
        "1.6.0": """
            rknn_target_type target     who executes the operator
            rknn_custom_op_interal_context internal_ctx  the library's own
            rknn_gpu_op_context gpu_ctx  for operators on the GPU
            void* priv_data             the operator's own""",
    },
    "rknn_custom_op_tensor": {
        "1.6.0": """
            rknn_tensor_attr attr       shape, type and name
            rknn_tensor_mem mem         its memory""",
    },
    "rknn_custom_op_attr": {
        "1.6.0": """
            char name[RKNN_MAX_NAME_LEN]        the attribute's name
            rknn_tensor_type dtype      the type of one element
            uint32_t n_elems            how many
            void* data                  the values; they belong to the library""",
    },
    "rknn_custom_op": {
        "1.6.0": """
            uint32_t version            of the operator
            rknn_target_type target     who executes it
            char op_type[RKNN_MAX_NAME_LEN]     the operator's type in the model
            char cl_kernel_name[RKNN_MAX_NAME_LEN]      the OpenCL function
            char* cl_kernel_source      the OpenCL program, or the path of its file
            uint64_t cl_source_size     bytes of the program; 0: it is a path
            char cl_build_options[RKNN_MAX_NAME_LEN]    for OpenCL's compiler
            callback init               called at registration; may be NULL
            callback prepare            called at each run before compute; may be NULL
            callback compute            called at each run
            callback compute_native     the same on native layouts; not used by any known version
            destroy_callback destroy    called when the context is destroyed""",
    },
}

TABLE: Mapping[str, Mapping[str, str]] = MappingProxyType({**_BASIC, **_MATMUL, **_CUSTOM})
"""Struct -> first version of a variant -> its declarations, oldest variant first."""
