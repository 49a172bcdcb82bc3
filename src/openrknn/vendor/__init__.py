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

if TYPE_CHECKING:
    from openrknn.vendor.answers import InputRange, IoCounts, MemoryInfo, MemorySize, SdkVersion, TensorAttributes
    from openrknn.vendor.bindings import Binding
    from openrknn.vendor.context import Context, RunInfo
    from openrknn.vendor.context_io import InputSet, OutputSet
    from openrknn.vendor.custom import CustomOp, Operation, OperationTensor, Skip
    from openrknn.vendor.enums import (
        AllocFlag,
        CoreMask,
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
    from openrknn.vendor.errors import (
        CallError,
        CallMemoryError,
        CallTimeoutError,
        ClosedError,
        LibraryNotFoundError,
    )
    from openrknn.vendor.find import find_library
    from openrknn.vendor.flags import InitFlag
    from openrknn.vendor.library import Library, default_library
    from openrknn.vendor.matmul import Matmul, Scales
    from openrknn.vendor.matmul_core import MatrixBinding
    from openrknn.vendor.matmul_specs import Matrix, Shape
    from openrknn.vendor.memory import TensorMemory
    from openrknn.vendor.memory_owner import memory_without_context
    from openrknn.vendor.perf import OperatorTime, PerfDetail
    from openrknn.vendor.versions import Version

_HOMES = {
    "AllocFlag": "enums",
    "Binding": "bindings",
    "CallError": "errors",
    "CallMemoryError": "errors",
    "CallTimeoutError": "errors",
    "ClosedError": "errors",
    "Context": "context",
    "CoreMask": "enums",
    "CustomOp": "custom",
    "InitFlag": "flags",
    "InputRange": "answers",
    "InputSet": "context_io",
    "IoCounts": "answers",
    "Library": "library",
    "LibraryNotFoundError": "errors",
    "Matmul": "matmul",
    "MatmulLayout": "enums",
    "MatmulQuantization": "enums",
    "MatmulType": "enums",
    "Matrix": "matmul_specs",
    "MatrixBinding": "matmul_core",
    "MemoryInfo": "answers",
    "MemoryOrigin": "enums",
    "MemorySize": "answers",
    "Operation": "custom",
    "OperationTensor": "custom",
    "OperatorTime": "perf",
    "OutputSet": "context_io",
    "PerfDetail": "perf",
    "QuantizationType": "enums",
    "QueryCommand": "enums",
    "RunInfo": "context",
    "Scales": "matmul",
    "SdkVersion": "answers",
    "Shape": "matmul_specs",
    "Skip": "custom",
    "SyncMode": "enums",
    "TargetType": "enums",
    "TensorAttributes": "answers",
    "TensorFormat": "enums",
    "TensorMemory": "memory",
    "TensorType": "enums",
    "Version": "versions",
    "default_library": "library",
    "find_library": "find",
    "memory_without_context": "memory_owner",
}

__all__ = [
    "AllocFlag",
    "Binding",
    "CallError",
    "CallMemoryError",
    "CallTimeoutError",
    "ClosedError",
    "Context",
    "CoreMask",
    "CustomOp",
    "InitFlag",
    "InputRange",
    "InputSet",
    "IoCounts",
    "Library",
    "LibraryNotFoundError",
    "Matmul",
    "MatmulLayout",
    "MatmulQuantization",
    "MatmulType",
    "Matrix",
    "MatrixBinding",
    "MemoryInfo",
    "MemoryOrigin",
    "MemorySize",
    "Operation",
    "OperationTensor",
    "OperatorTime",
    "OutputSet",
    "PerfDetail",
    "QuantizationType",
    "QueryCommand",
    "RunInfo",
    "Scales",
    "SdkVersion",
    "Shape",
    "Skip",
    "SyncMode",
    "TargetType",
    "TensorAttributes",
    "TensorFormat",
    "TensorMemory",
    "TensorType",
    "Version",
    "default_library",
    "find_library",
    "memory_without_context",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'openrknn.vendor' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"openrknn.vendor.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
