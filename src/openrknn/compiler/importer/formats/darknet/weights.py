"""The `.weights` of Darknet: a header, then floats in the order of the layers."""

from __future__ import annotations

import logging
import math
import struct

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.assembly import Array

_LOG = logging.getLogger(__name__)
_WIDE_SINCE = 2
"""Version 0.2 counts the pictures that it has seen with 64 bits."""


class Weights:
    """Floats in order; the header says how long it is, and whether fully connected layers are turned."""

    def __init__(self, data: bytes, file: str) -> None:
        self.file = file
        self._data = data
        if len(data) < 16:
            raise ModelError(f"{file} has {len(data)} bytes: too short for the header of Darknet weights")
        major, minor, self.revision = struct.unpack_from("<3i", data)
        if major < 0 or minor < 0:
            raise ModelError(f"{file} is not a file of Darknet weights: version {major}.{minor}")
        self.version = (major, minor)
        self.is_turned = major > 1000 or minor > 1000
        is_wide = major * 10 + minor >= _WIDE_SINCE and not self.is_turned
        self._at = 20 if is_wide else 16
        self.seen = struct.unpack_from("<q" if is_wide and len(data) >= 20 else "<i", data, 12)[0]

    @property
    def left(self) -> int:
        """Floats that no layer has taken yet."""
        return max(0, len(self._data) - self._at) // 4

    def take(self, shape: tuple[int, ...], whose: str) -> Array:
        """The next floats; `whose` names the layer in the message if there are too few."""
        count = math.prod(shape)
        if count > self.left:
            raise ModelError(
                f"{self.file}: {whose} needs {count} numbers, only {self.left} are left; the file is cut off, or "
                "belongs to another .cfg"
            )
        taken = np.frombuffer(self._data, "<f4", count, self._at).reshape(shape)
        self._at += 4 * count
        return taken

    def finish(self, what: str) -> None:
        """Numbers that are left belong to layers that were removed, or the two files do not belong together."""
        rest = len(self._data) - self._at
        if rest > 0:
            _LOG.warning(
                "%s: %d bytes are left after the last layer of %s; if no layers were removed there, it belongs to "
                "another .cfg", self.file, rest, what,
            )  # fmt: skip
