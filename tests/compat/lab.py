"""What the behaviour checks work with: the same for our `rknnlite` and for the vendor's wheel.

This and the checks run in both: inside pytest on our package, and on the vendor's wheel in a process where only NumPy
is installed. So they use nothing of pytest and nothing of openrknn.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def provider() -> str:
    """Whose package `rknnlite` is: "openrknn" or "vendor"."""
    try:
        importlib.metadata.version("openrknn-lite")
    except importlib.metadata.PackageNotFoundError:
        return "vendor"
    return "openrknn"


class Heard(logging.Handler):
    """Messages of the package's logger; levels are compared as numbers, because the vendor renames them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelno, record.getMessage()))

    def text(self, level: int = logging.ERROR) -> str:
        """All messages of one level."""
        return "\n".join(message for number, message in self.lines if number == level)


@dataclass
class Lab:
    """Models, and a place for results that are compared between the two packages."""

    goldens: Path
    folder: Path
    saved: dict[str, Array] = field(default_factory=dict)

    def model(self, name: str) -> str:
        return str(self.goldens / f"{name}.rknn")

    def golden(self, name: str) -> dict[str, Array]:
        """Inputs x0, x1 ... and answers o0, o1 ... of the vendor's simulator."""
        with np.load(self.goldens / f"{name}.npz") as stored:
            return dict(stored)

    def new(self, *arguments: Any, **options: Any) -> Any:
        """An RKNNLite of whichever package is there; without a type, because both kinds go through the checks."""
        from rknnlite.api import RKNNLite

        return RKNNLite(*arguments, **options)

    def open(self, name: str, **options: Any) -> Any:
        """A runtime that is ready."""
        lite = self.new()
        assert lite.load_rknn(self.model(name)) == 0
        assert lite.init_runtime(**options) == 0
        return lite

    def save(self, name: str, arrays: list[Array]) -> None:
        """Keep outputs: both packages have to give the same."""
        self.saved.update({f"{name}_{index}": array.copy() for index, array in enumerate(arrays)})


@contextmanager
def listening(lite: Any) -> Iterator[Heard]:
    """Hear what the package logs."""
    heard = Heard()
    logger = lite.rknn_log.logger
    level = logger.level
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)


def refuses(lite: Any, words: str, inputs: Any, **options: Any) -> None:
    """`inference` gives None, and an error in the log has these words."""
    with listening(lite) as heard:
        result = lite.inference(inputs, **options)
    assert result is None, f"{words}: a result came"
    assert words in heard.text(), f"{words!r} is not in {heard.text()!r}"
