"""What programs import: `RKNN`."""

from __future__ import annotations

from rknn.api.rknn import RKNN

__all__ = ["RKNN"]
