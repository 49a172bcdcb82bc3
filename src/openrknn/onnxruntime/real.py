"""The real ONNX Runtime, which our package is named after."""

from __future__ import annotations

import importlib

from openrknn.extras import missing
from openrknn.installed_onnxruntime import installed

try:
    onnxruntime = installed()
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
except ImportError as error:
    raise ImportError(missing(error, "parts"), name=error.name) from None

RKNN = "RknnExecutionProvider"
"""The name of our provider."""
CPU = "CPUExecutionProvider"
