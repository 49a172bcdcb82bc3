"""The columns of the operator table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy.typing as npt

from openrknn.compiler.ir import Array


class Family(Enum):
    """What an operator does with its numbers; the shape of its result follows from it for the first six."""

    UNARY = "function of one number"
    BROADCAST = "function of several numbers, operands repeated to one shape"
    IDENTITY = "nothing"
    CAST = "another number type"
    VIEW = "the same numbers in the same order, another shape"
    MOVE = "numbers of its operands, and no others, at other places"
    FILL = "numbers of its operands and constants, at other places"
    REDUCTION = "one number for each line"
    NORM = "lines to lines"
    WINDOW = "one number for each window"
    PRODUCT = "sums of products"
    RECURRENT = "steps, one after the other"
    QUANTISER = "real numbers to stored ones and back"
    RANDOM = "numbers drawn by chance"
    CONTROL = "graphs inside"
    CONSTANT = "made of shapes and constants"
    OTHER = "none of these"


class Npu(Enum):
    """How the compiler brings an operator to the NPU."""

    TASK = "a pass of `normalise` makes an operator of it that `lower` has"
    FUNCTION = "an Activation: the DPU's own, or a lookup table"
    WRITTEN = "the importer writes it with other operators"
    FREE = "no task where memory stays as it is"


class Rows(Enum):
    """What an operator makes of the axis that carries rows (items of a batch, tokens) which do not see each other."""

    APART = "every number by itself"
    BROADCAST = "counted from the last dimension"
    ITEMS = "rows are the first dimension"
    ALONG = "works along one axis, which must not be that of the rows"
    FIRST = "kept where they are the first dimension"
    PICKED = "picked from a table"
    MATMUL = "rows of the first operand"
    GEMM = "rows of the first operand, not transposed"
    TURNED = "where the permutation puts them"
    LAST = "works along the last axes, from `axis` on"


class Inline(Enum):
    """When ONNX's own definition takes the operator's place."""

    ALWAYS = "always"
    COMPUTED = "where operands other than the first are computed"


class Writer(Protocol):
    """How an operator is written with others: one node after the other, the last one `to` the operator's output."""

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str: ...

    def new(self, array: npt.ArrayLike, dtype: Any = ...) -> str: ...


Write = Callable[[Writer, Any], None]
Formula = Callable[[Array, Mapping[str, Any]], Array]


@dataclass(frozen=True, slots=True)
class NpuFunction:
    """A function of the DPU."""

    name: str
    formula: Formula | None = None
    """None: the DPU has it without a table."""
    reach: float = math.inf
    """How far a table ever has to reach: beyond that the function is a straight line."""
    parameters: tuple[tuple[str, float], ...] = ()
    """Attributes of the operator with their defaults."""
    gate: tuple[str, ...] = ()
    """Where exporters write it as x * f(g(x)): the operators f, g."""
    fused: str = "Lut"
    """What the name of an operator in a file ends in where the function is part of it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One ONNX operator. Its opsets are in the package onnx, its CPU function in `openrknn.runtime.operators`."""

    name: str
    family: Family
    npu: Npu | None = None
    """None: it never becomes a task, whatever its shape."""
    cpu: bool = False
    """Left to the CPU where no recipe of the NPU fits, of any shape and with constants.

    The vendor's converter 2.5.0 leaves all of these to the CPU, so its runtimes 2.x have them; 1.5.2 has a part of
    them, and refuses a file with the others. Not: what 1.5.2 computes wrong (Tanh, LogSoftmax, Max with a constant,
    Conv, GRU), and what has many products: that is the NPU's work.
    """
    rows: Rows | None = None
    axis: int | None = None
    """`Rows.ALONG`: the axis that it works along where none is given."""
    adjoint: str = ""
    """The rule of `quantise.backward`; empty: there is none."""
    function: NpuFunction | None = None
    write: Write | None = None
    """How the importer writes it with others, where that needs nothing but its attributes."""
    inline: Inline | None = None
    has_kernel: bool = False
    """Has the attributes of a window: kernel_shape, strides, dilations, pads."""
    counts_depend: bool = False
    """How many numbers come out depends on the numbers that go in."""
    picks: bool = False
    """A number may come out more than once."""
    hint: str = ""
    """Why it may be refused, or what to do about it, for operators that people meet."""
