"""What can go wrong between a picture and its boxes."""

from __future__ import annotations

from openrknn.errors import RknnError, UnsupportedError


class SourceError(RknnError):
    """A picture, folder, video or camera cannot be read; the message says which and why."""


class UnknownFamilyError(UnsupportedError):
    """The outputs of a model are those of no family that has a decoder, or of several that differ too much."""
