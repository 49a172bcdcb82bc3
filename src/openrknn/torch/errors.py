"""What PyTorch's face tells its users: errors, and warnings that are given once."""

from __future__ import annotations

import logging
import warnings

from openrknn.errors import RknnError

LOG = logging.getLogger("openrknn.torch")


class ExportError(RknnError):
    """A graph cannot become ONNX; `torch.compile` runs it in PyTorch then."""


class NotSavableError(RknnError):
    """Parts of the module run in PyTorch, so that a file cannot hold all of it."""


class EagerWarning(UserWarning):
    """Something runs in PyTorch that could have run on the NPU."""


_GIVEN: set[str] = set()


def warn_once(text: str) -> None:
    """Each text once in the life of the program."""
    if text not in _GIVEN:
        _GIVEN.add(text)
        warnings.warn(text, EagerWarning, stacklevel=2)


def forget_warnings() -> None:
    """Give them all again."""
    _GIVEN.clear()
