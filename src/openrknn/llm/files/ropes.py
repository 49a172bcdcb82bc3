"""Rotary embeddings that were stretched after training: a divisor for each frequency, and a scale."""

from __future__ import annotations

import math


def linear(size: int, factor: float) -> tuple[float, ...]:
    """All positions are divided by `factor`."""
    return (factor,) * (size // 2)


def llama3(size: int, base: float, factor: float, original: float, *, low: float, high: float) -> tuple[float, ...]:
    """Waves longer than `original / low` are divided, those shorter than `original / high` are not; a line between."""
    divisors = []
    for pair in range(size // 2):
        wave = 2 * math.pi * base ** (2 * pair / size)
        if wave < original / high:
            divisors.append(1.0)
        elif wave > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wave - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return tuple(divisors)


def yarn(
    size: int, base: float, factor: float, original: float, *, fast: float = 32.0, slow: float = 1.0, whole: bool = True
) -> tuple[float, ...]:
    """Pairs that turn more than `fast` times in the original context stay, those below `slow` are divided."""

    def pair_of(turns: float) -> float:
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(fast), pair_of(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    span = max(last - first, 0.001)
    divisors = []
    for pair in range(size // 2):
        divided = min(max((pair - first) / span, 0.0), 1.0)
        divisors.append(1 / (divided / factor + 1 - divided))
    return tuple(divisors)


def yarn_scale(factor: float, mscale: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def long_scale(factor: float, original: float) -> float:
    """What LongRoPE (Phi-3) multiplies cosines and sines by."""
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
