"""The findings of `openrknn doctor`, as the page shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn import doctor
from openrknn.serve.plane.plane import Plane

__all__ = ["findings"]


def findings(plane: Plane) -> list[dict[str, Any]]:
    """What, why it matters, and what to do; the worst first."""
    return [finding.as_json() for finding in doctor.examine(Path(plane.settings.root))]
