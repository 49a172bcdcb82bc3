"""Models into files, which are there completely or not at all."""

from __future__ import annotations

import os

from openrknn.container.model import Model
from openrknn.container.writer import encode
from openrknn.wholefiles import write_atomically

__all__ = ["save", "write_atomically"]


def save(model: Model, path: str | os.PathLike[str], *, drop_unknown: bool = False) -> None:
    """Write a model that was loaded, edited or compiled into a `.rknn` file.

    A file that exists is replaced; if anything goes wrong it stays as it was. `UnsupportedError` for models that cannot
    be written: those of toolkits before 1.5.2, and, unless `drop_unknown`, those with parts that are not understood.
    """
    if not isinstance(model, Model):
        raise TypeError(f"save takes a Model, as load and compile return it, not {type(model).__name__}")
    write_atomically(path, encode(model, drop_unknown=drop_unknown))
