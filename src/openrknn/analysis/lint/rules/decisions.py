"""Outputs whose range ends before the point at which a program decides."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, limits_of, place
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.container.model import Operator
from openrknn.container.parts import Tensor

__all__ = ["RULE"]

_DECISION = 0.5 * (1 + 1e-3)
_MAP_RANK = 4
_BOXES = ("reg", "box", "loc", "kps", "landmark")
"""In the names of outputs that are no scores."""
_MOVES = ("Reshape", "Transpose", "Concat", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split")
_NEVER_POSITIVE = ("Log", "Neg", "ReduceMin")
_WHY = "detectors and classifiers take what is above 50 %: this one finds nothing, and no error says so"
_CHANGE = (
    "calibrate with pictures in which the classes appear (some hundred, preprocessed as in training), or keep the last "
    "layers in fp16 (hybrid quantization)"
)


def _check(context: Context) -> Iterator[Finding]:
    for tensor in context.outputs:
        limits = limits_of(tensor)
        if limits is None:
            continue
        sources = list(_sources(context, tensor))
        where = place(sources[0], tensor=tensor) if sources else Where(tensor=tensor.name)
        largest = max(limits)
        if _all_are(sources, "Sigmoid") and largest <= _DECISION:
            yield Finding(
                RULE.code,
                RULE.severity,
                where,
                f"{tensor.name!r} comes from a Sigmoid and can hold {largest:.3g} at most: no score can exceed 50 %",
                _WHY,
                _CHANGE,
            )
        elif largest <= 0 and not any(word in source.type for source in sources for word in _NEVER_POSITIVE):
            yield Finding(
                RULE.code,
                RULE.severity if _is_map(tensor) else Severity.NOTE,
                where,
                f"{tensor.name!r} can hold nothing above {largest:.3g} (its zero point is the largest byte)",
                f"if these are scores before a sigmoid, none can exceed 50 %; {_WHY}",
                _CHANGE,
            )


def _is_map(tensor: Tensor) -> bool:
    """A map of scores, as the heads of detectors are; a row of them is mostly searched for its largest."""
    if any(word in tensor.name.lower() for word in _BOXES):
        return False
    return len(tensor.shape) == _MAP_RANK and tensor.shape[2] * tensor.shape[3] > 1


def _all_are(sources: list[Operator], word: str) -> bool:
    return bool(sources) and all(word in source.type and "Hard" not in source.type for source in sources)


def _sources(context: Context, tensor: Tensor) -> Iterator[Operator]:
    """The operators that compute a tensor, through those that only move data."""
    waiting, seen = [tensor], {tensor.name}
    while waiting:
        maker = context.makers.get(waiting.pop().name)
        if maker is None:
            continue
        if not maker.type.startswith(_MOVES):
            yield maker
            continue
        for source in maker.inputs:
            if source.kind.is_activation and source.name not in seen:
                seen.add(source.name)
                waiting.append(source)


RULE = Rule(
    "cannot-decide",
    Severity.WARNING,
    "an int8 output cannot cross the point at which programs decide",
    "The range of an int8 output follows from its scale and zero point, which calibration chose. With pictures "
    "without objects, a class head gets the zero point 127: it can hold numbers up to 0 only, and the sigmoid of 0 is "
    "50 %.",
    _CHANGE,
    "toolkit 2.5.0 and openrknn compile: a convolution with a bias of -9, with and without a sigmoid behind it",
    _check,
)
