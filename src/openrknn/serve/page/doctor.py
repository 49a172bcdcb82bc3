"""The findings of `openrknn doctor`, as the page shows them."""

from __future__ import annotations

from typing import Any

from openrknn.serve.plane.face import Plane

__all__ = ["findings"]


def findings(plane: Plane) -> list[dict[str, Any]]:
    """What, why it matters, and what to do; the worst first."""
    return []
