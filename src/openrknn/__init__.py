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

if TYPE_CHECKING:
    from openrknn.analysis.lint.api import lint
    from openrknn.chips import CHIPS, Chip
    from openrknn.compiler.api import compile_onnx as compile  # noqa: A004
    from openrknn.container.load import load
    from openrknn.container.model import Model, Operator, TensorSpec
    from openrknn.container.parts import Quantization
    from openrknn.container.save import save
    from openrknn.errors import (
        DeviceError,
        FormatError,
        RknnError,
        UnsupportedError,
        VendorError,
    )
    from openrknn.runtime.io.user_memory import DmaBuf
    from openrknn.runtime.matmul.matmul import Matmul
    from openrknn.runtime.pool import SessionPool
    from openrknn.runtime.session import Session

__all__ = [
    "CHIPS",
    "Chip",
    "DeviceError",
    "DmaBuf",
    "FormatError",
    "Matmul",
    "Model",
    "Operator",
    "Quantization",
    "RknnError",
    "Session",
    "SessionPool",
    "TensorSpec",
    "UnsupportedError",
    "VendorError",
    "__version__",
    "compile",
    "lint",
    "load",
    "save",
]

__version__ = "0.1.0.dev0"

_HOMES = {
    "CHIPS": "openrknn.chips",
    "Chip": "openrknn.chips",
    "DeviceError": "openrknn.errors",
    "DmaBuf": "openrknn.runtime.io.user_memory",
    "FormatError": "openrknn.errors",
    "Matmul": "openrknn.runtime.matmul.matmul",
    "Model": "openrknn.container.model",
    "Operator": "openrknn.container.model",
    "Quantization": "openrknn.container.parts",
    "RknnError": "openrknn.errors",
    "Session": "openrknn.runtime.session",
    "SessionPool": "openrknn.runtime.pool",
    "TensorSpec": "openrknn.container.model",
    "UnsupportedError": "openrknn.errors",
    "VendorError": "openrknn.errors",
    "compile": "openrknn.compiler.api:compile_onnx",
    "lint": "openrknn.analysis.lint.api",
    "load": "openrknn.container.load",
    "save": "openrknn.container.save",
}
"""Name -> the module that has it, with `:name` where it has another name there."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'openrknn' has no attribute {name!r}")
    from importlib import import_module

    module, _, other = _HOMES[name].partition(":")
    value = globals()[name] = getattr(import_module(module), other or name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
