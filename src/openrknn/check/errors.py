"""What keeps a model from being checked."""

from __future__ import annotations

from openrknn.errors import RknnError


class GoldenError(RknnError):
    """A golden folder is not what it should be; `path` is the file in it, `line` its line (0: none in particular)."""

    def __init__(self, message: str, *, path: str = "", line: int = 0) -> None:
        place = f"{path}:{line}" if path and line else path
        super().__init__(f"{place}: {message}" if place else message)
        self.path = path
        self.line = line


class CannotCheckError(RknnError):
    """A model or a case cannot be run or read; the message says why and what to do."""
