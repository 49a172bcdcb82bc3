"""The ONNX Runtime API: `import openrknn.onnxruntime as ort` instead of `import onnxruntime as ort`.

    session = ort.InferenceSession("model.onnx", providers=["RknnExecutionProvider", "CPUExecutionProvider"])
    session.run(None, {"x": x})

What is not ours is the real module's: options, OrtValue, exceptions, `ort.quantization`, ...
"""

from __future__ import annotations

import importlib
from typing import Any

from openrknn.onnxruntime.binding import IOBinding
from openrknn.onnxruntime.real import RKNN as _RKNN
from openrknn.onnxruntime.real import onnxruntime as _real
from openrknn.onnxruntime.redirect import install as _install
from openrknn.onnxruntime.session import InferenceSession

_install(__path__)


def get_available_providers() -> list[str]:
    """Ours, and those of the installed ONNX Runtime."""
    return [_RKNN, *(name for name in _real.get_available_providers() if name != _RKNN)]


def get_all_providers() -> list[str]:
    """Ours, and all that ONNX Runtime knows."""
    return [_RKNN, *(name for name in _real.get_all_providers() if name != _RKNN)]


def __getattr__(name: str) -> Any:
    """The real module's names and submodules, and our own that it has as well."""
    if name == "backend":
        return importlib.import_module(f"{__name__}.{name}")
    try:
        return getattr(_real, name)
    except AttributeError:
        if name.startswith("_"):
            raise
    try:
        return importlib.import_module(f"onnxruntime.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"onnxruntime.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_real)})


__all__ = ["IOBinding", "InferenceSession", "get_all_providers", "get_available_providers"]
__all__ += [name for name in dir(_real) if not name.startswith("_") and name not in __all__]
