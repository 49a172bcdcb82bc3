"""The flags of `rknn_init`. C names: RKNN_FLAG_ and the member's name.

Facts: rknn_api.h of v2.3.2; the private ones from the constants of the vendor's Python wheel 2.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from types import MappingProxyType

__all__ = ["MEANINGS", "InitFlag"]


class InitFlag(IntFlag):
    """How a context behaves; `MEANINGS` has a sentence for each."""

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
        InitFlag.MODEL_BUFFER_ZERO_COPY: "the model lies in NPU memory already and is not copied",
        InitFlag.MEM_ALLOC_NO_CONTEXT: "allocate memory before there is a context (only for create_mem2)",
    }
)
