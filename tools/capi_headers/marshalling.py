"""What the parameters of the C functions are to the protocol: the stubs of native/capi are generated from this table.

A function in `PLAIN` needs nothing but this: its parameters go into a request, the engine answers, results are written
back. The others, in `BY_HAND`, keep something in the library (memory, buffers, functions of the program) and are
written in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import QueryCommand


class Role(Enum):
    """What a parameter is."""

    MODEL = auto()
    """A context that rknn_init made."""
    MATMUL = auto()
    """A context that rknn_matmul_create made."""
    CONTEXT = auto()
    """A context of either kind."""
    NEW_MATMUL = auto()
    """Where the new context's number is written."""
    MEMORY = auto()
    """Memory: its number, and a and b: the offset and size that the struct has now."""
    SYNCED = auto()
    """Memory: its number only."""
    A = auto()
    """A number for `a`."""
    COUNT = auto()
    """How many structs the next parameters are; a number for `a`."""
    GIVEN = auto()
    """A struct that is read."""
    GIVEN_ARRAY = auto()
    """COUNT structs that are read."""
    MADE = auto()
    """A struct that is written."""
    MADE_ARRAY = auto()
    """COUNT structs that are written."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A function that is only a request."""

    operation: Operation
    roles: tuple[Role, ...]


PLAIN: Mapping[str, Plain] = MappingProxyType({
    "rknn_set_batch_core_num": Plain(Operation.SET_BATCH_CORE_NUM, (Role.MODEL, Role.A)),
    "rknn_set_core_mask": Plain(Operation.SET_CORE_MASK, (Role.MODEL, Role.A)),
    "rknn_set_weight_mem": Plain(Operation.SET_WEIGHT_MEM, (Role.MODEL, Role.MEMORY)),
    "rknn_set_internal_mem": Plain(Operation.SET_INTERNAL_MEM, (Role.MODEL, Role.MEMORY)),
    "rknn_set_io_mem": Plain(Operation.SET_IO_MEM, (Role.MODEL, Role.MEMORY, Role.GIVEN)),
    "rknn_set_input_shape": Plain(Operation.SET_INPUT_SHAPE, (Role.MODEL, Role.GIVEN)),
    "rknn_set_input_shapes": Plain(Operation.SET_INPUT_SHAPES, (Role.MODEL, Role.COUNT, Role.GIVEN_ARRAY)),
    "rknn_mem_sync": Plain(Operation.MEM_SYNC, (Role.CONTEXT, Role.SYNCED, Role.A)),
    "rknn_matmul_create": Plain(Operation.MATMUL_CREATE, (Role.NEW_MATMUL, Role.GIVEN, Role.MADE)),
    "rknn_matmul_create_dynamic_shape": Plain(
        Operation.MATMUL_CREATE_DYNAMIC_SHAPE,
        (Role.NEW_MATMUL, Role.GIVEN, Role.COUNT, Role.GIVEN_ARRAY, Role.MADE_ARRAY),
    ),
    "rknn_matmul_set_io_mem": Plain(Operation.MATMUL_SET_IO_MEM, (Role.MATMUL, Role.MEMORY, Role.GIVEN)),
    "rknn_matmul_set_core_mask": Plain(Operation.MATMUL_SET_CORE_MASK, (Role.MATMUL, Role.A)),
    "rknn_matmul_set_dynamic_shape": Plain(Operation.MATMUL_SET_DYNAMIC_SHAPE, (Role.MATMUL, Role.GIVEN)),
    "rknn_matmul_run": Plain(Operation.MATMUL_RUN, (Role.MATMUL,)),
})  # fmt: skip
"""Function -> its operation and what each parameter is, in order."""

BY_HAND: Mapping[str, str] = MappingProxyType({
    "rknn_init": "the model goes into shared memory, or is a file",
    "rknn_dup_context": "the new context begins without the buffers of the old one",
    "rknn_destroy": "the library's buffers of the context are freed",
    "rknn_query": "PERF_DETAIL leaves a text that belongs to the context",
    "rknn_inputs_set": "data go into shared memory",
    "rknn_run": "a fence may come along, and an rknn_run_extend goes both ways",
    "rknn_wait": "an rknn_run_extend goes both ways",
    "rknn_outputs_get": "data come from shared memory, into buffers of either side",
    "rknn_outputs_release": "buffers of the library are freed",
    "rknn_create_mem": "memory is mapped",
    "rknn_create_mem2": "memory is mapped",
    "rknn_create_mem_from_phys": "the struct is the library's",
    "rknn_create_mem_from_fd": "the struct is the library's, and a descriptor goes along",
    "rknn_create_mem_from_mb_blk": "the struct is the library's",
    "rknn_destroy_mem": "memory is unmapped",
    "rknn_matmul_set_quant_params": "arrays hang on the struct",
    "rknn_matmul_get_quant_params": "arrays hang on the struct",
    "rknn_matmul_destroy": "the library forgets the context",
    "rknn_B_normal_layout_to_native_layout": "data go through shared memory, and the parameters differ by version",
    "rknn_register_custom_ops": "the functions stay in the library",
    "rknn_custom_op_get_op_attr": "the values belong to the library",
})  # fmt: skip
"""Functions that are written in C, and why."""

_ATTRIBUTES = (
    QueryCommand.INPUT_ATTR, QueryCommand.OUTPUT_ATTR, QueryCommand.NATIVE_INPUT_ATTR, QueryCommand.NATIVE_OUTPUT_ATTR,
    QueryCommand.NATIVE_NHWC_INPUT_ATTR, QueryCommand.NATIVE_NHWC_OUTPUT_ATTR, QueryCommand.CURRENT_INPUT_ATTR,
    QueryCommand.CURRENT_OUTPUT_ATTR, QueryCommand.CURRENT_NATIVE_INPUT_ATTR, QueryCommand.CURRENT_NATIVE_OUTPUT_ATTR,
)  # fmt: skip

QUERY_STRUCTS: Mapping[QueryCommand, str] = MappingProxyType({
    **dict.fromkeys(_ATTRIBUTES, "rknn_tensor_attr"),
    QueryCommand.IN_OUT_NUM: "rknn_input_output_num",
    QueryCommand.PERF_DETAIL: "rknn_perf_detail",
    QueryCommand.PERF_RUN: "rknn_perf_run",
    QueryCommand.SDK_VERSION: "rknn_sdk_version",
    QueryCommand.MEM_SIZE: "rknn_mem_size",
    QueryCommand.CUSTOM_STRING: "rknn_custom_string",
    QueryCommand.DEVICE_MEM_INFO: "rknn_tensor_mem",
    QueryCommand.INPUT_DYNAMIC_RANGE: "rknn_input_range",
})  # fmt: skip
"""What `info` points to, for each query."""
