"""PP-OCR recognition and other readers: one output [1, steps, characters] of probabilities, decoded as CTC.

    take the best character of every step; of equal neighbours keep one; drop the blank (number 0)

The score is the mean probability of the characters that are kept. The characters come from a list of one per line, in
the order of training; PP-OCR has the blank before it and the space behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.grids import softmax
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Reading

BLANK = 0


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Steps of characters, from an input that is wider than high."""
    return (
        len(shapes) == 1
        and len(shapes[0]) == 3
        and shapes[0][0] == 1
        and shapes[0][1] > 1
        and shapes[0][2] > 10
        and frame.width > frame.height
        and shapes[0][1] <= frame.width
    )


def decode_with(characters: Sequence[str], heads: Sequence[Head]) -> Reading:
    """The text of one line; `characters` without the blank."""
    (head,) = heads
    stored = head.values[0]
    best = stored.argmax(axis=1)
    values = head.real(stored)
    if head.is_logits(stored, Settings()) or values.max() > 1.01:
        values = softmax(values, axis=1)
    return read_steps(best.tolist(), values[np.arange(len(best)), best].tolist(), characters)


def read_steps(best: Sequence[int], probabilities: Sequence[float], characters: Sequence[str]) -> Reading:
    """The rule above, for the best character of every step and its probability."""
    text, sure = [], []
    last = BLANK
    for number, probability in zip(best, probabilities, strict=True):
        if number not in (BLANK, last):
            text.append(characters[number - 1] if number - 1 < len(characters) else "\N{REPLACEMENT CHARACTER}")
            sure.append(probability)
        last = number
    return Reading("".join(text), float(np.mean(sure)) if sure else 0.0)
