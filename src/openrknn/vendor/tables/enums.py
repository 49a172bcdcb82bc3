"""The enumerations of the C API. `openrknn.vendor.tables.names` knows their C names and since when each value exists.

Facts: headers rknn_api.h, rknn_matmul_api.h and rknn_custom_op.h of v2.3.2. Tests compare every value with a C
compiler's and with the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType


class QueryCommand(IntEnum):
    """rknn_query_cmd: what `rknn_query` is asked. The NC1HWC2 names are other names for the plain native ones."""

    IN_OUT_NUM = 0
    INPUT_ATTR = 1
    OUTPUT_ATTR = 2
    PERF_DETAIL = 3
    PERF_RUN = 4
    SDK_VERSION = 5
    MEM_SIZE = 6
    CUSTOM_STRING = 7
    NATIVE_INPUT_ATTR = 8
    NATIVE_OUTPUT_ATTR = 9
    NATIVE_NC1HWC2_INPUT_ATTR = 8
    NATIVE_NC1HWC2_OUTPUT_ATTR = 9
    NATIVE_NHWC_INPUT_ATTR = 10
    NATIVE_NHWC_OUTPUT_ATTR = 11
    DEVICE_MEM_INFO = 12
    INPUT_DYNAMIC_RANGE = 13
    CURRENT_INPUT_ATTR = 14
    CURRENT_OUTPUT_ATTR = 15
    CURRENT_NATIVE_INPUT_ATTR = 16
    CURRENT_NATIVE_OUTPUT_ATTR = 17


class TensorType(IntEnum):
    """rknn_tensor_type: the type of one element."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    BOOL = 9
    INT4 = 10
    BFLOAT16 = 11

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return _BITS[self]


class QuantizationType(IntEnum):
    """rknn_tensor_qnt_type: how stored integers stand for real numbers."""

    NONE = 0
    DFP = 1
    """Dynamic fixed point: value = stored / 2^fl."""
    AFFINE_ASYMMETRIC = 2
    """value = (stored - zp) * scale."""


class TensorFormat(IntEnum):
    """rknn_tensor_format: the order of the dimensions in memory."""

    NCHW = 0
    NHWC = 1
    NC1HWC2 = 2
    UNDEFINED = 3


class CoreMask(IntEnum):
    """rknn_core_mask: which cores work on one context."""

    AUTO = 0
    CORE_0 = 1
    CORE_1 = 2
    CORE_2 = 4
    CORE_0_1 = 3
    CORE_0_1_2 = 7
    ALL = 0xFFFF
    UNDEFINED = 0x10000


class MemoryOrigin(IntEnum):
    """rknn_tensor_mem_flags: who allocated a memory."""

    ALLOC_INSIDE = 1
    FROM_FD = 2
    FROM_PHYS = 3
    UNKNOWN = 4


class AllocFlag(IntFlag):
    """rknn_mem_alloc_flags: how `rknn_create_mem2` allocates."""

    DEFAULT = 0
    CACHEABLE = 1
    NON_CACHEABLE = 2
    TRY_ALLOC_SRAM = 4


class SyncMode(IntEnum):
    """rknn_mem_sync_mode: the direction in which caches are brought up to date."""

    TO_DEVICE = 1
    FROM_DEVICE = 2
    BIDIRECTIONAL = 3


class MatmulQuantization(IntEnum):
    """rknn_matmul_quant_type: which numbers of a matrix share a scale."""

    PER_LAYER_SYM = 0
    PER_LAYER_ASYM = 1
    PER_CHANNEL_SYM = 2
    PER_CHANNEL_ASYM = 3
    PER_GROUP_SYM = 4
    PER_GROUP_ASYM = 5


class MatmulType(IntEnum):
    """rknn_matmul_type: the element types of A, B and C."""

    FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1
    INT8_MM_INT8_TO_INT32 = 2
    INT8_MM_INT8_TO_INT8 = 3
    FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4
    FLOAT16_MM_INT8_TO_FLOAT32 = 5
    FLOAT16_MM_INT8_TO_FLOAT16 = 6
    FLOAT16_MM_INT4_TO_FLOAT32 = 7
    FLOAT16_MM_INT4_TO_FLOAT16 = 8
    INT8_MM_INT8_TO_FLOAT32 = 9
    INT4_MM_INT4_TO_INT16 = 10
    INT8_MM_INT4_TO_INT32 = 11
    FLOAT16_MM_INT4_TO_BFLOAT16 = 12
    INT8_MM_INT4_TO_FLOAT16 = 15

    @property
    def types(self) -> tuple[TensorType, TensorType, TensorType]:
        """The element types of A, B and C, as the name says them."""
        a, rest = self.name.split("_MM_")
        b, c = rest.split("_TO_")
        return TensorType[a], TensorType[b], TensorType[c]


