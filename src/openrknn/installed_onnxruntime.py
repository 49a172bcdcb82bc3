"""The installed ONNX Runtime, also where `import onnxruntime` gives `openrknn.onnxruntime`.

Every module that computes with ONNX Runtime imports it here, so that a redirected program does not call itself.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

NAME = "onnxruntime"
_OURS = "openrknn.onnxruntime"
_known: list[Any] = []


def is_redirected() -> bool:
    """Whether `import onnxruntime` gives ours."""
    return getattr(sys.modules.get(NAME), "__name__", "") == _OURS


def installed() -> Any:
    """The module; ImportError without it."""
    if not is_redirected():  # ours imports the real one before anything can be redirected to it
        _known[:] = [importlib.import_module(NAME)]
    return _known[0]
