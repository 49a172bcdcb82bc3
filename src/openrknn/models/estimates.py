"""Estimated time of one run per chip, and the size of the compiled file: written by `tools/make_model_docs.py`.

The numbers are those of the cost model for one NPU core; nothing here is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["FILE", "estimate", "estimates"]

FILE = "estimates.json"


@cache
def estimates() -> Mapping[str, Mapping[str, Any]]:
    """Name -> {"precision", "bytes", "unit", "ms": {chip: milliseconds}}."""
    found: dict[str, dict[str, Any]] = json.loads((files("openrknn.models") / FILE).read_bytes())
    return found


def estimate(name: str, target: str) -> float | None:
    """Milliseconds on a chip; None where it was not estimated, or does not compile for it."""
    found: float | None = estimates().get(name, {}).get("ms", {}).get(target)
    return found