class MatmulLayout(IntEnum):
    """rknn_matmul_layout: the memory layout of a matrix."""

    NORM = 0
    NATIVE = 1
    TP_NORM = 2
    """B only: transposed, [N, K]."""


class TargetType(IntEnum):
    """rknn_target_type: who executes a custom operator."""

    CPU = 1
    GPU = 2


_BITS = {
    TensorType.FLOAT32: 32, TensorType.FLOAT16: 16, TensorType.INT8: 8, TensorType.UINT8: 8, TensorType.INT16: 16,
    TensorType.UINT16: 16, TensorType.INT32: 32, TensorType.UINT32: 32, TensorType.INT64: 64, TensorType.BOOL: 8,
    TensorType.INT4: 4, TensorType.BFLOAT16: 16,
}  # fmt: skip


class InitFlag(IntFlag):
    """How a context behaves; `MEANINGS` has a sentence for each.

    C names: RKNN_FLAG_ and the member's name. Facts: rknn_api.h of v2.3.2; the private ones from the constants of the
    vendor's Python wheel 2.5.0.
    """

    PRIOR_HIGH = 0
    PRIOR_MEDIUM = 1 << 0
    PRIOR_LOW = 1 << 1
    ASYNC_MASK = 1 << 2
    COLLECT_PERF_MASK = 1 << 3
    MEM_ALLOC_OUTSIDE = 1 << 4
    SHARE_WEIGHT_MEM = 1 << 5
    FENCE_IN_OUTSIDE = 1 << 6
    FENCE_OUT_OUTSIDE = 1 << 7
    COLLECT_MODEL_INFO_ONLY = 1 << 8
    INTERNAL_ALLOC_OUTSIDE = 1 << 9
    EXECUTE_FALLBACK_PRIOR_DEVICE_GPU = 1 << 10
    ENABLE_SRAM = 1 << 11
    SHARE_SRAM = 1 << 12
    DISABLE_PROC_HIGH_PRIORITY = 1 << 13
    DISABLE_FLUSH_INPUT_MEM_CACHE = 1 << 14
    DISABLE_FLUSH_OUTPUT_MEM_CACHE = 1 << 15
    MODEL_BUFFER_ZERO_COPY = 1 << 16
    MEM_ALLOC_NO_CONTEXT = 1 << 17
    """A flag of `rknn_create_mem2`, with the number of its own; the C name is RKNN_MEM_FLAG_ALLOC_NO_CONTEXT."""


MEANINGS: Mapping[InitFlag, str] = MappingProxyType(
    {
        InitFlag.PRIOR_HIGH: "high priority: the default",
        InitFlag.PRIOR_MEDIUM: "medium priority",
        InitFlag.PRIOR_LOW: "low priority",
        InitFlag.ASYNC_MASK: "outputs_get returns the frame before the current one instead of waiting",
        InitFlag.COLLECT_PERF_MASK: "measure every operator, for the query PERF_DETAIL; runs slower",
        InitFlag.MEM_ALLOC_OUTSIDE: "the caller provides the memory for weights, internals, inputs and outputs",
        InitFlag.SHARE_WEIGHT_MEM: "use the weights of another context, whose model has the same network",
        InitFlag.FENCE_IN_OUTSIDE: "a run waits for a fence that the caller brings",
        InitFlag.FENCE_OUT_OUTSIDE: "a run gives the caller a fence",
        InitFlag.COLLECT_MODEL_INFO_ONLY: "load nothing, only answer how much memory the model needs",
        InitFlag.INTERNAL_ALLOC_OUTSIDE: "the caller provides the memory for internals",
        InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU: "operators that the NPU cannot do prefer the GPU to the CPU",
        InitFlag.ENABLE_SRAM: "put internals into SRAM as far as they fit",
        InitFlag.SHARE_SRAM: "use the SRAM of another context; needs ENABLE_SRAM",
        InitFlag.DISABLE_PROC_HIGH_PRIORITY: "leave the nice value of the process alone (else it becomes -19)",
        InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE: "the caller flushes the caches of inputs (TensorMemory.sync)",
        InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE: "the caller invalidates the caches of outputs (TensorMemory.sync)",
        InitFlag.MODEL_BUFFER_ZERO_COPY: "the model is already in NPU memory and is not copied",
        InitFlag.MEM_ALLOC_NO_CONTEXT: "allocate memory before there is a context (only for create_mem2)",
    }
)
