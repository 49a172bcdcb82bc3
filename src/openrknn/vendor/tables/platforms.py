"""Which chip supports which function, query and flag of the C API, and why a call is refused.

Facts: tables 4-1 and 4-2 of the vendor's C API reference v2.0.0-beta0; RV1103B, RV1106B, rknn_create_mem2 and
RKNN_QUERY_DEVICE_MEM_INFO from those of v2.3.0; flags from the sentences of both. None means that the reference does
not say: such a call is made, and the library decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from openrknn.backports import flags_in
from openrknn.chips import CHIPS, Chip, chip_in
from openrknn.vendor.tables.enums import InitFlag, QueryCommand
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.names import c_name, members

Support = bool | None

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rk356x": ("rk3562", "rk3566", "rk3568"),
        "rk3588": ("rk3576", "rk3588"),
        "rv1106": ("rv1103", "rv1106"),
        "rv1106b": ("rv1103b", "rv1106b"),
        "rv1126b": ("rv1126b",),
    }
)
"""Columns of the tables -> chips. RV1126B is in no edition of the reference."""

_DEVICE_TREE = Path("/proc/device-tree/compatible")
_MARKS = {"+": True, "-": False, "?": None}

# One mark per column: rk356x, rk3588, rv1106, rv1106b, rv1126b.
_FUNCTION_MARKS = {
    "rknn_init": "++++?",
    "rknn_set_core_mask": "-+--?",
    "rknn_dup_context": "++--?",
    "rknn_destroy": "++++?",
    "rknn_query": "++++?",
    "rknn_inputs_set": "++--?",
    "rknn_run": "++++?",
    "rknn_wait": "----?",
    "rknn_outputs_get": "++--?",
    "rknn_outputs_release": "+++-?",
    "rknn_create_mem_from_mb_blk": "----?",
    "rknn_create_mem_from_phys": "++++?",
    "rknn_create_mem_from_fd": "++++?",
    "rknn_create_mem": "++++?",
    "rknn_create_mem2": "++++?",
    "rknn_destroy_mem": "++++?",
    "rknn_set_weight_mem": "++++?",
    "rknn_set_internal_mem": "++++?",
    "rknn_set_io_mem": "++++?",
    "rknn_set_input_shape": "?????",
    "rknn_set_input_shapes": "++--?",
    "rknn_mem_sync": "++++?",
    "rknn_matmul_create": "++--?",
    "rknn_matmul_set_io_mem": "++--?",
    "rknn_matmul_set_core_mask": "-+--?",
    "rknn_matmul_run": "++--?",
    "rknn_matmul_destroy": "++--?",
    "rknn_register_custom_ops": "++--?",
    "rknn_custom_op_get_op_attr": "++--?",
    "rknn_set_batch_core_num": "-+--?",
    "rknn_matmul_set_quant_params": "++--?",
    "rknn_matmul_get_quant_params": "++--?",
    "rknn_matmul_create_dynamic_shape": "++--?",
    "rknn_matmul_set_dynamic_shape": "++--?",
    "rknn_B_normal_layout_to_native_layout": "++--?",
}

_QUERY_MARKS = {
    QueryCommand.PERF_DETAIL: "++--?",
    QueryCommand.PERF_RUN: "++--?",
    QueryCommand.DEVICE_MEM_INFO: "--++?",
    QueryCommand.INPUT_DYNAMIC_RANGE: "++--?",
    QueryCommand.CURRENT_INPUT_ATTR: "++--?",
    QueryCommand.CURRENT_OUTPUT_ATTR: "++--?",
    QueryCommand.CURRENT_NATIVE_INPUT_ATTR: "++--?",
    QueryCommand.CURRENT_NATIVE_OUTPUT_ATTR: "++--?",
}
_EVERYWHERE = "++++?"

_FLAG_MARKS = {
    InitFlag.COLLECT_PERF_MASK: "++--?",
    InitFlag.MEM_ALLOC_OUTSIDE: "++++?",
    InitFlag.SHARE_WEIGHT_MEM: "++--?",
    InitFlag.SHARE_SRAM: "??--?",
    InitFlag.FENCE_IN_OUTSIDE: "----?",
    InitFlag.FENCE_OUT_OUTSIDE: "----?",
}
_UNSAID = "?????"

_REASONS = {
    "rknn_wait": "no chip runs without blocking; use threads with one context each (Context.duplicate)",
    "rknn_create_mem_from_mb_blk": "no chip has it; pass the block's dma-buf to Context.memory_from_fd",
    "rknn_set_core_mask": "its NPU has one core",
    "rknn_matmul_set_core_mask": "its NPU has one core",
    "rknn_set_batch_core_num": "its NPU has one core",
    "rknn_inputs_set": "inputs are given by memory there: Context.bind_input",
    "rknn_outputs_get": "outputs are given by memory there: Context.bind_output",
    "rknn_outputs_release": "outputs are given by memory there: Context.bind_output",
    "rknn_dup_context": "load the model once more",
    "RKNN_FLAG_SHARE_WEIGHT_MEM": "rknn_init_extend is not available there",
    "RKNN_FLAG_SHARE_SRAM": "rknn_init_extend is not available there",
    "RKNN_FLAG_COLLECT_PERF_MASK": "RKNN_QUERY_PERF_DETAIL is not available there",
    "RKNN_FLAG_FENCE_IN_OUTSIDE": "fences are not available; use threads",
    "RKNN_FLAG_FENCE_OUT_OUTSIDE": "fences are not available; use threads",
    "RKNN_QUERY_DEVICE_MEM_INFO": "only RV1103 and RV1106 tell it",
}


def _table(marks: Mapping[str, str]) -> Mapping[str, Mapping[str, Support]]:
    return MappingProxyType(
        {
            name: MappingProxyType({group: _MARKS[mark] for group, mark in zip(GROUPS, row, strict=True)})
            for name, row in marks.items()
        }
    )


FUNCTION_SUPPORT = _table({name: _FUNCTION_MARKS[name] for name in FUNCTIONS})
"""Function -> column -> whether the reference says yes, no or nothing."""
QUERY_SUPPORT = _table({name: _QUERY_MARKS.get(QueryCommand(one), _EVERYWHERE) for name, one in members(QueryCommand)})
"""C name of a query -> column -> yes, no or nothing."""
FLAG_SUPPORT = _table({name: _FLAG_MARKS.get(InitFlag(one), _UNSAID) for name, one in members(InitFlag)})
"""C name of a flag -> column -> yes, no or nothing."""


def group_of(chip: Chip) -> str:
    """The column of a chip."""
    return next(group for group, names in GROUPS.items() if chip.name in names)


def refusal(
    chip: Chip, function: str, query: QueryCommand | None = None, flags: InitFlag = InitFlag.PRIOR_HIGH
) -> str | None:
    """Why a call is not possible on a chip; None if it is, or if the reference does not say."""
    group = group_of(chip)
    rows = [(function, FUNCTION_SUPPORT[function])]
    if query is not None:
        rows.append((c_name(query), QUERY_SUPPORT[c_name(query)]))
    rows += [(c_name(flag), FLAG_SUPPORT[c_name(flag)]) for flag in flags_in(flags)]
    for name, row in rows:
        if row[group] is False:
            reason = reason_of(name)
            return f"{name} does not work on {chip.title}" + (f": {reason}" if reason else "")
    return None


def reason_of(name: str) -> str:
    """Why a function, query or flag is missing where it is, or what to use instead; "" if there is no more to say."""
    return _REASONS.get(name, "")


def this_chip(path: Path = _DEVICE_TREE) -> Chip | None:
    """The chip of this machine, from its device tree; None where there is none, or another chip."""
    try:
        entries = path.read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    name = chip_in(entries)
    return None if name is None else CHIPS[name]
