"""Stage 4, legalise: a quantised graph becomes one whose every value can be a tensor; all operators stay what they are.

What the chip's memory asks for is added: copies of inputs that tasks cannot read in place, and a Reshape wherever
the model's shape and the NPU's four dimensions meet.
"""

from __future__ import annotations

from typing import NamedTuple

from openrknn.compiler.formats import Format
from openrknn.compiler.ir import Graph
from openrknn.compiler.legalise.inputs import (
    align_inputs,
    copy_input_slices,
    free_pictures,
    pair_surfaces,
    picture_inputs,
)
from openrknn.compiler.legalise.shapes import CPU_SHAPES, ENDS, ONE_ITEM, fit_converts, fit_cpu, fit_ends, takes_plain
from openrknn.compiler.passes import ORDERED, READY, Pass, plain, run_passes
from openrknn.compiler.targets import Target

__all__ = ["PASSES", "Situation", "legalise", "picture_inputs", "takes_plain"]


class Situation(NamedTuple):
    """What passes may ask about besides the graph."""

    form: Format
    """Of the model: inputs that may be pictures depend on it."""
    target: Target


PASSES: tuple[Pass[Situation], ...] = (
    Pass("free_pictures", lambda graph, now: free_pictures(graph, now.form), needs=(READY, ORDERED), gives=(READY,)),
    Pass("align_inputs", lambda graph, now: align_inputs(graph, now.form), lambda now: now.target.aligned_inputs),
    Pass("pair_surfaces", lambda graph, now: pair_surfaces(graph, now.target), lambda now: now.target.pairs_surfaces),
    plain(copy_input_slices),
    plain(fit_converts, gives=(ONE_ITEM,)),
    plain(fit_cpu, gives=(CPU_SHAPES,)),
    plain(fit_ends, needs=(CPU_SHAPES,), gives=(READY, ORDERED, ENDS)),
)
"""In this order."""


def legalise(graph: Graph, form: Format, target: Target) -> None:
    """Rewrite the graph in place."""
    run_passes(PASSES, graph, Situation(form, target))
