#!/usr/bin/env python3
"""Random graphs of 3 to 12 operators through the compiler and the software NPU: right or refused by name, nothing else.

    .venv/bin/python tools/compiler_graphs.py [--seeds 0:1000] [--form fp16] [--target rk3588] [--keep FOLDER] [--all]
                                              [--workers 16]

A seed is a graph: `--seeds 17` repeats one. What fails is made smaller, printed, and with --keep stored as ONNX. Each
graph is judged as `compile` judges its own result: against ONNX in float, and where that is far off against the float
model rounded like the file. In fp16 it is also measured on inputs of several sizes: below 30 dB without a word of the
compiler is wrong. Exit code 1 if anything is wrong or ends in a traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from openrknn.cachefiles import FileCache

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.compiler_gate.draw import draw
from tools.compiler_gate.judge import BAD, KINDS, Outcome, feed_for, judge_model, reference_of
from tools.compiler_gate.moves import MOVING
from tools.compiler_gate.operators import COMPUTING
from tools.compiler_gate.shrink import shrink

__all__ = ["FORMS", "graph_of", "text_of"]

FORMS = ("fp16", "int8")
SIZES = (0.01, 1.0, 100.0)
"""Deviations of the inputs."""


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


def _judged(model: Any, form: str, target: str, seed: int) -> Outcome:
    return judge_model(model, form, target, seed, sizes=SIZES)


def _fails(model: Any, form: str, target: str, seed: int, like: Outcome) -> bool:
    if reference_of(model, feed_for(model, seed)) is None:
        return False
    return _judged(model, form, target, seed).kind == like.kind


def _report(model: Any, form: str, seed: int, outcome: Outcome, options: argparse.Namespace) -> str:
    small = shrink(model, lambda tried: _fails(tried, form, options.target, seed, outcome))
    found = _judged(small, form, options.target, seed)
    if options.keep:
        folder = Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(small, folder / f"{form}_{options.target}_{seed}.onnx")
    return f"{form} {seed}: {found.kind} {found.text}\n{text_of(small)}"


def _one(seed: int, options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Form, kind and what there is to print, for each form that is asked for."""
    FileCache.is_on = False  # no graph comes twice
    model = graph_of(seed) if options.any else graph_of(seed, lambda part: _is_taken(part, options.target))
    found = []
    for form in (options.form or FORMS) if model is not None else ():
        outcome = _judged(model, form, options.target, seed)
        text = _report(model, form, seed, outcome, options) if outcome.kind in BAD else ""
        if options.all and not text:
            text = f"{form} {seed}: {outcome.kind} {outcome.text}"
        found.append((form, outcome.kind, text))
    return found


def main() -> int:
    """All seeds that are asked for, a text for each thing that should not be, and counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0:300", help="FIRST:LAST, or one")
    parser.add_argument("--form", choices=FORMS, action="append", help="only this form; may be repeated")
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--any", action="store_true", help="operators that the compiler refuses, too")
    parser.add_argument("--keep", metavar="FOLDER", help="store what fails")
    parser.add_argument("--all", action="store_true", help="a line for every graph")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    counts: dict[str, Counter[str]] = {form: Counter() for form in options.form or FORMS}
    with ProcessPoolExecutor(options.workers) as pool:
        for found in pool.map(partial(_one, options=options), seeds):
            for form, kind, text in found:
                counts[form][kind] += 1
                if text:
                    print(text, flush=True)
    for form, counted in counts.items():
        print(form, ", ".join(f"{counted[kind]} {kind}" for kind in KINDS))
    return int(any(counted[kind] for counted in counts.values() for kind in BAD))


if __name__ == "__main__":
    sys.exit(main())
