"""Mistakes that arrays show: inputs that can be run, but are probably not as intended.

Each is reported once for a session, an input and a cause, as `InputWarning`. Only inputs for images are checked, only
the first arrays of each type, and of each only a few hundred numbers: a valid image is checked once.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from openrknn.errors import InputWarning
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.tensors import Array

_PIXEL_RANGE = 64.0
"""Inputs that reach this far in users' numbers are meant for pixels from 0 to 255."""
_NORMALIZED_RANGE = 4.0
"""Pictures that were normalized before stay below it: 0 to 1, -1 to 1, or ImageNet's -2.2 to 2.7."""
_SMALL_RANGE = 16.0
"""Inputs that reach less far are meant for numbers that were scaled before."""
_PER_AXIS = 16
_CONSTANTS = 8
"""So many pictures of one colour at the beginning are no warm-up."""
_COLOURS = 3


class InputWarnings:
    """What one session has seen of its inputs."""

    def __init__(self) -> None:
        self._done: set[tuple[str, Any]] = set()
        """(input, type) that need no further look."""
        self._constants: dict[tuple[str, Any], int] = {}

    def look(self, port: InputPort, value: object) -> None:
        """Look at an array that was fed, if it is among the first."""
        key = port.name, getattr(value, "dtype", None)
        if key in self._done:
            return
        array = np.asarray(value)
        if not port.is_picture or not array.size or array.dtype == port.stored.dtype:
            self._done.add(key)  # what is stored as it is means what it is
            return
        few = sample(array)
        low, high = float(few.min()), float(few.max())
        if low == high:
            self._one_colour(port, key, low)
            return
        self._done.add(key)
        text = _mistake(port, array, few, low, high)
        if text:
            _warn(f"input {port.name!r} {text}")

    def _one_colour(self, port: InputPort, key: tuple[str, Any], number: float) -> None:
        self._constants[key] = seen = self._constants.get(key, 0) + 1
        if seen >= _CONSTANTS:
            self._done.add(key)
            _warn(
                f"input {port.name!r} was given {seen} arrays in a row that hold {number:g} wherever one looks: "
                "does the camera or the decoder deliver pictures? (A picture divided by 255 and made uint8 again is "
                "black.)"
            )


def sample(array: Array) -> Array:
    """Some elements from everywhere, at most 16 along each axis; a view."""
    return array[tuple(slice(None, None, -(-size // _PER_AXIS)) for size in array.shape)]


def _mistake(port: InputPort, array: Array, few: Array, low: float, high: float) -> str:
    reach = port.reach
    whole = bool(np.array_equal(few, np.rint(few)))
    if reach >= _PIXEL_RANGE:
        if array.dtype.kind == "f" and max(abs(low), abs(high)) <= _NORMALIZED_RANGE and not whole:
            return (
                f"takes pixels from 0 to 255 and normalizes them itself; the {array.dtype} array has values between "
                f"{low:.3g} and {high:.3g}: was it normalized before? Give the picture as uint8, or as floats from 0 "
                "to 255"
            )
        if low >= 0 and high <= 1 and port.tensor.shape[1] == _COLOURS and whole:
            return (
                f"takes pixels from 0 to 255, and the {array.dtype} array given holds only 0 and 1: was it divided by "
                "255 and made whole numbers again? Give the picture as it was read"
            )
        return ""
    if not port.is_quantized:
        if array.dtype == np.uint8 and high > _SMALL_RANGE and port.keeps_numbers:
            return (
                f"takes floats, and the model has no mean and std: the uint8 pixels go in as they are, up to {high:g}. "
                "If it was trained on scaled pictures, scale them first (array / 255.0), or compile with mean= and std="
            )
        return ""
    least, most = port.limits
    beyond = float(((few < least) | (few > most)).mean())
    if reach < _SMALL_RANGE and beyond > 0.5:
        return (
            f"holds numbers from {least:.3g} to {most:.3g}; {beyond:.0%} of the {array.dtype} array given are beyond "
            f"(up to {high:.4g}): the model has no mean and std of its own. Scale the picture first as in training "
            "(array / 255.0), or compile with mean= and std="
        )
    return ""


def _warn(text: str) -> None:
    """At the line of the user's program that called us."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "openrknn":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InputWarning, stacklevel=level)
