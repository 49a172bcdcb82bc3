"""The intermediate form: a graph of operators over named values, as plain as it can be.

The same form goes through all stages up to lowering. `importer` fills it with ONNX operators, `normalise` rewrites them
into the few that `lower` knows, `quantise` gives each value its number format. Constants are arrays by name. Operators
stand in execution order.
"""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from openrknn.compiler.forms import Activation, Conv, Form, shown_fields

Array: TypeAlias = npt.NDArray[Any]
F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True)
class Quantization:
    """`real = (stored - zero_point) * scale`, int8."""

    scale: float
    zero_point: int

    @property
    def low(self) -> float:
        return (-128 - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        return (127 - self.zero_point) * self.scale


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Weights that come quantised: `real = (stored - zero_point) * scale`, per output (first axis)."""

    stored: Array
    scale: Array
    zero_point: Array


@dataclass(slots=True)
class Value:
    """An activation: what flows from operator to operator."""

    name: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None
    """None: fp16 (after the stage `quantise`)."""
    integer: str = ""
    """Integers of this type (int64, int32, bool): truths and indices, which only the CPU touches."""

    @property
    def cube(self) -> tuple[int, int, int]:
        """(channels, height, width) in the NPU's memory; the batch is 1."""
        shape = self.shape
        if len(shape) == 4:
            return shape[1], shape[2], shape[3]
        if len(shape) == 3:
            return shape[1], 1, shape[2]
        if len(shape) == 2:
            return shape[1], 1, 1
        return int(np.prod(shape)), 1, 1


@dataclass(slots=True, eq=False)
class Op:
    """One operator. `inputs` are activations or constants by name, in ONNX order; "" stands for a left-out input."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    """ONNX's, and `reason`: why it is unsupported."""
    fused: tuple[str, ...] = ()
    """Names of the ONNX operators that went into this one."""
    form: Form | None = None
    """What `lower` needs of a normalised operator."""
    origin: str = ""
    """What a convolution comes from that was none in the model."""

    @property
    def output(self) -> str:
        return self.outputs[0]

    @property
    def operator(self) -> str:
        """Its type, or that of the ONNX operator that the CPU does."""
        return str(self.attributes["operator"]) if self.type == "Cpu" else self.type

    @property
    def activation(self) -> Activation | None:
        """The function that it is, or that is fused into it."""
        form = self.form
        return form if isinstance(form, Activation) else form.activation if isinstance(form, Conv) else None

    def get(self, kind: builtins.type[F]) -> F:
        """Its form, which is of this kind."""
        if not isinstance(self.form, kind):
            raise TypeError(f"{self.type} {self.name!r} is no normalised {kind.__name__}")
        return self.form

    def become(self, kind: str, form: Form | None, inputs: list[str] | None = None) -> None:
        """Another operator, which writes the same."""
        self.type, self.form, self.attributes = kind, form, {}
        self.inputs = self.inputs if inputs is None else inputs


@dataclass(slots=True)
class Graph:
    """Operators in execution order, the values between them, and constants."""

    name: str
    inputs: list[str]
    outputs: list[str]
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    derived: dict[str, tuple[str, Callable[[Array], Array]]] = field(default_factory=dict)
    """Values that ONNX does not have: how calibration gets them from another one."""
    addends: dict[str, str] = field(default_factory=dict)
    """Derived values that get another value on top of what is derived."""
    partial: dict[str, str] = field(default_factory=dict)
    """Sums on the way to a value: they have about its range."""
    given: dict[str, Quantization] = field(default_factory=dict)
    """Values whose quantization the model itself states (QuantizeLinear)."""
    floats: set[str] = field(default_factory=set)
    """Values that are fp16 in int8 models too."""
    mixed: dict[str, str] = field(default_factory=dict)
    """Outputs of int8 models that are fp16, and why."""
    logits: set[str] = field(default_factory=set)
    """Values of which a Sigmoid makes scores of the model: 0 decides."""
    scores: set[str] = field(default_factory=set)
    """What that Sigmoid makes: 0.5 decides."""
    stored: dict[str, StoredWeights] = field(default_factory=dict)
    """Constants that the model itself stores as integers."""
    mixes: str = ""
    """Why the first dimension of the inputs is none of items, where it could be one: who mixes them."""
    adapted: dict[str, tuple[Array, StoredWeights]] = field(default_factory=dict)
    """Convolution, by what it writes -> its weights, and how they are rounded in int8."""

    def is_constant(self, name: str) -> bool:
        return name in self.constants

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a value or a constant."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        return self.values[name].shape

    def activations(self, op: Op) -> list[str]:
        """The inputs that are not constants."""
        return [name for name in op.inputs if name and name not in self.constants]

    def producers(self) -> dict[str, Op]:
        return {name: op for op in self.ops for name in op.outputs}

    def producer(self, name: str) -> Op | None:
        """Who makes this one value."""
        return next((op for op in self.ops if name in op.outputs), None)

    def readers(self) -> dict[str, list[Op]]:
        """For each value who reads it; graph outputs are not in it."""
        found: dict[str, list[Op]] = {name: [] for name in self.values}
        for op in self.ops:
            for name in op.inputs:
                if name in found and op not in found[name]:
                    found[name].append(op)
        return found

    def fresh(self, base: str) -> str:
        """A name that nothing has yet."""
        name, number = base, 0
        while name in self.values or name in self.constants:
            number += 1
            name = f"{base}_{number}"
        return name

    def add_constant(self, base: str, array: Array) -> str:
        name = self.fresh(base)
        self.constants[name] = array
        return name

    def add_value(self, base: str, shape: Sequence[int]) -> str:
        name = self.fresh(base)
        self.values[name] = Value(name, tuple(shape))
        return name

    def add_derived(
        self, base: str, shape: Sequence[int], source: str, function: Callable[[Array], Array] = lambda values: values
    ) -> str:
        """A value that ONNX does not have: calibration makes it of another one."""
        name = self.add_value(base, shape)
        self.derived[name] = source, function
        return name

    def add_like(self, base: str, like: str, shape: Sequence[int] | None = None) -> str:
        """A value with the numbers of another one, in its shape or in this one."""
        name = self.fresh(base)
        self.values[name] = replace(self.values[like], name=name, shape=tuple(shape or self.shape(like)))
        return name

    def replace_uses(self, old: str, new: str, readers: Iterable[Op] | None = None) -> None:
        """These operators (all, unless they are named) read another value instead."""
        for op in self.ops if readers is None else readers:
            op.inputs = [new if name == old else name for name in op.inputs]

    def prune(self) -> None:
        """Drop operators whose results are unused, and values and constants that no operator names."""
        needed = set(self.outputs)
        kept: list[Op] = []
        for op in reversed(self.ops):
            if needed.intersection(op.outputs):
                kept.append(op)
                needed.update(op.inputs)
        self.ops = kept[::-1]
        named = needed | set(self.inputs) | {name for op in self.ops for name in op.outputs}
        self.values = {name: value for name, value in self.values.items() if name in named}
        self.constants = {name: array for name, array in self.constants.items() if name in named}

    def sort(self) -> None:
        """Put operators into an order in which everything is computed before it is read; stable."""
        done = {*self.inputs, *self.constants, ""}
        waiting, ordered = list(self.ops), []
        while waiting:
            ready = next((op for op in waiting if all(name in done for name in op.inputs)), None)
            if ready is None:
                raise ValueError(f"operators form a cycle: {', '.join(op.name for op in waiting[:5])}")
            waiting.remove(ready)
            ordered.append(ready)
            done.update(ready.outputs)
        self.ops = ordered

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)


