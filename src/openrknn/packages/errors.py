"""What can go wrong with a package."""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = ["PackageError"]


class PackageError(RknnError):
    """A package cannot be fetched, is not what it should be, or cannot be kept; the message says what to do."""
