"""What a user should know about the model that was made: data that look wrong, outputs that lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from openrknn.compiler.ir import Graph
from openrknn.compiler.operators import IDENTITIES, QUANTISERS, VIEWS
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.result import Compiled
from openrknn.onnxgraph import makers_of

_FEW = 8
_UNEVEN = 32.0
"""Parts of one output: below 1/32 of the largest, fewer than 8 steps of int8 are left."""
_NORMALISED = 16.0
"""Pixels reach further than that; normalised numbers do not."""
_MOVING = VIEWS | IDENTITIES | QUANTISERS | {"Transpose"}


def advice(compiled: Compiled) -> list[str]:
    """Short sentences; none for a model that nothing is to be said about."""
    variant = compiled.variants[0]
    seen = variant.lowering.statistics
    if not seen or compiled.format_name == "fp16":
        return []
    mixed = variant.graph.mixed
    return [
        *_about_data(compiled, seen),
        *(f"{why}: it is fp16, as is everything behind the last convolutions" for why in mixed.values()),
        *_about_outputs(variant.source, [name for name in variant.graph.outputs if name not in mixed], seen),
        *_about_scores(variant.graph, seen),
        *_about_precision(compiled),
    ]


def _about_scores(graph: Graph, seen: Mapping[str, Statistics]) -> Iterator[str]:
    for name in graph.outputs:
        limit = 0.0 if name in graph.logits else 0.5 if name in graph.scores else None
        if limit is not None and name in seen and seen[name].high < limit:
            yield (
                f"no score in output {name!r} reached 50 % in calibration: its range was widened so that scores can in "
                "use; calibrate with data that show what the model looks for"
            )


def _about_precision(compiled: Compiled) -> Iterator[str]:
    mixed, plain = compiled.costs[1].cycles if compiled.costs else 0, compiled.fp16_cycles
    if plain is not None and plain <= mixed:
        yield (
            f"everything in fp16 takes {plain / 1e6:.2f} M cycles, this mixture {mixed / 1e6:.2f} M: compile it "
            "without calibration data (fp16), or ask for fewer decibels (--min-snr)"
        )


def _about_data(compiled: Compiled, seen: Mapping[str, Statistics]) -> Iterator[str]:
    inputs = [name for name in compiled.variants[0].graph.inputs if name in seen]
    count = min((seen[name].count for name in inputs), default=_FEW)
    if count < _FEW:
        amount = "1 calibration input" if count == 1 else f"{count} calibration inputs"
        yield f"{amount}: ranges of 20 to 200 different ones, as in real use, hold better"
    for name in inputs:
        low, high = seen[name].low, seen[name].high
        if low == high:
            yield f"calibration input {name!r} is {low:g} everywhere: is it the right data?"
            continue
        means, stds = compiled.preprocess.pairs[name]
        is_raw = means == (0.0,) * len(means) and stds == (1.0,) * len(stds)
        raw_low = min(low * std + mean for mean in means for std in stds)
        raw_high = max(high * std + mean for mean in means for std in stds)
        if not is_raw and max(stds) > 1 and max(abs(raw_low), abs(raw_high)) < _NORMALISED:
            yield (
                f"calibration input {name!r} was between {raw_low:.3g} and {raw_high:.3g} before mean and std: "
                "they want raw pixels (0 to 255); are the data normalised already?"
            )


def _about_outputs(source: Any, outputs: list[str], seen: Mapping[str, Statistics]) -> Iterator[str]:
    makers = makers_of(source.graph.node)
    for output in outputs:
        node = makers.get(output)
        while node is not None and node.op_type in _MOVING:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Concat":
            continue
        reach = {part: _reach(part, makers, seen) for part in node.input}
        known = {part: size for part, size in reach.items() if size}
        if len(known) < 2 or max(known.values()) < _UNEVEN * min(known.values()):
            continue
        large, small = (choose(known, key=lambda part: known[part]) for choose in (max, min))
        steps = int(255 * known[small] / known[large])
        yield (
            f"output {output!r} joins {large!r} (up to {known[large]:.3g}) and {small!r} (up to {known[small]:.3g}) "
            f"with one int8 scale, which leaves the latter {steps} steps: --split-outputs gives each its own scale, "
            f"--fp16-layers {node.name or node.output[0]} an fp16 output"
        )


def _reach(name: str, makers: Mapping[str, Any], seen: Mapping[str, Statistics]) -> float:
    """The largest number of a value; 0: not known."""
    while name not in seen and name in makers and makers[name].op_type in _MOVING:
        name = makers[name].input[0]
    entry = seen.get(name)
    return float(np.maximum(abs(entry.low), abs(entry.high))) if entry is not None else 0.0
