"""Who says what a network computes: OpenCV reads the file itself, ONNX Runtime runs what our readers made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.compiler.nets import Array


def opencv() -> Any:
    """OpenCV 4: version 5 has no readers for Darknet and Caffe any more."""
    cv2 = pytest.importorskip("cv2", reason="the extra `video` is not installed")
    if not hasattr(cv2.dnn, "readNetFromDarknet"):
        pytest.skip(f"OpenCV {cv2.__version__} does not read Darknet and Caffe; 4.x does")
    return cv2


def ran(model: Any, feed: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by name, in float32."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `compile` is not installed")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feed)), strict=True))
