"""What can go wrong when a model is got."""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = ["GettingError"]


class GettingError(RknnError):
    """A model cannot be fetched, read or made; the message says what to do."""
