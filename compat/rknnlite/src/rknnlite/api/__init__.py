"""What programs import: `RKNNLite`, and `rknn_runtime` for those who reach inside."""

from __future__ import annotations

from rknnlite.api import rknn_log, rknn_runtime
from rknnlite.api.rknn_lite import RKNNLite

__all__ = ["RKNNLite", "rknn_log", "rknn_runtime"]
