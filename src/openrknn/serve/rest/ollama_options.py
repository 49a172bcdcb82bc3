"""What Ollama's clients ask beside the text: how long a model stays loaded, and options that change nothing here."""

from __future__ import annotations

import math
import re
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.serve.llm.language import Language
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.known_fields import OLLAMA_OPTIONS

__all__ = ["keep_seconds", "option_warnings"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d{1,9}(?:\.\d{0,9})?)(ns|us|µs|ms|s|m|h)"
_LONGEST = 10 * 365 * 86400.0


def keep_seconds(value: Any) -> float | None:
    """keep_alive: seconds, or a duration of Go such as 5m or 1h30m; negative: always loaded; None: nothing is said."""
    if value is None:
        return None
    seconds = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        text = value.strip().removeprefix("-")
        if re.fullmatch(r"\d{1,9}(\.\d{0,9})?", text):
            seconds = float(text)
        elif re.fullmatch(f"(?:{_PART}){{1,7}}", text):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
        if seconds is not None and value.strip().startswith("-"):
            seconds = -seconds
    if seconds is None or math.isnan(seconds):
        raise BadRequestError("'keep_alive' is a number of seconds or a duration such as '5m'; negative: always loaded")
    return -1.0 if seconds < 0 or seconds > _LONGEST else seconds


def option_warnings(fields: Fields, language: Language) -> list[str]:
    """Options that a client may expect something of, and that change nothing."""
    options, found = fields.inside("options"), []
    context = options.integer("num_ctx", None, 0, 2**31)
    capacity = language.card.capacity
    if context is not None and context > capacity:
        found.append(f"options.num_ctx: {context} tokens are asked for; the context of {language.name!r} is {capacity}")
    ignored = [name for name in options.words if name in OLLAMA_OPTIONS.harmless and name != "num_ctx"]
    if ignored:
        found.append(f"options.{', options.'.join(sorted(ignored))}: no effect here; the server decides about hardware")
    return found
