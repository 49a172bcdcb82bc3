"""Rewrites the step for a cache of fixed capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.errors import SequenceError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.moving import Traced
from openrknn.compiler.sequence.net import SHAPE_READERS
from openrknn.compiler.sequence.parts import HANDLERS, Parts
from openrknn.compiler.sequence.tables import Table, token_tables

MASK, CROSS_MASK = "mask", "cross_mask"


@dataclass(frozen=True)
class Step:
    """The new graph and what feeds it."""

    model: Any
    tables: Mapping[str, Table]
    """By input."""
    caches: Mapping[str, str]
    """Input of the capacity -> output of the new row."""
    bound: tuple[str, ...]
    """Inputs that stay for an utterance."""
    axes: Mapping[str, int] = field(default_factory=dict)
    """Of the rows, of caches and bound inputs."""


class _Writer:
    """See `parts.Writer`."""

    def __init__(self, traced: Traced) -> None:
        self.traced, self.net = traced, traced.roles.net
        self.onnx = onnx_package()
        self.values: dict[str, Parts | str] = {}
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.tables: dict[str, Table] = {}
        self._kept: set[str] = set()
        self._same: dict[bytes, str] = {}
        self._count = 0

    # -- the new graph -------------------------------------------------------------------------------------------

    def emit(self, node: Any, inputs: Sequence[str], **changes: Any) -> str:
        self._count += 1
        copy = self.onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = list(inputs)
        copy.output[:] = [f"{node.output[0]}/{self._count}"]
        copy.name = f"{node.name or node.op_type}/{self._count}"
        self.nodes.append(copy)
        return str(copy.output[0])

    def new(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        self._count += 1
        name = f"{kind}/{self._count}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array: Array) -> str:
        key = str(array.dtype).encode() + str(array.shape).encode() + np.ascontiguousarray(array).tobytes()
        if key not in self._same:
            self._same[key] = f"constant/{len(self._same)}"
            made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), self._same[key])
            self.constants[self._same[key]] = made
        return self._same[key]

    def input(self, name: str, shape: Sequence[int]) -> str:
        self.inputs[name] = tuple(shape)
        return name

    def table(self, name: str, table: Table) -> str:
        """An input for it; tables with the same rows are one."""
        for known, other in self.tables.items():
            if _same(table, other):
                if table.shape == other.shape:
                    return known
                return self.new("Reshape", [known, self.constant(np.array(table.shape, np.int64))])
        made = f"row.{table.by}.{sum(other.by == table.by for other in self.tables.values())}"
        self.tables[made] = table
        return self.input(made, table.shape)

    # -- the old graph -------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self.traced.shapes:
            return self.traced.shapes[name]
        if name in self.net.constants:
            return tuple(self.net.constants[name].dims)
        return self.traced.roles.feed(self.traced.capacity, self.traced.frames)[name].shape

    def value(self, name: str) -> Array | None:
        if name in self.net.constants:
            return self.net.array(name)
        moving = self.traced.moving.get(name)
        return moving.values[-1] if moving is not None and moving.is_fixed else None

    def is_always(self, name: str, number: float) -> bool:
        if name in self.net.constants:
            return bool((self.net.array(name) == number).all())
        moving = self.traced.moving.get(name)
        return moving is not None and moving.always(number)

    def plain(self, name: str) -> str:
        if not name:
            return ""
        known = self.values.get(name)
        if isinstance(known, Parts):
            raise SequenceError(f"{name!r} is a past where one row is wanted", operators=[name])
        if known is None:
            known = self.values[name] = self._found(name)
        return known

    def _found(self, name: str) -> str:
        """A value without data: a constant, what is computed of constants, a row of a table."""
        moving = self.traced.moving.get(name)
        if moving is not None:
            if moving.is_fixed:
                return self.constant(moving.values[-1])
            if not moving.is_row:
                raise SequenceError(
                    f"{name!r} depends on how long the past is, and its shape or type lets no table stand for it",
                    operators=[name],
                )
            return self.table(name, Table.of("position", self.shape(name), np.stack(moving.values[:-1])))
        if name in self.net.constants:
            self.constants[name] = self.net.constants[name]
            return name
        if name in self.net.made and name not in self.traced.data:
            self._keep(name)
            return name
        raise SequenceError(f"{name!r} is neither data nor a constant", operators=[name])

    def _keep(self, name: str) -> None:
        """What is computed of constants stays as it is: weights of int8 with their scales."""
        node = self.net.made[name]
        if node.output[0] in self._kept:
            return
        self._kept.add(node.output[0])
        copy = self.onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self.plain(given) for given in node.input]
        self.nodes.append(copy)
        self.values.update({made: made for made in node.output})


def rewritten(traced: Traced) -> Step:
    """All operators that work on data, one after the other."""
    roles, net, out = traced.roles, traced.roles.net, _Writer(traced)
    shapes = roles.feed(traced.capacity, traced.frames)
    mask = out.input(MASK, (1, 1, 1, traced.capacity))
    axes: dict[str, int] = {}
    for cache in roles.caches:
        name = out.input(f"cache.{cache.past}", shapes[cache.past].shape)
        axes[name] = cache.axis
        out.values[cache.past] = Parts((name,), (traced.capacity,), (mask,), cache.axis, shapes[cache.past].shape)
    bound = []
    if roles.bound:
        mask = out.input(CROSS_MASK, (1, 1, 1, traced.frames))
    for one in roles.bound:
        name = out.input(f"cross.{one.name}", shapes[one.name].shape)
        axes[name] = one.axis
        bound.append(name)
        out.values[one.name] = Parts((name,), (traced.frames,), (mask,), one.axis, shapes[one.name].shape)
    for name, table in token_tables(traced).items():
        out.values[name] = out.table(name, table)
    for node in net.nodes:
        wanted = [name for name in node.output if name in traced.data and name not in out.values]
        if wanted and node.op_type not in SHAPE_READERS and not _is_token_only(traced, node, out):
            _write(out, node)
    return _finished(out, traced, axes, tuple(bound))


def _is_token_only(traced: Traced, node: Any, out: _Writer) -> bool:
    """What was put into a table need not be computed; nothing else reads it."""
    given = [name for name in node.input if name in traced.data]
    return any(name not in out.values for name in given)


def _write(out: _Writer, node: Any) -> None:
    operands: list[Parts | str | None] = []
    for name in node.input:
        known = out.values.get(name)
        operands.append(known if isinstance(known, Parts) else name or None)
    if not any(isinstance(one, Parts) for one in operands):
        copy = out.onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [out.plain(name) for name in node.input]
        out.nodes.append(copy)
        out.values.update({name: name for name in node.output if name})
        return
    handler = HANDLERS.get(node.op_type)
    if handler is None or len([name for name in node.output if name]) != 1:
        read = next(name for name in node.input if isinstance(out.values.get(name), Parts))
        raise SequenceError(
            f"{node.op_type} {node.name or node.output[0]!r} reads the past ({read!r}), and how it works on a past in "
            f"two parts is not known; known are {', '.join(sorted(HANDLERS))}", operators=[node.name, node.output[0]],
        )  # fmt: skip
    out.values[node.output[0]] = handler(out, node, operands)


def _finished(out: _Writer, traced: Traced, axes: Mapping[str, int], bound: tuple[str, ...]) -> Step:
    """Named outputs, and only what they need."""
    onnx, roles = out.onnx, traced.roles
    caches, outputs = {}, ["logits"]
    logits = out.values.get(roles.logits)
    if not isinstance(logits, str):
        raise SequenceError(f"output {roles.logits!r} is not computed of one row", operators=[roles.logits])
    if logits != "logits":
        out.nodes.append(onnx.helper.make_node("Identity", [logits], ["logits"], name="logits"))
    for cache in roles.caches:
        made, rows = f"new.{cache.past}", out.plain(cache.new)
        if out.shape(cache.new)[cache.axis] != 1:
            raise SequenceError(f"{cache.new!r} has more than one new row", operators=[cache.new])
        out.nodes.append(onnx.helper.make_node("Identity", [rows], [made], name=made))
        caches[f"cache.{cache.past}"] = made
        outputs.append(made)
    nodes, needed = [], set(outputs)
    for node in reversed(out.nodes):
        if any(name in needed for name in node.output):
            nodes.append(node)
            needed.update(node.input)
    whole = out.net.model
    model = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
    model.graph.name = "step"
    model.graph.node.extend(_without_identities(reversed(nodes), set(outputs)))
    model.graph.initializer.extend(_named(entry, name) for name, entry in out.constants.items() if name in needed)
    kind = onnx.TensorProto.FLOAT
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in out.inputs.items() if name in needed
    )
    shapes = {"logits": out.shape(roles.logits), **{f"new.{c.past}": out.shape(c.new) for c in roles.caches}}
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, kind, shapes[name]) for name in outputs)
    tables = {name: table for name, table in out.tables.items() if name in needed}
    return Step(model, tables, caches, tuple(name for name in bound if name in needed), dict(axes))


def _named(entry: Any, name: str) -> Any:
    """The contents of a Constant have no name of their own."""
    if entry.name == name:
        return entry
    copy = type(entry)()
    copy.CopyFrom(entry)
    copy.name = name
    return copy


def _without_identities(nodes: Any, outputs: set[str]) -> list[Any]:
    """Operators that do nothing are left out; an output that is only a name for a value is made under that name."""
    instead: dict[str, str] = {}
    kept = []
    for node in nodes:
        node.input[:] = [instead.get(name, name) for name in node.input]
        if node.op_type == "Identity" and node.output[0] not in outputs:
            instead[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    return _renamed(kept, outputs)


def _renamed(nodes: list[Any], outputs: set[str]) -> list[Any]:
    """A value that only an output is a name for gets that name."""
    made = {name for node in nodes for name in node.output}
    names: dict[str, str] = {}
    for node in nodes:
        source = node.input[0] if node.input else ""
        if node.op_type == "Identity" and source in made and source not in outputs and source not in names:
            names[source] = node.output[0]
    for node in nodes:
        if node.op_type == "Identity" and names.get(node.input[0]) == node.output[0]:
            continue
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return [node for node in nodes if node.op_type != "Identity" or names.get(node.input[0]) != node.output[0]]


def _same(one: Table, other: Table) -> bool:
    return (
        one.by == other.by and one.zero == other.zero and one.rows.dtype == other.rows.dtype
        and np.array_equal(one.rows, other.rows)
        and (one.scale is other.scale or (one.scale is not None and other.scale is not None
                                          and np.array_equal(one.scale, other.scale)))
    )  # fmt: skip
