"""Sizes and offsets of every struct, worked out by others: a compact copy of what the reference of v2.3.2 measured.

    SIZES[struct] = (bytes with 64-bit pointers, bytes on 32-bit Arm)
    OFFSETS[struct] = the offsets of its fields, in order, for both

Where the two are the same, they are written once. Source: the project's reference data for the C API, whose 64-bit
numbers come from gcc on aarch64 and whose 32-bit numbers from a model of the Arm procedure call standard.
"""

from __future__ import annotations

SIZES: dict[str, tuple[int, int]] = {
    "rknn_input_output_num": (8, 8),
    "rknn_tensor_attr": (376, 376),
    "rknn_input_range": (33040, 33040),
    "rknn_perf_detail": (16, 16),
    "rknn_perf_run": (8, 8),
    "rknn_sdk_version": (512, 512),
    "rknn_mem_size": (64, 64),
    "rknn_custom_string": (1024, 1024),
    "rknn_tensor_mem": (40, 40),
    "rknn_input": (32, 24),
    "rknn_output": (24, 16),
    "rknn_init_extend": (136, 132),
    "rknn_run_extend": (24, 24),
    "rknn_output_extend": (8, 8),
    "rknn_quant_params": (288, 272),
    "rknn_matmul_tensor_attr": (332, 332),
    "rknn_matmul_io_attr": (996, 996),
    "rknn_matmul_shape": (12, 12),
    "rknn_matmul_info": (64, 64),
    "rknn_gpu_op_context": (24, 12),
    "rknn_custom_op_context": (48, 24),
    "rknn_custom_op_tensor": (416, 416),
    "rknn_custom_op_attr": (272, 268),
    "rknn_custom_op": (832, 816),
}

OFFSETS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rknn_input_output_num": ((0, 4),) * 2,
    "rknn_tensor_attr": ((0, 4, 8, 72, 328, 332, 336, 340, 344, 348, 352, 356, 360, 364, 368, 372),) * 2,
    "rknn_input_range": ((0, 4, 8, 12, 268, 33036),) * 2,
    "rknn_perf_detail": ((0, 8),) * 2,
    "rknn_perf_run": ((0,),) * 2,
    "rknn_sdk_version": ((0, 256),) * 2,
    "rknn_mem_size": ((0, 4, 8, 16, 20, 24),) * 2,
    "rknn_custom_string": ((0,),) * 2,
    "rknn_tensor_mem": ((0, 8, 16, 20, 24, 28, 32),) * 2,
    "rknn_input": ((0, 8, 16, 20, 24, 28), (0, 4, 8, 12, 16, 20)),
    "rknn_output": ((0, 1, 4, 8, 16), (0, 1, 4, 8, 12)),
    "rknn_init_extend": ((0, 8, 12, 16, 20, 24), (0, 4, 8, 12, 16, 20)),
    "rknn_run_extend": ((0, 8, 12, 16),) * 2,
    "rknn_output_extend": ((0,),) * 2,
    "rknn_quant_params": ((0, 256, 264, 272, 280), (0, 256, 260, 264, 268)),
    "rknn_matmul_tensor_attr": ((0, 256, 260, 324, 328),) * 2,
    "rknn_matmul_io_attr": ((0, 332, 664),) * 2,
    "rknn_matmul_shape": ((0, 4, 8),) * 2,
    "rknn_matmul_info": ((0, 4, 8, 12, 16, 18, 20, 22, 24, 28, 30),) * 2,
    "rknn_gpu_op_context": ((0, 8, 16), (0, 4, 8)),
    "rknn_custom_op_context": ((0, 8, 16, 40), (0, 4, 8, 20)),
    "rknn_custom_op_tensor": ((0, 376),) * 2,
    "rknn_custom_op_attr": ((0, 256, 260, 264),) * 2,
    "rknn_custom_op": (
        (0, 4, 8, 264, 520, 528, 536, 792, 800, 808, 816, 824),
        (0, 4, 8, 264, 520, 528, 536, 792, 796, 800, 804, 808),
    ),
}

VARIANTS: dict[tuple[str, str], int] = {
    ("1.3.0", "rknn_mem_size"): 8,
    ("1.3.0", "rknn_init_extend"): 136,
    ("1.5.2", "rknn_init_extend"): 136,
    ("1.5.2", "rknn_matmul_info"): 24,
    ("1.6.0", "rknn_matmul_info"): 24,
    ("2.0.0-beta0", "rknn_init_extend"): 136,
    ("2.0.0-beta0", "rknn_matmul_info"): 64,
    ("2.5.0", "rknn_init_extend"): 144,
    ("2.5.0", "rknn_decrypt_key_mem"): 16,
}
"""(version, struct) -> bytes with 64-bit pointers, for other versions than 2.3.2."""
