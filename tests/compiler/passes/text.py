"""Graphs as text, in and out: cases of passes are written as people read them.

A case begins with `=== PASS OPTIONS: what it does`, then the graph, `---`, and the graph behind the pass. Lines of a
graph are those of `openrknn compile --explain`: `input %x[1,8,4,4]`, `%y[1,8,4,4] = Relu(%x)`, `output %y`; behind a
constant stands what is in it (`$k[2]=3,4`; `$k[2]i=3,4` are integers), or it counts 1, 2, 3, ...; `=flip`
reverses the channels. Options: `int8` or `fp16`, a chip, `atom=N`,
`volume=N`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.compiler.forms import FORMS, Activation, Form
from openrknn.compiler.ir import Graph, Op, Quantization, Value, format_graph

__all__ = ["Case", "cases_of", "notes_of", "parse_graph", "show_graph"]

_HEAD = re.compile(r"=== (\w+)([^:]*): (.*)")
_VALUE = re.compile(r"%([\w.]+)\[([\d,]*)\](?: int8\(([-\d.e]+), ?(-?\d+)\))?(?: (int64|bool))?")
_CONSTANT = re.compile(r"\$([\w.]+)\[([\d,]*)\](i8|i)?(?:=(\S+))?")
_SHOWN = 16
NOTES = ("range", "error", "reach", "chosen")
"""Words of lines that are no part of the graph: `notes_of` reads them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One graph, what is done with it, and what comes out."""

    path: Path
    name: str
    options: tuple[str, ...]
    title: str
    before: str
    after: str


def cases_of(path: Path) -> Iterator[Case]:
    """In the order of the file."""
    for text in path.read_text().split("\n\n"):
        head, _, rest = text.strip().partition("\n")
        if not head or head.startswith("#"):
            continue
        found = _HEAD.fullmatch(head)
        assert found, f"{path.name}: {head!r} is no head of a case"
        before, _, after = f"{rest}\n".partition("---\n")
        yield Case(path, found[1], tuple(found[2].split()), found[3], before, after.strip())


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size)


def parse_graph(text: str) -> Graph:
    """The graph of these lines."""
    graph = Graph("case", [], [])
    for line in text.splitlines():
        words = line.split("#")[0].strip()
        if words.startswith("input "):
            graph.inputs.append(_value(graph, words.removeprefix("input ").strip()))
        elif words.startswith("output "):
            graph.outputs.append(words.removeprefix("output ").strip().lstrip("%").partition("[")[0])
        elif words and words.split()[0] not in NOTES:
            _operator(graph, words)
    return graph


def notes_of(text: str, word: str) -> dict[str, tuple[float, ...]]:
    """Value -> the numbers behind it, of all lines that begin with the word."""
    lines = [line.split() for line in text.splitlines()]
    return {line[1]: tuple(float(one) for one in line[2:]) for line in lines if line and line[0] == word}


def _value(graph: Graph, text: str) -> str:
    found = _VALUE.fullmatch(text)
    assert found, f"{text!r} is no value with its shape"
    numbers = Quantization(float(found[3]), int(found[4])) if found[3] else None
    graph.values[found[1]] = Value(found[1], _shape(found[2]), numbers, found[5] or "")
    return found[1]


def _operator(graph: Graph, line: str) -> None:
    found = re.fullmatch(r"(.+?) = ([\w.]+)\((.*?)\)((?: [\w]+=.*)?)", line)
    assert found, f"{line!r} is no operator"
    outputs = [_value(graph, entry) for entry in re.split(r", (?=%)", found[1])]
    inputs = [_operand(graph, entry) for entry in found[3].split(", ") if entry]
    attributes = {
        name: _literal(value) for name, value in re.findall(r" (\w+)=((?:\[.*?\]|\(.*?\)|[^ ])+)", found[4])
    }
    origin = attributes.pop("from", "")
    form = _form(found[2], attributes)
    graph.ops.append(Op(found[2], outputs[0], inputs, outputs, {} if form else attributes, (), form, origin))


def _form(kind: str, attributes: dict[str, Any]) -> Form | None:
    """A normalised operator's; None if what only that has is not among the attributes."""
    made = FORMS.get(kind)
    if made is None or any(entry.default is MISSING and entry.name not in attributes for entry in fields(made)):
        return None
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    function = given.get("activation")
    form: Form = made(**given if function is None else {**given, "activation": Activation(str(function))})
    return form


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _operand(graph: Graph, text: str) -> str:
    if text == "_":
        return ""
    if text.startswith("%"):
        return text[1:]
    found = _CONSTANT.fullmatch(text)
    assert found, f"{text!r} is neither a value nor a constant"
    shape, kind = _shape(found[2]), {"i8": np.int8, "i": np.int64}.get(found[3], np.float32)
    if found[4] == "flip":
        graph.constants[found[1]] = np.eye(shape[0], dtype=kind)[::-1].reshape(shape).copy()
        return found[1]
    numbers = [float(one) for one in found[4].split(",")] if found[4] else np.arange(1, np.prod(shape) + 1)
    array = np.asarray(numbers, kind)
    graph.constants[found[1]] = np.broadcast_to(array.reshape(shape if array.size > 1 else ()), shape).copy()
    return found[1]


def show_graph(graph: Graph) -> str:
    """Its lines, with what is in small constants."""
    lines = [line.strip() for line in format_graph(graph).splitlines()[1:]]
    read = dict.fromkeys(name for op in graph.ops for name in op.inputs)
    for name in read:
        array = graph.constants.get(name)
        if array is not None and array.size <= _SHOWN:
            numbers = " ".join(f"{float(one):.4g}" for one in array.reshape(-1))
            lines.append(f"${name} = {numbers}")
    lines += [f"{name} is float" for name in sorted(graph.floats)]
    lines += [f"{name} is given {one.scale:.6g} {one.zero_point}" for name, one in sorted(graph.given.items())]
    return "\n".join(lines)
