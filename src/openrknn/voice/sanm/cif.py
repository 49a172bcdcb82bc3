"""Continuous integrate-and-fire: weights of frames add up, and each time they reach 1 a token is complete."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


def integrate(states: Array, weights: Array, tail: float) -> tuple[Array, list[int]]:
    """[tokens, width], and the frame in which each was complete. `tail` is added behind the last frame: what is left
    there becomes a token if it is more than 1 - tail."""
    found: list[Array] = []
    frames: list[int] = []
    level = 0.0
    held = np.zeros(states.shape[1], np.float32)
    last = len(states)
    for at, weight in enumerate([*weights.tolist(), tail]):
        row = states[at] if at < last else np.zeros_like(held)
        missing = 1.0 - level
        level += weight
        if level < 1.0:
            held = held + np.float32(weight) * row
            continue
        level -= 1.0
        found.append(held + np.float32(missing) * row)
        frames.append(min(at, last - 1))
        held = np.float32(weight - missing) * row
    return np.stack(found) if found else np.zeros((0, states.shape[1]), np.float32), frames
