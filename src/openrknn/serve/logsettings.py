"""What is logged, as Triton's clients set it while the server runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.serve.logs import JsonFormatter, TextFormatter, text_formatter

__all__ = ["LogSettings"]

_FLAGS = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
_FORMATS = ("default", "ISO8601")
_MOST_VERBOSE = (1 << 31) - 1


class _Sieve(logging.Filter):
    """Leaves out our own records of disabled levels; those of other libraries pass."""

    def __init__(self, hidden: set[int]) -> None:
        super().__init__()
        self.hidden = hidden

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno not in self.hidden or not record.name.startswith("openrknn")


class LogSettings:
    """Before the first change everything is as the command line says; `close` makes it so again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logger = logging.getLogger("openrknn")
        self._before: int | None = None
        self._sieve = _Sieve(set())
        self._words: dict[str, Any] | None = None
        self._formatters: dict[logging.Handler, logging.Formatter | None] = {}

    def settings(self) -> dict[str, Any]:
        """All of them."""
        return dict(self._words) if self._words is not None else self._now()

    def _now(self) -> dict[str, Any]:
        level = self._logger.getEffectiveLevel()
        flags = {key: level <= number for key, number in _FLAGS.items()}
        form = "ISO8601" if self._is_json() else "default"
        return {"log_file": "", **flags, "log_verbose_level": int(level <= logging.DEBUG), "log_format": form}

    def update(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Set some. All of them are right, or nothing changes."""
        for key, value in words.items():
            self._check(key, value)
        with self._lock:
            self._words = {**self.settings(), **{key: value for key, value in words.items() if value is not None}}
            self._apply(self._words)
            return dict(self._words)

    def _check(self, key: str, value: Any) -> None:
        if key == "log_file":
            raise BadRequestError("log_file cannot be changed: logs go to the standard error of the server")
        if key not in {*_FLAGS, "log_verbose_level", "log_format"}:
            raise BadRequestError(f"there is no log setting {key[:80]!r}; there are {', '.join(self._now())}")
        if value is None:
            return
        if key in _FLAGS and not isinstance(value, bool):
            raise BadRequestError(f"{key} is true or false")
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_VERBOSE
        if key == "log_verbose_level" and not is_number:
            raise BadRequestError("log_verbose_level is a whole number from 0 on")
        if key == "log_format":
            if value not in _FORMATS:
                raise BadRequestError(f"log_format is {' or '.join(_FORMATS)}")
            if value == "default" and self._is_json():
                raise BadRequestError("this server logs JSON (--log-format json), whose times are of ISO8601 always")

    @staticmethod
    def _is_json() -> bool:
        return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)

    def _apply(self, words: Mapping[str, Any]) -> None:
        if self._before is None:
            self._before = self._logger.level
        self._sieve.hidden = {number for key, number in _FLAGS.items() if not words[key]}
        shown = [number for key, number in _FLAGS.items() if words[key]]
        self._logger.setLevel(logging.DEBUG if words["log_verbose_level"] else min([*shown, logging.CRITICAL]))
        for handler in logging.getLogger().handlers:
            handler.addFilter(self._sieve)
            if isinstance(handler.formatter, TextFormatter):
                self._formatters.setdefault(handler, handler.formatter)
                handler.setFormatter(text_formatter(iso=words["log_format"] == "ISO8601"))

    def close(self) -> None:
        """As it was."""
        if self._before is None:
            return
        self._logger.setLevel(self._before)
        for handler in logging.getLogger().handlers:
            handler.removeFilter(self._sieve)
        for handler, formatter in self._formatters.items():
            handler.setFormatter(formatter)
        self._before, self._words, self._formatters = None, None, {}
