"""Numbers that a compiled file cannot hold show in what a step makes: then the step is an error, not a text.

Sums of squares in front of norms are divided by powers of two that were measured when the file was compiled (`ranges`).
A text with much larger numbers overflows fp16 there, and the norm gives zeros, with which everything behind it goes
on. So a token whose values are all zero in a layer, whose keys or values are not finite, or whose logits are all
zero or not finite, was not computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.llm.errors import NumberRangeError
from openrknn.llm.weights import Floats

__all__ = ["checked_hidden", "wrong_logits", "wrong_rows"]

_MAGNITUDE, _INFINITE = np.uint16(0x7FFF), 0x7C00
_REMEDY = (
    "numbers of this text are larger than the file holds in fp16; compile the model again, and please report it if "
    "that does not help"
)


def wrong_rows(fresh: npt.NDArray[Any], first_layer: int, position: int) -> NumberRangeError | None:
    """What is wrong with new keys and values in fp16, [layers, 2, groups, tokens, atom], from `position` on."""
    largest = (fresh.view(np.uint16) & _MAGNITUDE).max(axis=(2, 4))
    infinite, zero = largest >= _INFINITE, largest == 0
    zero[:, 0] = False  # a norm of keys may make zeros of small numbers
    if not (infinite.any() or zero.any()):
        return None
    layer, kind, token = (int(one) for one in np.argwhere(infinite | zero)[0])
    what = "are not finite" if infinite[layer, kind, token] else "are all zero"
    name = ("keys", "values")[kind]
    return NumberRangeError(f"layer {first_layer + layer}: the {name} of token {position + token} {what}: {_REMEDY}")


def wrong_logits(logits: Floats) -> NumberRangeError | None:
    """What is wrong with rows of logits: infinite ones, or none that is not 0."""
    if _are_computed(logits):
        return None
    return NumberRangeError(f"the logits are not finite or all zero: {_REMEDY}")


def checked_hidden(rows: Floats) -> Floats:
    """The rows of a text's last layer; an error if they were not computed."""
    if not _are_computed(rows):
        raise NumberRangeError(f"the last layer's rows are not finite or all zero: {_REMEDY}")
    return rows


def _are_computed(rows: Floats) -> bool:
    return bool(np.isfinite(rows).all() and rows.any(axis=-1).all())
