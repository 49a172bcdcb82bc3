"""The real ONNX Runtime, which our package is named after."""

from __future__ import annotations

from openrknn.extras import missing

try:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state
except ImportError as error:
    raise ImportError(missing(error, "parts"), name=error.name) from None

__all__ = ["CPU", "RKNN", "onnxruntime", "state"]

RKNN = "RknnExecutionProvider"
"""The name of our provider."""
CPU = "CPUExecutionProvider"
