"""Rows that a step looks up instead of computing them: by token (embeddings), or by position (cosines, biases)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.compiler.errors import SequenceError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.moving import Traced
from openrknn.compiler.sequence.net import SHAPE_READERS

_MOST_TOKENS = 1 << 20
_CHEAP = frozenset((
    "Gather", "DequantizeLinear", "Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Mul",
    "Div", "Add", "Sub", "Clip",
))  # fmt: skip
"""What goes into a table: the look-up, and what only scales or moves it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by token or by position; the step has an input of the row's shape."""

    by: str
    """ "token" or "position"."""
    shape: tuple[int, ...]
    """Of the input."""
    rows: Array
    """[rows, numbers]: floats, or int8 with `scale`."""
    scale: Array | None = None
    """Of int8: one number, or one for each column."""
    zero: int = 0

    def row(self, number: int) -> Array:
        """As floats, in the input's shape."""
        found: Array = self.rows[number].astype(np.float32)
        if self.scale is not None:
            found = (found - self.zero) * self.scale
        return found.reshape(self.shape)

    @classmethod
    def of(cls, by: str, shape: tuple[int, ...], rows: Array) -> Table:
        """Of floats."""
        if np.abs(rows).max(initial=0) > np.finfo(np.float16).max:
            raise SequenceError(f"a table by {by} has numbers that no half float holds")
        return cls(by, shape, np.ascontiguousarray(rows.reshape(len(rows), -1), np.float32))


def token_tables(traced: Traced) -> dict[str, Table]:
    """Values that depend on the token id and on nothing else, where something else meets them."""
    net, ids = traced.roles.net, traced.roles.ids
    alone = {ids}
    for node in net.nodes:
        if node.op_type not in _CHEAP or not any(name in alone for name in node.input):
            continue
        others = [name for name in node.input if name and name not in alone]
        if all(name not in traced.data and (name not in traced.moving or traced.moving[name].is_fixed)
               for name in others):  # fmt: skip
            alone.update(name for name in node.output if name)
    met = [
        name for node in net.nodes if any(made in traced.data and made not in alone for made in node.output)
        for name in node.input if name in alone and node.op_type not in SHAPE_READERS
    ]  # fmt: skip
    met = list(dict.fromkeys(met))
    if ids in met:
        raise SequenceError(f"input {ids!r} is read by more than look-ups of constant rows", operators=[ids])
    if not met:
        raise SequenceError(f"nothing reads the input {ids!r}, or everything does", operators=[ids])
    found: dict[str, Table] = {}
    rest = []
    for name in met:
        stored = _stored(traced, name)
        if stored is None:
            rest.append(name)
        else:
            found[name] = stored
    if rest:
        found.update(_evaluated(traced, rest, _tokens(traced, alone)))
    return found


def _tokens(traced: Traced, alone: set[str]) -> int:
    """How many there are: the rows of what is looked up first."""
    net = traced.roles.net
    for node in net.nodes:
        if node.op_type == "Gather" and node.input[1] in alone and node.input[0] not in alone:
            name = node.input[0]
            shape = tuple(net.constants[name].dims) if name in net.constants else traced.shapes[name]
            if shape and shape[0] <= _MOST_TOKENS:
                return int(shape[0])
    raise SequenceError(f"the token ids ({traced.roles.ids!r}) are not looked up in a table (Gather)",
                        operators=[traced.roles.ids])  # fmt: skip


def _stored(traced: Traced, name: str) -> Table | None:
    """Rows of int8 with their scale stay as they are: half the size."""
    net = traced.roles.net
    node = net.made[name]
    look = net.made.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
    if look is None or look.op_type != "Gather" or look.input[0] not in net.constants:
        return None
    if any(entry.name == "axis" and entry.i for entry in look.attribute):
        return None
    if any(given not in net.constants for given in node.input[1:] if given):
        return None
    rows, scale = net.array(look.input[0]), net.array(node.input[1]).astype(np.float32).reshape(-1)
    zero = net.array(node.input[2]).reshape(-1) if len(node.input) > 2 and node.input[2] else np.zeros(1, np.int8)
    if (
        rows.ndim != 2
        or rows.dtype not in (np.int8, np.uint8)
        or scale.size not in (1, rows.shape[1])
        or zero.min() != zero.max()
    ):
        return None
    shape = traced.shapes[name]
    if scale.size > 1 and _axis(node) % len(shape) != len(shape) - 1:
        return None
    return Table("token", shape, rows, scale, int(zero[0]))


def _axis(node: Any) -> int:
    return next((int(entry.i) for entry in node.attribute if entry.name == "axis"), 1)


def _evaluated(traced: Traced, names: list[str], tokens: int) -> Mapping[str, Table]:
    """One token after the other."""
    roles = traced.roles
    fixed = {name: moving.values[-1] for name, moving in traced.moving.items() if moving.is_fixed}
    part = roles.net.part(names, fixed)
    fed = {entry.name for entry in part.graph.input}
    one = {name: value for name, value in roles.feed(traced.capacity, traced.frames).items() if name in fed}
    model = FloatModel(part, names)

    def run(ids: Array) -> dict[str, Array]:
        return {name: np.asarray(value) for name, value in model.run({**one, roles.ids: ids}) if name in names}

    kind, rank = one[roles.ids].dtype, one[roles.ids].ndim
    rows: dict[str, list[Array]] = {name: [] for name in names}
    for token in range(tokens):
        found = run(np.full([1] * rank, token, kind))
        for name in names:
            rows[name].append(found[name].reshape(-1))
    tables = {}
    for name in names:
        if rows[name][0].dtype.kind != "f":
            raise SequenceError(
                f"{name!r} depends on the token and is no float: it cannot be a table", operators=[name]
            )
        tables[name] = Table.of("token", traced.shapes[name], np.stack(rows[name]))
    return tables
