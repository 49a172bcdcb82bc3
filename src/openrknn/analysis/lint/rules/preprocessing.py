"""Data that were normalised before they were given to a model that normalises itself."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.io_reports import calibrated_range
from openrknn.analysis.lint.context import Context, Rule
from openrknn.analysis.lint.finding import Finding, Severity, Where

__all__ = ["RULE"]

_PIXEL = 255.0
_SMALL_SHARE = 0.05
_CHANGE = (
    "give the converter pictures as they are (0..255), or say mean 0 and std 1 and normalise outside, in calibration "
    "and at run time alike"
)


def _expected(std: tuple[float, ...]) -> float:
    """The widest range that pixels of 0..255 can have behind mean and std."""
    return max(_PIXEL / abs(value) for value in std if value)


def _check(context: Context) -> Iterator[Finding]:
    graph = context.graph
    for index, norm in zip(graph.inputs, graph.normalizations, strict=False):
        tensor = graph.tensors[index]
        seen = calibrated_range(tensor)
        if seen is None or not any(norm.std) or tensor.quantization is None:
            continue
        channels = max(tensor.shape[1] if len(tensor.shape) > 1 else 1, 1)
        is_identity = all(std == 1 for std in norm.std[:channels]) and not any(norm.mean[:channels])
        share = (seen[1] - seen[0]) / _expected(norm.std[:channels])
        if is_identity or not 0 < share < _SMALL_SHARE:
            continue
        yield Finding(
            RULE.code,
            RULE.severity,
            Where(tensor=tensor.name),
            f"{tensor.name!r} was calibrated on {seen[0]:.3g}..{seen[1]:.3g}, {100 * share:.2g} % of what pixels of "
            "0..255 become behind the mean and std in the file",
            "the calibration data had been normalised already: real pixels saturate, and every answer is wrong",
            _CHANGE,
        )


RULE = Rule(
    "normalised-twice",
    Severity.WARNING,
    "the calibration data were normalised before the model normalised them again",
    "The file holds mean and std, and the range that its input had in calibration. Pixels of 0..255 fill that range; "
    "data of 0..1 fill a 255th of it.",
    _CHANGE,
    "toolkit 2.5.0: mean 0 and std 255 in the configuration, and calibration arrays of 0..1",
    _check,
)
