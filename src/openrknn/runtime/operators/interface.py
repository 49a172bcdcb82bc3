"""What an operator for the CPU looks like, and how it reads its inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import UnsupportedError
from openrknn.records import dataclass

Array: TypeAlias = npt.NDArray[Any]
Attributes: TypeAlias = Mapping[str, Any]
Inputs: TypeAlias = Sequence[Array]
"""In ONNX's order; an optional one that is not there is `ABSENT`."""
Shape: TypeAlias = tuple[int, ...]
Compute: TypeAlias = Callable[[Inputs, Attributes, Shape], Array]
"""(inputs in ONNX order, attributes, shape of the output) -> output."""
ComputeAll: TypeAlias = Callable[[Inputs, Attributes, Sequence[Shape]], Sequence[Array]]
"""An operator with several outputs. It returns all of ONNX's; the caller drops those that the model does not use."""

ABSENT: Array = np.empty(0)
"""Stands for an optional input that is not there. ONNX says the same of empty tensors where it matters (Resize)."""
_MOST_ELEMENTS = 2**28
"""What one operator may make on the way; a model that needs more does not fit into a board's memory either."""


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """How to compute one type of operator."""

    compute: Compute
    moves: bool = False
    """Only moves or picks values: works on stored integers as well."""


@dataclass(frozen=True, slots=True)
class SeveralOutputs:
    """How to compute one type of operator that can have several outputs."""

    compute: ComputeAll
    moves: bool = False


def integer(attributes: Attributes, name: str, default: int) -> int:
    """An integer attribute."""
    return int(attributes.get(name, default))


def integers(attributes: Attributes, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of integers."""
    values = attributes.get(name)
    return tuple(int(value) for value in (default if values is None else values))


def number(attributes: Attributes, name: str, default: float) -> float:
    """A real attribute. The file holds 32 bits of it, so the default is rounded as well."""
    return float(np.float32(attributes.get(name, default)))


def numbers(attributes: Attributes, name: str, default: Sequence[float]) -> tuple[float, ...]:
    """A list of reals."""
    values = attributes.get(name)
    return tuple(float(value) for value in (default if values is None else values))


def text(attributes: Attributes, name: str, default: str) -> str:
    """A word; the file has it as text or as bytes."""
    value = attributes.get(name, default)
    return str(value, "utf-8") if isinstance(value, bytes) else str(value)


def optional(inputs: Inputs, index: int) -> Array | None:
    """An input that need not be there."""
    return inputs[index] if index < len(inputs) and inputs[index].size else None


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise UnsupportedError(f"axis {axis} of {rank} dimensions")
    return axis % rank


def axes_of(inputs: Inputs, attributes: Attributes) -> tuple[int, ...] | None:
    """The axes of a reduction: an attribute up to opset 17, a second input later; None means all."""
    if len(inputs) > 1:
        given: Sequence[int] = np.asarray(inputs[1]).reshape(-1).tolist()
    else:
        given = attributes.get("axes") or ()
    return tuple(int(axis) for axis in given) or None


def bounded(*sizes: int) -> int:
    """The product of `sizes`, refused where an array of so many elements must not be made."""
    elements = prod(max(0, int(size)) for size in sizes)
    if elements > _MOST_ELEMENTS:
        raise UnsupportedError(f"it would need {elements} elements of memory")
    return elements


def fitting(made: Sequence[int], wanted: Shape) -> Shape:
    """`made` if it holds as many elements as the output in the file: asked before anything of that size is made."""
    made = tuple(int(size) for size in made)
    if min(made, default=0) < 0 or prod(made) != prod(wanted):
        raise UnsupportedError(f"{list(made)} comes out, where the file has {list(wanted)}")
    return made
