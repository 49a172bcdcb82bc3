"""Stage 2, normalise: many ONNX operators become the few that the NPU has, and what belongs together is fused."""

from __future__ import annotations

from typing import NamedTuple

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.ir import Graph
from openrknn.compiler.normalise.activations import find_activations
from openrknn.compiler.normalise.attention import normalise_softmax, place_attention
from openrknn.compiler.normalise.bilinear import normalise_linear_resize
from openrknn.compiler.normalise.binary import normalise_binary
from openrknn.compiler.normalise.choices import find_choices
from openrknn.compiler.normalise.clean import clean
from openrknn.compiler.normalise.ends import flatten_ends, join_ends
from openrknn.compiler.normalise.epsilons import raise_epsilons
from openrknn.compiler.normalise.find_norms import find_layer_norms
from openrknn.compiler.normalise.finish import finish
from openrknn.compiler.normalise.forward import fold_forward
from openrknn.compiler.normalise.fp16_regions import mark_fp16_regions
from openrknn.compiler.normalise.fuse import fuse, fuse_pads
from openrknn.compiler.normalise.heads import take_heads_apart
from openrknn.compiler.normalise.integers import follow_integers, place_integers
from openrknn.compiler.normalise.late_division import divide_late
from openrknn.compiler.normalise.layer_norm import normalise_layer_norms
from openrknn.compiler.normalise.linear import cut_outputs, normalise_convolutions, normalise_linear
from openrknn.compiler.normalise.masks import bound_masks
from openrknn.compiler.normalise.moves import normalise_moves
from openrknn.compiler.normalise.one_table import share_one_table
from openrknn.compiler.normalise.pads import narrow_pads
from openrknn.compiler.normalise.pooling import normalise_pools
from openrknn.compiler.normalise.qdq import take_quantization
from openrknn.compiler.normalise.quotients import fill_divisors, find_quotients
from openrknn.compiler.normalise.ranks import three_dimensions
from openrknn.compiler.normalise.roots import divide_channels, find_roots
from openrknn.compiler.normalise.rotary import find_rotary
from openrknn.compiler.normalise.scale import fold_scales
from openrknn.compiler.normalise.selections import fold_selections
from openrknn.compiler.normalise.squares import scale_squares
from openrknn.compiler.normalise.turns import find_turns
from openrknn.compiler.normalise.volume import cut_volumes
from openrknn.compiler.passes import NO_ORPHANS, ONE_RESHAPE, ORDERED, READY, Pass, plain, run_passes
from openrknn.compiler.targets import Target

__all__ = ["PASSES", "Situation", "normalise"]


class Situation(NamedTuple):
    """What passes may ask about besides the graph."""

    atom: int
    """Channels that lie together in the NPU's memory."""
    calibrated: bool
    """Whether the ranges of values will be known (int8)."""
    kernel_volume: int
    """The largest kernel of one task; 0: any."""
    target: Target


Entry = Pass[Situation]


PASSES: tuple[Entry, ...] = (
    Pass("find_choices", lambda graph, _: find_choices(graph), lambda now: not now.calibrated),
    plain(place_integers),
    plain(find_layer_norms),
    Pass(
        "scale_squares", lambda graph, now: scale_squares(graph, calibrated=now.calibrated),
        lambda now: not now.calibrated or now.target.can_mix,
    ),
    Pass("bound_masks", lambda graph, _: bound_masks(graph), lambda now: not now.calibrated),
    Pass("raise_epsilons", lambda graph, _: raise_epsilons(graph), lambda now: not now.calibrated),
    plain(take_heads_apart),
    plain(clean, gives=(ONE_RESHAPE,)),
    plain(find_rotary),
    Pass("take_quantization", lambda graph, now: take_quantization(graph, calibrated=now.calibrated)),
    plain(clean, gives=(ONE_RESHAPE,)),
    plain(three_dimensions),
    Pass("normalise_layer_norms", lambda graph, now: normalise_layer_norms(
        graph, calibrated=now.calibrated, can_mix=now.target.can_mix
    )),
    Pass("find_roots", lambda graph, _: find_roots(graph), lambda now: not now.calibrated),
    Pass("find_quotients", lambda graph, now: find_quotients(graph, calibrated=now.calibrated)),
    Pass(
        "divide_channels", lambda graph, _: divide_channels(graph),
        lambda now: not now.calibrated and now.target.has_short_algorithms,
    ),
    Pass("find_activations", lambda graph, now: find_activations(graph, calibrated=now.calibrated)),
    plain(normalise_linear),
    plain(clean, gives=(ONE_RESHAPE,)),
    Pass("place_attention", lambda graph, now: place_attention(
        graph, on_npu=now.target.has_attention, softmax=now.target.has_softmax
    )),
    plain(clean, gives=(ONE_RESHAPE,)),
    plain(fold_scales),
    Pass("normalise_pools", lambda graph, now: normalise_pools(
        graph, now.target.largest_pool, averages=now.calibrated or now.target.averages_floats,
        averages_floats=now.target.averages_floats,
    )),
    plain(normalise_linear_resize),
    plain(normalise_softmax),
    Pass("normalise_moves", lambda graph, now: normalise_moves(graph, now.atom)),
    plain(normalise_convolutions),
    plain(narrow_pads),
    plain(fold_selections),
    Pass("cut_outputs", lambda graph, now: cut_outputs(graph, now.atom)),
    Pass("normalise_binary", lambda graph, now: normalise_binary(graph, is_float=not now.calibrated)),
    plain(fold_forward),
    plain(fuse_pads),
    Pass(
        "share_one_table", lambda graph, _: share_one_table(graph),
        lambda now: not now.calibrated and now.target.has_softmax,
    ),
    plain(fuse),
    plain(fold_selections),
    Pass("fill_divisors", lambda graph, now: fill_divisors(graph, now.atom), lambda now: not now.calibrated),
    Pass(
        "cut_volumes", lambda graph, now: cut_volumes(graph, now.kernel_volume, now.atom),
        lambda now: now.kernel_volume > 0,
    ),
    plain(Graph.sort, gives=(ORDERED,)),
    plain(Graph.prune, needs=(ORDERED,), gives=(NO_ORPHANS,)),
    Pass("find_turns", lambda graph, now: find_turns(graph, now.atom), lambda now: now.target.has_turns),
    plain(join_ends, needs=(NO_ORPHANS,), gives=(NO_ORPHANS,)),
    Pass("flatten_ends", lambda graph, _: flatten_ends(graph), lambda now: not now.target.has_cpu),
    plain(finish, needs=(ORDERED,), gives=(READY, ORDERED, NO_ORPHANS)),
    Pass("follow_integers", lambda graph, now: follow_integers(graph, calibrated=now.calibrated)),
    Pass("mark_fp16_regions", lambda graph, _: mark_fp16_regions(graph), lambda now: now.calibrated),
    Pass(
        "divide_late", lambda graph, _: divide_late(graph),
        lambda now: now.target.has_softmax and now.target.turns_lanes,
    ),
)
"""In this order. A pass asks the target what it can do, never which chip it is."""


def normalise(
    graph: Graph, *, atom: int, target: Target, calibrated: bool = True, kernel_volume: int = 0
) -> None:
    """Rewrite the graph in place; `Situation` says what the options mean."""
    now = Situation(atom, calibrated, kernel_volume, target)
    try:
        run_passes(PASSES, graph, now)
    except UnsupportedOperatorError as error:
        raise UnsupportedOperatorError(graph.mixes or str(error), operators=error.operators) from None
