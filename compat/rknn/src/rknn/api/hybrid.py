"""`hybrid_quantization_step1` and `step2`: three files between them, of which people edit one.

The file `NAME.quantization.cfg` looks like the vendor's: operators that are listed in `custom_quantize_layers` as
float16 become fp16, the rest stays int8. The other two files say what to build, in a form of our own.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openrknn.compiler import Compiled
from openrknn.container import write_atomically

__all__ = ["between", "read_layers", "read_steps", "write_steps"]

_FORMAT = "openrknn hybrid 1"
_LISTED = "custom_quantize_layers:"
_MOST_BYTES = 64 * 1024 * 1024


def write_steps(
    model: str | os.PathLike[str], compiled: Compiled, dataset: str, batch: int | None, layers: Iterable[str]
) -> None:
    """NAME.model, NAME.data and NAME.quantization.cfg in the current folder, as the vendor's toolkit does."""
    stem = Path(model).stem
    facts: dict[str, Any] = {"format": _FORMAT, "onnx": os.path.abspath(model), "batch": batch}
    data = {"format": _FORMAT, "dataset": os.path.abspath(dataset)}
    write_atomically(f"{stem}.model", json.dumps(facts, indent=1).encode())
    write_atomically(f"{stem}.data", json.dumps(data, indent=1).encode())
    write_atomically(f"{stem}.quantization.cfg", _config(compiled, list(layers)).encode())


def between(model: Any, compiled: Compiled, pairs: Any) -> list[str]:
    """custom_hybrid: what lies between two values, [[first, last], ...]; the operators of the compiled graph."""
    known = {entry.name for entry in model.graph.input} | {name for node in model.graph.node for name in node.output}
    chosen: set[str] = set()
    for pair in pairs if isinstance(pairs, list | tuple) else [pairs]:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise ValueError(f"custom_hybrid is a list of pairs of names, [[first, last], ...], not {pairs!r}")
        for name in pair:
            if name not in known:
                close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.3)
                raise ValueError(f"custom_hybrid: the model has no value {name!r}; close to it are {', '.join(close)}")
        nodes = _path(list(model.graph.node), *pair)
        if not nodes:
            raise ValueError(f"custom_hybrid: no operator lies between {pair[0]!r} and {pair[1]!r}")
        chosen.update(*({node.name, *node.output} - {""} for node in nodes))
    graph = compiled.graph
    return [op.output for op in graph.ops if chosen.intersection((op.name, *op.fused, *op.outputs))]


def _path(nodes: list[Any], first: str, last: str) -> list[Any]:
    """Operators that depend on the first value, and that the last one depends on (ONNX keeps them in order)."""
    later, ahead = {first}, []
    for node in nodes:
        if later.intersection(node.input):
            later.update(node.output)
            ahead.append(node)
    earlier, found = {last}, []
    for node in reversed(ahead):
        if earlier.intersection(node.output):
            earlier.update(node.input)
            found.append(node)
    return found


def _config(compiled: Compiled, layers: list[str]) -> str:
    lines = [f"{_LISTED}{'' if layers else ' {}'}"]
    lines += [f"    {_quoted(name)}: float16" for name in layers]
    lines.append("quantize_parameters:")
    for name, value in compiled.graph.values.items():
        if value.quantization is not None:
            scale, zero = value.quantization.scale, value.quantization.zero_point
            lines += [f"    {_quoted(name)}:", "        dtype: int8", f"        scale: [{scale}]"]
            lines.append(f"        zero_point: [{zero}]")
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return name if name.replace("_", "").isalnum() else json.dumps(name)


def read_steps(model: str | os.PathLike[str], data: str | os.PathLike[str]) -> tuple[str, str, int | None]:
    """The ONNX file, the data set and the batch."""
    found = []
    for path in (model, data):
        try:
            entry = json.loads(_text(path))
        except json.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict) or entry.get("format") != _FORMAT:
            raise ValueError(f"{path} was not written by hybrid_quantization_step1 of openrknn; run it first")
        found.append(entry)
    return str(found[0]["onnx"]), str(found[1]["dataset"]), found[0].get("batch")


def read_layers(path: str | os.PathLike[str]) -> list[str]:
    """What `custom_quantize_layers` lists; int8 is the default, and anything but float16 and int8 is refused."""
    layers = []
    is_inside = is_found = False
    for number, line in enumerate(_text(path).splitlines(), start=1):
        text = line.split("#")[0].rstrip()
        if not text.strip():
            continue
        if not text[0].isspace():
            is_inside = text.startswith(_LISTED)
            is_found |= is_inside
            if is_inside and text[len(_LISTED) :].strip() not in {"", "{}"}:
                raise ValueError(f"{path}, line {number}: write one operator per line below {_LISTED}")
            continue
        if not is_inside:
            continue
        name, _, kind = text.strip().rpartition(":")
        if kind.strip() not in {"float16", "int8"} or not name:
            raise ValueError(f"{path}, line {number}: wanted is NAME: float16, not {text.strip()!r}")
        if kind.strip() == "float16":
            layers.append(json.loads(name) if name.startswith('"') else name.strip("'"))
    if not is_found:
        raise ValueError(f"{path} has no {_LISTED}; it is written by hybrid_quantization_step1")
    return layers


def _text(path: str | os.PathLike[str]) -> str:
    if os.path.getsize(path) > _MOST_BYTES:
        raise ValueError(f"{path} is too large for a file of hybrid quantization")
    return Path(path).read_text(encoding="utf-8", errors="replace")
