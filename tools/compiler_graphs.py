#!/usr/bin/env python3
"""Random graphs of 3 to 12 operators through the compiler and the software NPU: right or refused by name, nothing else.

    .venv/bin/python tools/compiler_graphs.py [--seeds 0:1000] [--form fp16] [--target rk3588] [--keep FOLDER] [--all]

A seed is a graph: `--seeds 17` repeats one. What fails is made smaller, printed, and with --keep stored as ONNX. Each
graph is judged as `compile` judges its own result: against ONNX in float, and where that is far off against the float
model rounded like the file. Exit code 1 if anything is wrong or ends in a traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.compiler_gate.draw import draw
from tools.compiler_gate.judge import KINDS, Outcome, feed_for, judge_model, reference_of
from tools.compiler_gate.moves import MOVING
from tools.compiler_gate.operators import COMPUTING
from tools.compiler_gate.shrink import shrink

__all__ = ["FORMS", "graph_of", "text_of"]

FORMS = ("fp16", "int8")


def _is_taken(model: Any, target: str) -> bool:
    """Whether the compiler takes these operators alone: a graph with one that it does not would tell nothing."""
    return judge_model(model, "int8", target, runs=False).kind != "refused"


def graph_of(seed: int, accepts: Callable[[Any], bool] = lambda model: True) -> Any:
    """The graph of a seed; None where its numbers are beyond fp16, or ONNX Runtime does not take it."""
    model = draw(seed, (*COMPUTING, *MOVING), accepts)
    if not model.graph.node or not model.graph.input or reference_of(model, feed_for(model, seed)) is None:
        return None
    return model


def text_of(model: Any) -> str:
    """A line for each operator."""
    typed = onnx.shape_inference.infer_shapes(model)
    shapes = {
        entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        for entry in (*typed.graph.value_info, *typed.graph.output, *typed.graph.input)
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    lines = []
    for node in model.graph.node:
        given = ", ".join(f"{name}{shapes.get(name, '')}" for name in node.input)
        made = ", ".join(f"{name}{shapes.get(name, '')}" for name in node.output)
        attributes = " ".join(f"{entry.name}={onnx.helper.get_attribute_value(entry)}" for entry in node.attribute)
        lines.append(f"    {made} = {node.op_type}({given}) {attributes}")
    return "\n".join(lines)


def _fails(model: Any, form: str, target: str, seed: int, like: Outcome) -> bool:
    if reference_of(model, feed_for(model, seed)) is None:
        return False
    return judge_model(model, form, target, seed).kind == like.kind


def _report(model: Any, form: str, seed: int, outcome: Outcome, options: argparse.Namespace) -> None:
    small = shrink(model, lambda tried: _fails(tried, form, options.target, seed, outcome))
    found = judge_model(small, form, options.target, seed)
    print(f"{form} {seed}: {found.kind} {found.text}\n{text_of(small)}", flush=True)
    if options.keep:
        folder = Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(small, folder / f"{form}_{options.target}_{seed}.onnx")


def main() -> int:
    """All seeds that are asked for, a text for each thing that should not be, and counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0:300", help="FIRST:LAST, or one")
    parser.add_argument("--form", choices=FORMS, action="append", help="only this form; may be repeated")
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--any", action="store_true", help="operators that the compiler refuses, too")
    parser.add_argument("--keep", metavar="FOLDER", help="store what fails")
    parser.add_argument("--all", action="store_true", help="a line for every graph")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    counts: dict[str, Counter[str]] = {form: Counter() for form in options.form or FORMS}
    for seed in range(int(first), int(last or int(first) + 1)):
        model = graph_of(seed) if options.any else graph_of(seed, lambda part: _is_taken(part, options.target))
        if model is None:
            continue
        for form, counted in counts.items():
            outcome = judge_model(model, form, options.target, seed)
            counted[outcome.kind] += 1
            if outcome.kind in {"wrong", "traceback"}:
                _report(model, form, seed, outcome, options)
            elif options.all:
                print(f"{form} {seed}: {outcome.kind} {outcome.text}", flush=True)
    for form, counted in counts.items():
        print(form, ", ".join(f"{counted[kind]} {kind}" for kind in KINDS))
    return int(any(counted["wrong"] + counted["traceback"] for counted in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
