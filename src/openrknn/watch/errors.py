"""What can go wrong with several cameras."""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = ["ConfigError", "SinkError", "WatchError"]


class WatchError(RknnError):
    """Cameras cannot be watched as asked; the message says what, where and what to do."""


class ConfigError(WatchError):
    """A configuration file is wrong. `path`, `line` and `key` say where."""

    def __init__(self, message: str, *, path: str = "", line: int = 0, key: str = "") -> None:
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        super().__init__(f"{where}{f'{key}: ' if key else ''}{message}")
        self.path, self.line, self.key = path, line, key


class SinkError(WatchError):
    """Events cannot be delivered now; they stay in the spool. `is_refused`: this event never can."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_refused = is_refused
