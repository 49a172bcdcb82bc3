"""Which threshold to use, and why 0.5 is a bad one after int8.

A detector ends in a sigmoid, and sigmoid(0) = 0.5 means "no opinion". int8 has 256 steps; with the usual scale 1/255
and zero point -128 the step next to 0.5 stands for 128/255 = 0.502. Every cell without an opinion then passes a
threshold of 0.5, and thousands of boxes appear that are none. A threshold of 0.51 is above that step, and no object is
lost by it.
"""

from __future__ import annotations

SAFE = 0.51
_HALF = 0.5


def safe_threshold(threshold: float, *, is_quantized: bool) -> tuple[float, str]:
    """The threshold to use, and a note where it is not the one that was asked for."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"a threshold is from 0 to 1, not {threshold}")
    if is_quantized and _HALF <= threshold < SAFE:
        return SAFE, (
            f"threshold {SAFE} instead of {threshold:g}: sigmoid(0) = 0.5 means no opinion and becomes 0.502 in int8, "
            "so 0.5 would let every empty cell through"
        )
    return threshold, ""
