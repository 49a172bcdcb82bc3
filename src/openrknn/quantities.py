"""Sizes, counts, times and shapes as text: one format for terminals, pages and messages."""

from __future__ import annotations

import os
from collections.abc import Iterable

FACTORS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
"""Suffixes of numbers that people write."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_PREFIXES = ("", "k", "M", "G", "T", "P")


def size_text(size_bytes: int) -> str:
    """ "2.5 MiB"; exact below one KiB."""
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size_bytes} B" if not unit else f"{_three_digits(value)} {_UNITS[unit]}"


def count_of(count: int, thing: str) -> str:
    """ "1 task", "2 tasks"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def count_text(count: int) -> str:
    """ "1.07 G"; exact below a thousand."""
    unit = min((len(str(abs(count))) - 1) // 3, len(_PREFIXES) - 1)
    if count >= 10**18 or not unit:
        # Shapes of damaged files multiply to numbers that no float holds.
        return str(count) if not unit else "very many "
    return f"{_three_digits(count / 1000**unit)} {_PREFIXES[unit]}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shape_text(shape: Iterable[int]) -> str:
    """ "1x3x416x416"; "scalar" without dimensions."""
    return "x".join(map(str, shape)) or "scalar"


def duration(seconds: float) -> str:
    """ "340 us", "12.3 ms", "4.56 s"."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def numbers_text(values: Iterable[float]) -> str:
    """ "123.675 116.28 103.53"; one number when all are the same."""
    texts = [f"{value:.6g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else " ".join(texts)


def number_from_environment(name: str) -> int | None:
    """The variable's number, such as 500M, 2G or 3T; None if it is not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    number, factor = (text[:-1], FACTORS[text[-1].upper()]) if text[-1].upper() in FACTORS else (text, 1)
    try:
        value = int(float(number) * factor)
    except (ValueError, OverflowError):
        value = -1
    if value < 1:
        raise ValueError(f"{name}={text!r} is not a number such as 500M, 2G or 3T")
    return value
