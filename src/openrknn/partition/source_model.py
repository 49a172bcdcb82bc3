"""The whole model, for what may still be asked of it: other shapes, the CPU. Its weights need not stay in memory."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import tempfile
from functools import cached_property
from typing import IO, Any

from openrknn.compiler.float_model import onnx_package


def _give_back() -> None:
    """Compiling takes ten times the weights for a moment, and glibc keeps what was freed unless it is asked."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries give it back by themselves
        ctypes.CDLL(None).malloc_trim(0)


def digest_of(model: Any) -> bytes:
    """A hash of the model's content."""
    return hashlib.sha256(model.SerializeToString(deterministic=True)).digest()


class SourceModel:
    """An ONNX model that can be forgotten, and is read again from a file without a name when it is asked for."""

    def __init__(self, model: Any) -> None:
        self._model: Any = model
        self._file: IO[bytes] | None = None

    @property
    def model(self) -> Any:
        """The model itself; do not change it."""
        if self._model is None:
            assert self._file is not None
            self._file.seek(0)
            self._model = onnx_package().load_model_from_string(self._file.read())
        return self._model

    @cached_property
    def digest(self) -> bytes:
        """Of its content. Writing out a large model takes longest of all that a start with a full cache does: once."""
        data = self.model.SerializeToString(deterministic=True)
        self._store(data)
        return hashlib.sha256(data).digest()

    def forget(self) -> None:
        """Out of memory, onto the disk; where that is full it stays."""
        if self._model is None:
            return
        if self._file is None:
            self._store(self._model.SerializeToString())
        if self._file is not None:
            self._model = None
            _give_back()

    def _store(self, data: bytes) -> None:
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as this object)
            self._file.write(data)
        except OSError:
            self._file = None

    def close(self) -> None:
        """Give everything back."""
        self._model = None
        if self._file is not None:
            self._file.close()
            self._file = None
