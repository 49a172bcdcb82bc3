"""What an operator for the CPU looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Attributes", "Compute", "CpuOperator", "axes_of", "integer", "integers"]

Array: TypeAlias = npt.NDArray[Any]
Attributes: TypeAlias = Mapping[str, Any]
Compute: TypeAlias = Callable[[Sequence[Array], Attributes, tuple[int, ...]], Array]
"""(inputs in ONNX order, attributes, shape of the output) -> output."""


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """How to compute one type of operator."""

    compute: Compute
    moves: bool = False
    """Only moves or picks values: works on stored integers as well."""


def integer(attributes: Attributes, name: str, default: int) -> int:
    """An integer attribute."""
    return int(attributes.get(name, default))


def integers(attributes: Attributes, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of integers."""
    values = attributes.get(name)
    return tuple(int(value) for value in (default if values is None else values))


def axes_of(inputs: Sequence[Array], attributes: Attributes) -> tuple[int, ...] | None:
    """The axes of a reduction: an attribute up to opset 17, a second input later; None means all."""
    if len(inputs) > 1:
        given: Sequence[int] = np.asarray(inputs[1]).reshape(-1).tolist()
    else:
        given = attributes.get("axes") or ()
    return tuple(int(axis) for axis in given) or None
