"""Outputs that join numbers of very different size: boxes in pixels and scores of 0 to 1 in the output of a detector.

One int8 scale for all of them leaves nothing of the small ones. Such an output is fp16, and so is everything between it
and the last convolutions: what these make has a scale of its own each.
"""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.quantise.groups import moves
from openrknn.compiler.quantise.statistics import Statistics

_LEVELS = 255
_FEWEST = 16
"""Steps of the common scale that the smallest part has to have: 4 bits."""
_PICKS = {"Slice", "Pool"}


def free_mixed_outputs(graph: Graph, seen: Mapping[str, Statistics], *, can_mix: bool) -> dict[str, str]:
    """Make them fp16 before there are scales; the outputs with the reason for each."""
    found: dict[str, str] = {}
    if graph.given:  # the model states its scales itself
        return found
    makers = graph.producers()
    for name in graph.outputs:
        parts = _parts(graph, makers, name)
        spans = {part: seen[part].high - seen[part].low for part in parts if part in seen and part not in graph.floats}
        known = {part: span for part, span in spans.items() if span > 0}
        if len(known) < 2:
            continue
        large, small = max(known.values()), min(known.values())
        if small * _LEVELS >= large * _FEWEST:
            continue
        text = f"output {name!r} joins numbers with a range of {large:.4g} and of {small:.4g}"
        if not can_mix:
            names = dict.fromkeys(graph.derived[part][0] if part in graph.derived else part for part in parts)
            raise CalibrationError(
                f"{text}: one int8 scale for all of it leaves nothing of the small ones, and this chip has no fp16 to "
                f"compute it in. Make outputs of its parts: --outputs {','.join(names)} (or --outputs heads for a "
                "detector)"
            )
        found[name] = f"{text}, too different for one int8 scale"
        graph.floats |= _tail(graph, makers, name)
    return found


def _parts(graph: Graph, makers: Mapping[str, Op], name: str) -> list[str]:
    """What is joined in a value, through whatever only moves it."""
    maker = makers.get(name)
    if maker is None or not moves(maker) or maker.type in _PICKS or maker.origin in {"Slice", "Pick"}:
        return [name]
    return [part for source in graph.activations(maker) for part in _parts(graph, makers, source)]


def _tail(graph: Graph, makers: Mapping[str, Op], output: str) -> set[str]:
    """Operators back to the last convolutions; those that read what is fp16 anyway belong to it as well."""
    found: set[str] = set()
    waiting = [output]
    while waiting:
        op = makers.get(waiting.pop())
        if op is None or op.output in found or _is_first(graph, makers, op):
            continue
        found.add(op.output)
        waiting += graph.activations(op)
    return found - graph.floats


def _is_first(graph: Graph, makers: Mapping[str, Op], op: Op) -> bool:
    """Whether the tail begins behind this operator: a convolution of the model, in int8."""
    if op.type != "Conv" or op.origin:
        return op.output in graph.floats
    sources = (_before_convert(makers, name) for name in graph.activations(op))
    return not all(name in graph.floats for name in sources)


def _before_convert(makers: Mapping[str, Op], name: str) -> str:
    maker = makers.get(name)
    return maker.inputs[0] if maker is not None and maker.type == "Convert" else name
