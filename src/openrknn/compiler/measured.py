"""Whether weights that were rounded to fit the calibration data are kept: measured on the software NPU.

Convolution by convolution the rounding was confirmed by inputs that it had not seen (`quantise.rounding`). What a
shallow model makes of it as a whole is measured, because a few steps at its end decide: on DNSMOS each layer's error
gets smaller and the scores get worse. Deep models are not measured: it takes longer, and what layers lose averages out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openrknn.compiler.calibration import Preprocess
from openrknn.compiler.errors import CompileError
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.precision import copy_graph, set_precision
from openrknn.compiler.quantise.rounding import work_of
from openrknn.container.model import Model

_DEEP = 32
"""Convolutions of a model that is not measured any more."""
_RUNS = 3_000_000_000
"""Multiplications of the runs of one candidate."""
_FEWEST = 4
"""Inputs: fewer tell nothing. Those that the rounding has seen are taken too: four others alone chose worse."""


def is_rounding_better(
    graph: Graph, source: object, feeds: Sequence[Mapping[str, Array]], preprocess: Preprocess,
    build: Callable[[Graph], Model],
) -> bool | None:  # fmt: skip
    """Whether the worst output is no further from float with adaptive rounding; None: too much work to know."""
    count = _RUNS // max(work_of(graph), 1)
    if not feeds or count < _FEWEST or len(graph.adapted) > _DEEP:
        return None
    from openrknn.compiler.mixed import Judge

    chosen = feeds[-count:]
    raw = [{name: preprocess.undo(name, array) for name, array in feed.items()} for feed in chosen]
    try:
        judge = Judge(source, graph.outputs, chosen, raw)
        return judge(build(_with(graph, adaptive=True))) >= judge(build(_with(graph, adaptive=False)))
    except CompileError:  # what cannot be built is refused later, with its reason
        return None


def _with(graph: Graph, *, adaptive: bool) -> Graph:
    copy = copy_graph(graph)
    if not adaptive:
        copy.adapted = {}
    if copy.floats:
        set_precision(copy, copy.floats)
    return copy
