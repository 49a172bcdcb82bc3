"""Numbers, flags and texts out of a model's description, each with the check that it can be one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from openrknn.errors import BadTextError
from openrknn.llm.errors import UnsupportedArchitectureError

LARGEST = 1 << 31
"""Of all sizes: a limit for arithmetic, not for memory, which the tensors in the file bound."""


class Fields:
    """A description (metadata of GGUF, config.json) whose keys may have a prefix; `section` is for messages."""

    def __init__(self, values: Mapping[str, Any], section: str, prefix: str = "") -> None:
        self._values, self.section, self._prefix = values, section, prefix

    def has(self, key: str) -> bool:
        return self._values.get(self._prefix + key) is not None

    def is_null(self, key: str) -> bool:
        """Whether the key is there and says that there is nothing."""
        return self._prefix + key in self._values and self.raw(key) is None

    def raw(self, key: str) -> Any:
        return self._values.get(self._prefix + key)

    def size(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number that is there, or the default."""
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if isinstance(value, np.ndarray | list) and len(value):
            # Some converters write one number for each layer, also where all are equal.
            if any(other != value[0] for other in value):
                raise UnsupportedArchitectureError(f"{self._prefix}{key} differs from layer to layer: not supported")
            value = value[0].item() if isinstance(value, np.ndarray) else value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < LARGEST:
            raise self._wrong(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None, *, positive: bool = True) -> float:
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        if positive and not 0 < value < 1e30:
            raise self._wrong(key, "a number above 0")
        return float(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.raw(key)
        if not isinstance(value, list) or not all(isinstance(one, int | float) and math.isfinite(one) for one in value):
            raise self._wrong(key, "a list of numbers")
        return tuple(map(float, value))

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def inner(self, key: str) -> Fields:
        value = self.raw(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Fields(value, f"{self.section}, {key}")

    def _wrong(self, key: str, wanted: str) -> BadTextError:
        value = self.raw(key)
        shown = "missing" if value is None else repr(value)[:80]
        return BadTextError(f"{self._prefix}{key} is {shown}; {wanted} is needed", section=self.section)
