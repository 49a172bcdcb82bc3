"""Lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import logging
import sys
import time

__all__ = ["JsonFormatter", "TextFormatter", "one_line", "set_up", "text_formatter"]


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, and whatever `extra={"fields": ...}` brings."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        words: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            words.update(fields)
        if record.exc_info:
            words["exception"] = self.formatException(record.exc_info)
        return json.dumps(words, default=str)


def one_line(text: str) -> str:
    """Text from the network for a log: it cannot forge a second line or move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class TextFormatter(logging.Formatter):
    """Lines for people. A message is one line, whatever is in it; only tracebacks have more."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = one_line(record.message)
        return super().formatMessage(record)


def text_formatter(*, iso: bool = False) -> TextFormatter:
    """With the time of day, or with date and time as ISO 8601 wants it."""
    made = TextFormatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%SZ" if iso else "%H:%M:%S")
    if iso:
        made.converter = time.gmtime
    return made


def set_up(form: str, level: str) -> None:
    """Everything to stderr; `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(text_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)  # what a client feeds may look like a mistake
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "PIL"):
        logging.getLogger(name).setLevel(max(logging.ERROR if "uvicorn" in name else logging.WARNING, root.level))
