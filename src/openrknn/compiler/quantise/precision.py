"""Which operators compute in fp16 while the others stay int8, and the borders between them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from openrknn.compiler.errors import CompileError
from openrknn.compiler.forms import Concat
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.quantise.groups import moves

_PLAIN = {"Cpu", "Reshape"}
"""What reads and writes plain arrays: there is no task between two of them that could convert."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The precision of one operator."""

    operator: str
    output: str
    precision: str
    reason: str
    snr_db: float | None = None
    """Of the worst output if this operator alone is int8; None: not measured."""


def choosable(graph: Graph) -> list[Op]:
    """Operators that compute or read an input; the others move numbers, and follow what they read."""
    return [
        op for op in graph.ops
        if op.type != "Convert" and op.output not in graph.floats
        and (not moves(op) or set(op.inputs).intersection(graph.inputs))
    ]  # fmt: skip


def find_operators(graph: Graph, names: Iterable[str]) -> set[str]:
    """Outputs of the operators that are called so: by their own name, an ONNX operator in them, or what they write."""
    found: set[str] = set()
    for name in names:
        hits = {op.output for op in graph.ops if name in {op.name, *op.fused, *op.outputs}}
        if not hits:
            known = sorted({entry for op in graph.ops for entry in (op.name, *op.fused)})
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known[:3]
            raise CompileError(
                f"there is no operator {name!r} to compute in fp16; close to it are {', '.join(close)}. "
                "`--show-graph` prints all names"
            )
        found |= hits
    return found


def copy_graph(graph: Graph) -> Graph:
    """A graph of its own, with the same constants."""
    return replace(
        graph, inputs=list(graph.inputs), outputs=list(graph.outputs), constants=dict(graph.constants),
        values={name: replace(value) for name, value in graph.values.items()},
        ops=[replace(op, inputs=list(op.inputs), outputs=list(op.outputs), attributes=dict(op.attributes))
             for op in graph.ops],
    )  # fmt: skip


def set_precision(graph: Graph, chosen: Collection[str]) -> dict[str, str]:
    """Make the operators that write `chosen` fp16 in a quantised graph, with a Convert wherever formats meet.

    Returns why, for each fp16 operator by its output.
    """
    _drop_borders(graph, chosen)
    reasons = _spread(graph, chosen)
    made = graph.producers()
    makers = {name: op.output for op in graph.ops for name in op.outputs}
    for name in list(graph.values):
        if graph.values[name].integer:  # indices and truths have one format everywhere
            graph.values[name].quantization = None
            continue
        users = [op for op in graph.ops if name in op.inputs]
        in_fp16 = [op for op in users if op.output in reasons]
        if name in made:
            is_float = makers[name] in reasons
        else:  # operators that are fp16 in every model do not change what it takes
            is_float = bool(users) and len(in_fp16) == len(users) and not any(op.output in graph.floats for op in users)
        others = [op for op in users if op not in in_fp16 and op.type != "Convert"] if is_float else in_fp16
        if others:
            _convert(graph, name, others, to_float=not is_float)
        if is_float:
            graph.values[name].quantization = None
    _skip_borders(graph)
    for op in graph.ops:
        if isinstance(op.form, Concat) and op.output in reasons and op.form.atom:
            _close_gaps(graph, op)
    graph.sort()
    return reasons


def _close_gaps(graph: Graph, op: Op) -> None:
    """Room for whole atoms of int8 is two atoms of fp16 and more: what no part fills would be read as it happens to be.

    A NaN there survives the weights of 0 that it meets.
    """
    form = op.get(Concat)
    atom = form.atom // 2
    counts = [graph.shape(name)[1] for name in op.inputs]
    starts = [0, *(int(start) for start in np.cumsum([-(-count // atom) * atom for count in counts[:-1]]))]
    value = graph.values[op.output]
    for reader in [entry for entry in graph.ops if op.output in entry.inputs]:
        weight = graph.constants[reader.inputs[1]]
        packed = np.zeros((weight.shape[0], starts[-1] + counts[-1], *weight.shape[2:]), weight.dtype)
        for old, new, count in zip(form.starts, starts, counts, strict=True):
            packed[:, new : new + count] = weight[:, old : old + count]
        reader.inputs[1] = graph.add_constant(f"{reader.output}_picks", packed)
    op.form = Concat(tuple(starts))
    graph.values[op.output] = replace(value, shape=(value.shape[0], starts[-1] + counts[-1], *value.shape[2:]))


def _skip_borders(graph: Graph) -> None:
    """fp16, int8, fp16 again: who reads the last reads the first, and nothing is rounded to 8 bits on the way."""
    makers = graph.producers()
    for op in [entry for entry in graph.ops if entry.type == "Convert"]:
        before = makers.get(op.inputs[0])
        if before is None or before.type != "Convert" or op.output in graph.outputs:
            continue
        first = before.inputs[0]
        is_back = graph.values[op.output].quantization is None and graph.values[op.inputs[0]].quantization is not None
        if not is_back or graph.values[first].quantization is not None or graph.shape(first) != graph.shape(op.output):
            continue
        graph.replace_uses(op.output, first)
        graph.ops.remove(op)
        if before.output not in graph.outputs and not any(before.output in other.inputs for other in graph.ops):
            graph.ops.remove(before)


def _drop_borders(graph: Graph, chosen: Collection[str]) -> None:
    """Borders that were there already go where what comes after them is fp16 too."""
    for op in [entry for entry in graph.ops if entry.type == "Convert" and entry.output in chosen]:
        kept, dropped = op.inputs[0], op.output
        if dropped in graph.outputs:  # its name stays: what is before the border writes it
            maker = graph.producer(kept)
            if maker is None or kept in graph.outputs:
                continue
            kept, dropped = dropped, kept
            maker.outputs = [kept if name == dropped else name for name in maker.outputs]
        graph.replace_uses(dropped, kept)
        graph.ops.remove(op)
        del graph.values[dropped]


def _spread(graph: Graph, chosen: Collection[str]) -> dict[str, str]:
    """What is moved is moved in the format that it has; what only the CPU touches has one format."""
    reasons = {op.output: "chosen" for op in graph.ops if op.output in chosen}
    makers = graph.producers()
    before = -1
    while before != len(reasons):
        before = len(reasons)
        for op in graph.ops:
            sources = [makers[name] for name in graph.activations(op) if name in makers]
            if op.output not in reasons and moves(op) and any(source.output in reasons for source in sources):
                reasons[op.output] = "moves fp16 numbers"
            for source in sources:
                if op.type in _PLAIN and source.type in _PLAIN and (op.output in reasons) != (source.output in reasons):
                    reasons.setdefault(op.output, "beside fp16 on the CPU")
                    reasons.setdefault(source.output, "beside fp16 on the CPU")
        for name in graph.inputs:
            users = [op for op in graph.ops if name in op.inputs]
            in_fp16 = [op for op in users if op.output in reasons and op.output not in graph.floats]
            if any(op.type in _PLAIN for op in users) and in_fp16:
                for op in users:
                    reasons.setdefault(op.output, "beside fp16 on the CPU")
    return reasons


def _convert(graph: Graph, name: str, users: list[Op], *, to_float: bool) -> None:
    value = graph.values[name]
    made = graph.add_value(f"{name}_{'fp16' if to_float else 'int8'}", value.shape)
    graph.values[made].quantization = None if to_float else value.quantization
    graph.replace_uses(name, made, users)
    at = next((number + 1 for number, op in enumerate(graph.ops) if name in op.outputs), 0)
    graph.ops.insert(at, Op("Convert", made, [name], [made]))
