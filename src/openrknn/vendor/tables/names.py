"""C names of our enumerations and flags, since which version each value exists, and the limits of the C API.

Facts: headers of 1.3.0, 1.5.2, 1.6.0, 2.0.0-beta0, 2.1.0, 2.2.0, 2.3.0 and 2.3.2, and for what came in between the
revision history of the vendor's C API reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import TypeAlias

from openrknn.vendor.tables.enums import (
    AllocFlag,
    CoreMask,
    InitFlag,
    MatmulLayout,
    MatmulQuantization,
    MatmulType,
    MemoryOrigin,
    QuantizationType,
    QueryCommand,
    SyncMode,
    TargetType,
    TensorFormat,
    TensorType,
)
from openrknn.vendor.tables.versions import Version

Member: TypeAlias = IntEnum | IntFlag

ENUMS: Mapping[str, tuple[type[Member], str]] = MappingProxyType(
    {
        "rknn_query_cmd": (QueryCommand, "RKNN_QUERY_"),
        "rknn_tensor_type": (TensorType, "RKNN_TENSOR_"),
        "rknn_tensor_qnt_type": (QuantizationType, "RKNN_TENSOR_QNT_"),
        "rknn_tensor_format": (TensorFormat, "RKNN_TENSOR_"),
        "rknn_core_mask": (CoreMask, "RKNN_NPU_"),
        "rknn_tensor_mem_flags": (MemoryOrigin, "RKNN_TENSOR_MEMORY_FLAGS_"),
        "rknn_mem_alloc_flags": (AllocFlag, "RKNN_FLAG_MEMORY_"),
        "rknn_mem_sync_mode": (SyncMode, "RKNN_MEMORY_SYNC_"),
        "rknn_matmul_quant_type": (MatmulQuantization, "RKNN_QUANT_TYPE_"),
        "rknn_matmul_type": (MatmulType, "RKNN_"),
        "rknn_matmul_layout": (MatmulLayout, "RKNN_MM_LAYOUT_"),
        "rknn_target_type": (TargetType, "RKNN_TARGET_TYPE_"),
    }
)
"""C name of an enumeration -> our class, and what its members' C names begin with."""

_PREFIXES: dict[type[Member], str] = dict(ENUMS.values()) | {InitFlag: "RKNN_FLAG_"}
_SPELLING = {
    "RKNN_NPU_AUTO": "RKNN_NPU_CORE_AUTO",
    "RKNN_NPU_ALL": "RKNN_NPU_CORE_ALL",
    "RKNN_NPU_UNDEFINED": "RKNN_NPU_CORE_UNDEFINED",
    "RKNN_FLAG_MEMORY_DEFAULT": "RKNN_FLAG_MEMORY_FLAGS_DEFAULT",
    "RKNN_FLAG_MEM_ALLOC_NO_CONTEXT": "RKNN_MEM_FLAG_ALLOC_NO_CONTEXT",
}

SENTINELS: Mapping[str, int] = MappingProxyType(
    {
        "RKNN_QUERY_CMD_MAX": 18,
        "RKNN_TENSOR_TYPE_MAX": 12,
        "RKNN_TENSOR_QNT_MAX": 3,
        "RKNN_TENSOR_FORMAT_MAX": 4,
        "RKNN_TARGET_TYPE_MAX": 3,
    }
)
"""The ends of enumerations in v2.3.2: they are never passed."""

LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "RKNN_MAX_DIMS": 16,
        "RKNN_MAX_NUM_CHANNEL": 15,
        "RKNN_MAX_NAME_LEN": 256,
        "RKNN_MAX_DYNAMIC_SHAPE_NUM": 512,
        "RKNN_CUSTOM_OP_MAX_STR_LEN": 64,
        "RKNN_CUSTOM_OP_MAX_VALUE_LEN": 32,
    }
)

_ROWS = {
    "1.4.0": "RKNN_QUERY_DEVICE_MEM_INFO RKNN_FLAG_COLLECT_MODEL_INFO_ONLY",
    "1.5.0": """RKNN_QUERY_INPUT_DYNAMIC_RANGE RKNN_QUERY_CURRENT_INPUT_ATTR RKNN_QUERY_CURRENT_OUTPUT_ATTR
        RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 RKNN_INT8_MM_INT8_TO_INT32""",
    "1.5.2": """RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR
        RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU""",
    "1.6.0": """RKNN_TENSOR_INT4 RKNN_INT4_MM_INT4_TO_INT16 RKNN_FLAG_ENABLE_SRAM RKNN_FLAG_SHARE_SRAM
        RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY RKNN_MEMORY_SYNC_TO_DEVICE RKNN_MEMORY_SYNC_FROM_DEVICE
        RKNN_MEMORY_SYNC_BIDIRECTIONAL RKNN_TARGET_TYPE_CPU RKNN_TARGET_TYPE_GPU""",
    "2.0.0b0": """RKNN_NPU_CORE_ALL RKNN_INT8_MM_INT8_TO_INT8 RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16
        RKNN_FLOAT16_MM_INT8_TO_FLOAT32 RKNN_FLOAT16_MM_INT8_TO_FLOAT16 RKNN_FLOAT16_MM_INT4_TO_FLOAT32
        RKNN_FLOAT16_MM_INT4_TO_FLOAT16 RKNN_INT8_MM_INT4_TO_INT32 RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE
        RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE RKNN_FLAG_MEMORY_FLAGS_DEFAULT RKNN_FLAG_MEMORY_CACHEABLE
        RKNN_FLAG_MEMORY_NON_CACHEABLE""",
    "2.1.0": """RKNN_INT8_MM_INT8_TO_FLOAT32 RKNN_MM_LAYOUT_NORM RKNN_MM_LAYOUT_NATIVE RKNN_MM_LAYOUT_TP_NORM
        RKNN_QUANT_TYPE_PER_LAYER_SYM RKNN_QUANT_TYPE_PER_LAYER_ASYM RKNN_QUANT_TYPE_PER_CHANNEL_SYM
        RKNN_QUANT_TYPE_PER_CHANNEL_ASYM RKNN_QUANT_TYPE_PER_GROUP_SYM RKNN_QUANT_TYPE_PER_GROUP_ASYM
        RKNN_FLAG_MODEL_BUFFER_ZERO_COPY RKNN_MEM_FLAG_ALLOC_NO_CONTEXT""",
    "2.3.0": "RKNN_TENSOR_BFLOAT16 RKNN_FLOAT16_MM_INT4_TO_BFLOAT16",
    "2.3.2": "RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM RKNN_INT8_MM_INT4_TO_FLOAT16",
}

SINCE: Mapping[str, Version] = MappingProxyType(
    {name: Version.parse(text) for text, names in _ROWS.items() for name in names.split()}
)
"""C name -> the first version that has it. Names that are not here are in 1.3.0 already."""


def members(kind: type[Member]) -> Iterator[tuple[str, Member]]:
    """Every member with its C name; second names of a value too."""
    for name, member in kind.__members__.items():
        full = _PREFIXES[kind] + name
        yield _SPELLING.get(full, full), member


def c_name(member: Member) -> str:
    """ "RKNN_TENSOR_INT8" for TensorType.INT8; flags that are set together are joined by "|"."""
    kind = type(member)
    for name, known in members(kind):
        if known is member:
            return name
    parts = [name for name, known in members(kind) if known.value and known.value & member.value == known.value]
    return "|".join(parts) or f"{kind.__name__}({member.value:#x})"


def since(member: Member) -> Version | None:
    """The first version that knows this value, as far as it is younger than 1.3.0."""
    return SINCE.get(c_name(member))
