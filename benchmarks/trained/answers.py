"""What the outputs say, compared with float: the share of answers that are the same, and that in words.

A kind may name the output it looks at: `mask:1` is the second output as a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trained.network import Array

Runs = Sequence[Sequence[Array]]
_TINY = 1e-12


def compare(kind: str, wanted: Runs, found: Runs) -> tuple[float, str]:
    """The first is float; 1.0 is the same answer on every item."""
    name, _, index = kind.partition(":")
    if name == "scores":
        first, _, last = index.partition(":")
        return _scores(slice(int(first), int(last) if last else None), wanted, found)
    number = int(index or 0)
    pairs = [(a[number], b[number]) for a, b in zip(wanted, found, strict=True)]
    values = [_KINDS[name](a, b) for a, b in pairs]
    if name == "score":
        return -float(max(values)), f"{max(values):.3f} off at most"
    if name == "direction":
        return float(min(values)), f"cosine {min(values):.4f} or more"
    return float(np.mean(values)), f"{name} {np.mean(values):.3f}"


def _mask(a: Array, b: Array) -> float:
    """Intersection over union of what is above a half."""
    first, second = a > 0.5, b > 0.5
    union = int((first | second).sum())
    return float((first & second).sum() / union) if union else 1.0


def _first(a: Array, b: Array) -> float:
    return float(np.argmax(a) == np.argmax(b))


def _sequence(a: Array, b: Array) -> float:
    """The share of steps with the same best class."""
    return float(np.mean(np.argmax(a, -1) == np.argmax(b, -1)))


def _direction(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / max(_TINY, float(np.linalg.norm(x) * np.linalg.norm(y))))


def _off(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max())


def _decision(a: Array, b: Array) -> float:
    return float(np.mean((a > 0.5) == (b > 0.5)))


def _peaks(a: Array, b: Array) -> float:
    """The share of the ten strongest places that are among the ten strongest of the other."""
    first, second = (set(np.argsort(-part.ravel(), kind="stable")[:10].tolist()) for part in (a, b))
    return len(first & second) / 10


def _scores(rows: slice, wanted: Runs, found: Runs) -> tuple[float, str]:
    """Detectors [1, 4 + classes, boxes] (or transposed): boxes above 0.25, and how far their best scores move."""
    same = total = 0
    off = 0.0
    for a, b in zip(wanted, found, strict=True):
        first, second = (part[0][0] if part[0].shape[1] < part[0].shape[2] else part[0][0].T for part in (a, b))
        best = [np.max(part[rows], 0) for part in (first, second)]
        off = max(off, float(np.abs(best[0] - best[1]).max()))
        above = best[0] > 0.25
        total += int(above.sum())
        same += int((above & (best[1] > 0.25)).sum())
    return same / max(1, total), f"{same} of {total} places, scores {off:.3f} off at most"


_KINDS: dict[str, Callable[[Array, Array], float]] = {
    "mask": _mask, "classes": _first, "sequence": _sequence, "equal": _sequence, "direction": _direction,
    "score": _off, "decision": _decision, "peaks": _peaks,
}  # fmt: skip
