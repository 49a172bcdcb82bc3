"""What the public headers say about structs, enumerations and functions, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["FUNCTION_WORDS", "STRUCT_WORDS"]

STRUCT_WORDS: Mapping[str, str] = MappingProxyType({
    "rknn_input_output_num": "RKNN_QUERY_IN_OUT_NUM.",
    "rknn_tensor_attr": "A tensor: the queries *_ATTR, rknn_set_io_mem and rknn_set_input_shapes.",
    "rknn_input_range": "RKNN_QUERY_INPUT_DYNAMIC_RANGE: the shapes that an input of a dynamic model takes.",
    "rknn_perf_detail": "RKNN_QUERY_PERF_DETAIL: needs RKNN_FLAG_COLLECT_PERF_MASK.",
    "rknn_perf_run": "RKNN_QUERY_PERF_RUN.",
    "rknn_sdk_version": "RKNN_QUERY_SDK_VERSION.",
    "rknn_mem_size": "RKNN_QUERY_MEM_SIZE.",
    "rknn_custom_string": "RKNN_QUERY_CUSTOM_STRING.",
    "rknn_tensor_mem": "Memory that the NPU and the program share.",
    "rknn_input": "Data for rknn_inputs_set.",
    "rknn_output": "Data from rknn_outputs_get.",
    "rknn_init_extend": "More about a new context.",
    "rknn_decrypt_key_mem": "A key.",
    "rknn_run_extend": "More about a run.",
    "rknn_output_extend": "More about outputs.",
    "rknn_quant_params": "How the integers of a matrix stand for real numbers.",
    "rknn_matmul_tensor_attr": "A matrix.",
    "rknn_matmul_io_attr": "The three matrices of C = A x B.",
    "rknn_matmul_shape": "The sizes of one product.",
    "rknn_matmul_info": "What a product is.",
    "rknn_gpu_op_context": "What an operator on the GPU gets.",
    "rknn_custom_op_context": "What every function of an operator gets.",
    "rknn_custom_op_tensor": "A tensor of an operator.",
    "rknn_custom_op_attr": "An attribute of an operator in the model.",
    "rknn_custom_op": "An operator of the program.",
})  # fmt: skip

FUNCTION_WORDS: Mapping[str, str] = MappingProxyType({
    "rknn_init": "Loads a model: `size` bytes at `model`, or the file whose path `model` is if `size` is 0.",
    "rknn_dup_context": "Makes another context of the same model that shares its weights.",
    "rknn_destroy": "Ends a context.",
    "rknn_query": "Asks about the model, its tensors or the last run; `info` is the struct that belongs to `cmd`.",
    "rknn_inputs_set": "Hands over input data; they are copied.",
    "rknn_set_batch_core_num": "Chooses how many cores share a batch.",
    "rknn_set_core_mask": "Chooses the cores.",
    "rknn_run": "Runs the model once; `extend` may be NULL.",
    "rknn_wait": "Waits for a run that was started with non_block.",
    "rknn_outputs_get": "Waits for the run and fetches outputs; `extend` may be NULL.",
    "rknn_outputs_release": "Frees what rknn_outputs_get allocated.",
    "rknn_create_mem_from_phys": "Memory of the program, by the address that the NPU sees.",
    "rknn_create_mem_from_fd": "Memory of the program, by its descriptor.",
    "rknn_create_mem_from_mb_blk": "Memory of the vendor's media library.",
    "rknn_create_mem": "Allocates memory that the NPU and the program share.",
    "rknn_create_mem2": "As rknn_create_mem, with flags (rknn_mem_alloc_flags).",
    "rknn_destroy_mem": "Gives memory back.",
    "rknn_set_weight_mem": "Puts the weights there (RKNN_FLAG_MEM_ALLOC_OUTSIDE).",
    "rknn_set_internal_mem": "Puts intermediate tensors there (RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE).",
    "rknn_set_io_mem": "Binds memory to an input or output; nothing is copied from then on.",
    "rknn_set_input_shape": "Chooses the shape of one input of a dynamic model; rknn_set_input_shapes takes all.",
    "rknn_set_input_shapes": "Chooses the shapes of a dynamic model, one for each input.",
    "rknn_mem_sync": "Brings caches up to date.",
    "rknn_matmul_create": "Makes a context for C = A x B, and says how the matrices must lie in memory.",
    "rknn_matmul_create_dynamic_shape": "The same for several sizes.",
    "rknn_matmul_set_io_mem": "Binds memory to a matrix.",
    "rknn_matmul_set_core_mask": "Chooses the cores.",
    "rknn_matmul_set_quant_params": "Says how the integers of a matrix stand for real numbers.",
    "rknn_matmul_get_quant_params": "The scales that A, B and C give together.",
    "rknn_matmul_set_dynamic_shape": "Chooses one of the sizes.",
    "rknn_matmul_run": "Multiplies.",
    "rknn_matmul_destroy": "Ends a context.",
    "rknn_B_normal_layout_to_native_layout": "Brings B into the NPU's own layout.",
    "rknn_register_custom_ops": "Gives the model operators that the program has.",
    "rknn_custom_op_get_op_attr": "An attribute of the operator; n_elems is 0 if there is none.",
})  # fmt: skip
