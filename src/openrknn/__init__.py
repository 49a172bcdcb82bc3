"""openrknn: load, run, inspect and serve `.rknn` models on Rockchip NPUs, and on any machine that has none.

    model = openrknn.load("yolo.rknn")      # parse only; needs no device
    model.inputs, model.outputs             # what to feed, what comes out
    model.operators                         # what runs where
    openrknn.compile("yolo.onnx", ...)      # a model from ONNX
    openrknn.save(model, "new.rknn")        # what was edited or compiled, into a file
    openrknn.lint(model)                    # mistakes of the conversion

Names are loaded when they are first used, so that `import openrknn` costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.analysis.lint.api import lint
    from openrknn.chips import CHIPS, Chip
    from openrknn.compiler.api import compile_onnx as compile  # noqa: A004
    from openrknn.container.load import load
    from openrknn.container.model import Model, Operator
    from openrknn.container.parts import Quantization
    from openrknn.container.save import save
    from openrknn.container.specs import Specs, TensorSpec
    from openrknn.errors import (
        DeviceError,
        FormatError,
        InputWarning,
        RknnError,
        UnknownNameError,
        UnsupportedError,
        VendorError,
    )
    from openrknn.runtime.binding import Binding
    from openrknn.runtime.decoder import Decoder
    from openrknn.runtime.errors import CacheFullError, ClosedError, PartsError
    from openrknn.runtime.futures import RunFuture
    from openrknn.runtime.io.outputs import Outputs
    from openrknn.runtime.io.user_memory import DmaBuf
    from openrknn.runtime.matmul.matmul import Matmul
    from openrknn.runtime.memory import MemoryReport
    from openrknn.runtime.parted.session import PartedSession
    from openrknn.runtime.pool import SessionPool
    from openrknn.runtime.profile import Profile, RunTimes
    from openrknn.runtime.runner import NodeArg
    from openrknn.runtime.session import Session
    from openrknn.runtime.state import Carried

__all__ = [
    "CHIPS", "Binding", "CacheFullError", "Carried", "Chip", "ClosedError", "Decoder", "DeviceError", "DmaBuf",
    "FormatError", "InputWarning", "Matmul", "MemoryReport", "Model", "NodeArg", "Operator", "Outputs", "PartedSession",
    "PartsError", "Profile", "Quantization", "RknnError", "RunFuture", "RunTimes", "Session", "SessionPool", "Specs",
    "TensorSpec", "UnknownNameError", "UnsupportedError", "VendorError", "__version__", "compile", "lint", "load",
    "save",
]  # fmt: skip

__version__ = "0.2.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "analysis.lint.api": "lint",
        "chips": "CHIPS Chip",
        "compiler.api": "compile=compile_onnx",
        "container.load": "load",
        "container.model": "Model Operator",
        "container.parts": "Quantization",
        "container.save": "save",
        "container.specs": "Specs TensorSpec",
        "errors": "DeviceError FormatError InputWarning RknnError UnknownNameError UnsupportedError VendorError",
        "runtime.binding": "Binding",
        "runtime.state": "Carried",
        "runtime.decoder": "Decoder",
        "runtime.errors": "CacheFullError ClosedError PartsError",
        "runtime.futures": "RunFuture",
        "runtime.io.outputs": "Outputs",
        "runtime.io.user_memory": "DmaBuf",
        "runtime.matmul.matmul": "Matmul",
        "runtime.memory": "MemoryReport",
        "runtime.parted.session": "PartedSession",
        "runtime.pool": "SessionPool",
        "runtime.profile": "Profile RunTimes",
        "runtime.runner": "NodeArg",
        "runtime.session": "Session",
    },
    has_modules=True,
)