# -- as text: one line per operator, to read and to compare two stages -------------------------------------------

_SHOWN = 8


def format_graph(graph: Graph) -> str:
    """Inputs, operators with their operands and attributes, outputs; ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(graph))


def diff_graphs(before: Graph, after: Graph) -> str:
    """What changed from one stage to the next, as a unified diff; empty if nothing did."""
    return "\n".join(
        difflib.unified_diff(list(_lines(before)), list(_lines(after)), "before", "after", lineterm="", n=1)
    )


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {graph.name}"
    for name in graph.inputs:
        yield f"  input  {_value(graph, name)}"
    for op in graph.ops:
        yield f"  {_op(graph, op)}"
    for name in graph.outputs:
        yield f"  output {_value(graph, name)}"


def _op(graph: Graph, op: Op) -> str:
    results = ", ".join(_value(graph, name) for name in op.outputs)
    operands = ", ".join(_operand(graph, name) for name in op.inputs)
    shown = {**op.attributes, **(shown_fields(op.form) if op.form else {})}
    if op.origin:
        shown["from"] = op.origin
    attributes = "".join(f" {name}={_attribute(value)}" for name, value in sorted(shown.items()))
    return f"{results} = {op.type}({operands}){attributes}"


def _value(graph: Graph, name: str) -> str:
    value = graph.values.get(name)
    if value is None:
        return _operand(graph, name)
    numbers = value.quantization
    kind = f" int8({numbers.scale:.6g}, {numbers.zero_point})" if numbers else ""
    return f"%{name}[{','.join(map(str, value.shape))}]{kind}"


def _operand(graph: Graph, name: str) -> str:
    if name in graph.constants:
        array = graph.constants[name]
        return f"${name}[{','.join(map(str, array.shape))}]"
    return f"%{name}" if name else "_"


def _attribute(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if isinstance(value, Activation):
        parameters = [f"{name}={number}" for name, number in shown_fields(value).items() if name != "function"]
        return value.function + (f"({','.join(parameters)})" if parameters else "")
    if isinstance(value, list | tuple) and len(value) > _SHOWN:
        return f"[{len(value)} entries]"
    return str(list(value)) if isinstance(value, tuple) else str(value)
