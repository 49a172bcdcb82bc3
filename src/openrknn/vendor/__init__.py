"""The vendor's library (librknnrt.so, librknnmrt.so) from Python, one to one with the C API, and safe.

    from openrknn.vendor import Context

    with Context("model.rknn") as context:
        context.set_inputs([image])
        context.run()
        scores, = context.get_outputs()

Context, TensorMemory       models, and memory that the NPU shares
Matmul                      C = A * B
CustomOp                    operators in Python
Library                     the raw C functions, by their names
docs/capi/                  a page for every C function, with its Python form

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.vendor.context.answers import (
        InputRange,
        IoCounts,
        MemoryInfo,
        MemorySize,
        SdkVersion,
        TensorAttributes,
    )
    from openrknn.vendor.context.bindings import Binding
    from openrknn.vendor.context.context import Context, RunInfo
    from openrknn.vendor.context.custom import CustomOp, Operation, OperationTensor, Skip
    from openrknn.vendor.context.io import InputSet, OutputSet
    from openrknn.vendor.context.perf import OperatorTime, PerfDetail
    from openrknn.vendor.errors import (
        CallError,
        CallMemoryError,
        CallTimeoutError,
        ClosedError,
        LibraryNotFoundError,
    )
    from openrknn.vendor.library.find import find_library
    from openrknn.vendor.library.library import Library, default_library
    from openrknn.vendor.library.structs import structs_for
    from openrknn.vendor.matmul.core import MatrixBinding
    from openrknn.vendor.matmul.matmul import Matmul, Scales
    from openrknn.vendor.matmul.specs import Matrix, Shape
    from openrknn.vendor.memory.owner import memory_without_context
    from openrknn.vendor.memory.tensor_memory import TensorMemory
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

__all__ = [
    "AllocFlag", "Binding", "CallError", "CallMemoryError", "CallTimeoutError", "ClosedError", "Context", "CoreMask",
    "CustomOp", "InitFlag", "InputRange", "InputSet", "IoCounts", "Library", "LibraryNotFoundError", "Matmul",
    "MatmulLayout", "MatmulQuantization", "MatmulType", "Matrix", "MatrixBinding", "MemoryInfo", "MemoryOrigin",
    "MemorySize", "Operation", "OperationTensor", "OperatorTime", "OutputSet", "PerfDetail", "QuantizationType",
    "QueryCommand", "RunInfo", "Scales", "SdkVersion", "Shape", "Skip", "SyncMode", "TargetType", "TensorAttributes",
    "TensorFormat", "TensorMemory", "TensorType", "Version", "default_library", "find_library",
    "memory_without_context", "structs_for",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "context.answers": "InputRange IoCounts MemoryInfo MemorySize SdkVersion TensorAttributes",
        "context.bindings": "Binding",
        "context.context": "Context RunInfo",
        "context.custom": "CustomOp Operation OperationTensor Skip",
        "context.io": "InputSet OutputSet",
        "context.perf": "OperatorTime PerfDetail",
        "errors": "CallError CallMemoryError CallTimeoutError ClosedError LibraryNotFoundError",
        "library.find": "find_library",
        "library.library": "Library default_library",
        "library.structs": "structs_for",
        "matmul.core": "MatrixBinding",
        "matmul.matmul": "Matmul Scales",
        "matmul.specs": "Matrix Shape",
        "memory.owner": "memory_without_context",
        "memory.tensor_memory": "TensorMemory",
        "tables.enums": "AllocFlag CoreMask InitFlag MatmulLayout MatmulQuantization MatmulType MemoryOrigin "
        "QuantizationType QueryCommand SyncMode TargetType TensorFormat TensorType",
        "tables.versions": "Version",
    },
)
