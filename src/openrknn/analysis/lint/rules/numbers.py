"""Constants that are infinite, no numbers, or too large for the results that they go into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity
from openrknn.container.parts import DataType, Kind, Tensor

__all__ = ["RULE"]

_FLOATS: dict[DataType, np.dtype[Any]] = {DataType.FLOAT16: np.dtype("<f2"), DataType.FLOAT32: np.dtype("<f4")}
_KINDS = {Kind.WEIGHT, Kind.CPU_CONSTANT}
_LARGEST = 65504
_CHANGE = (
    f"keep constants within +-{_LARGEST}, the largest number of fp16: a mask of -1e9 works as well with -1e4; for "
    "weights, scale the layer down and the next one up"
)


def _check(context: Context) -> Iterator[Finding]:
    users = {tensor.name: operator for operator in context.operators for tensor in operator.inputs}
    for tensor in context.graph.tensors:
        operator = users.get(tensor.name)
        if operator is None:
            continue  # scratch of the compiler's own is never set to anything
        infinite, large = _count(tensor)
        halves = any(output.dtype is DataType.FLOAT16 for output in operator.outputs)
        if infinite:
            what = f"{infinite} numbers of {tensor.name!r} are infinite or NaN"
        elif large and halves and tensor.kind is Kind.WEIGHT:
            what = f"{large} numbers of {tensor.name!r} are beyond {_LARGEST}, and the result is stored as fp16"
        else:
            continue
        yield Finding(
            RULE.code,
            RULE.severity,
            place(operator, tensor=tensor),
            what,
            "everything that is computed from them becomes infinite or NaN",
            _CHANGE,
        )


def _count(tensor: Tensor) -> tuple[int, int]:
    """How many numbers of a constant are not finite, and how many others fp16 cannot hold."""
    form = _FLOATS.get(tensor.dtype)
    if form is None or tensor.kind not in _KINDS or not tensor.data or tensor.compressed:
        return 0, 0
    numbers = np.frombuffer(tensor.data[: len(tensor.data) // form.itemsize * form.itemsize], form)
    finite = np.isfinite(numbers)
    return int((~finite).sum()), int((np.abs(numbers[finite]) > _LARGEST).sum())


RULE = Rule(
    "not-finite",
    Severity.ERROR,
    "a constant is infinite, not a number, or too large for fp16",
    "The NPU computes in fp16, whose largest number is 65504. A constant of the ONNX model that is larger becomes "
    "infinity when it is stored, and a bias that is larger, which is kept in fp32, makes the result infinite.",
    _CHANGE,
    "toolkit 2.5.0, fp16: Add with a constant of 300000 behind a convolution",
    _check,
)
