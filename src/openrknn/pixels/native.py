"""The native kernel of conversions."""

from __future__ import annotations

from openrknn.pixels.request import Request

__all__ = ["run"]


def run(request: Request) -> bool:
    """Convert; False where the native library is absent."""
    return False
