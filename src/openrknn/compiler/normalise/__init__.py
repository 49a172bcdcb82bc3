"""Stage 2, normalise: many ONNX operators become the few that the NPU has, and what belongs together is fused."""

from __future__ import annotations

from openrknn.compiler.ir import Graph
from openrknn.compiler.normalise.activations import find_activations
from openrknn.compiler.normalise.attention import place_attention
from openrknn.compiler.normalise.bilinear import normalise_linear_resize
from openrknn.compiler.normalise.binary import normalise_binary
from openrknn.compiler.normalise.clean import clean
from openrknn.compiler.normalise.find_layer_norm import find_layer_norms
from openrknn.compiler.normalise.finish import finish
from openrknn.compiler.normalise.forward import fold_forward
from openrknn.compiler.normalise.fuse import fuse, fuse_pads
from openrknn.compiler.normalise.heads import take_heads_apart
from openrknn.compiler.normalise.islands import mark_islands
from openrknn.compiler.normalise.layer_norm import normalise_layer_norms
from openrknn.compiler.normalise.linear import cut_outputs, normalise_convolutions, normalise_linear
from openrknn.compiler.normalise.moves import normalise_moves
from openrknn.compiler.normalise.pooling import normalise_pools
from openrknn.compiler.normalise.qdq import take_quantization
from openrknn.compiler.normalise.quotients import find_quotients
from openrknn.compiler.normalise.ranks import three_dimensions
from openrknn.compiler.normalise.scale import fold_scales
from openrknn.compiler.normalise.selections import fold_selections
from openrknn.compiler.normalise.softmax import normalise_softmax
from openrknn.compiler.normalise.turns import find_turns
from openrknn.compiler.normalise.volume import cut_volumes
from openrknn.compiler.targets import RK3588, Target

__all__ = ["normalise"]


def normalise(
    graph: Graph, *, atom: int, calibrated: bool = True, kernel_volume: int = 0, target: Target = RK3588
) -> None:
    """Rewrite the graph in place.

    `atom` is the number of channels that lie together in the NPU's memory, `calibrated` whether the ranges of values
    will be known. `kernel_volume` is the largest kernel of one task; 0: any.
    """
    find_layer_norms(graph)
    take_heads_apart(graph)
    clean(graph)
    take_quantization(graph, calibrated=calibrated)
    clean(graph)
    three_dimensions(graph)
    normalise_layer_norms(graph, calibrated=calibrated, can_mix=target.can_mix)
    find_quotients(graph, calibrated=calibrated)
    find_activations(graph, calibrated=calibrated)
    normalise_linear(graph)
    clean(graph)
    place_attention(graph, on_npu=target is RK3588)
    clean(graph)
    fold_scales(graph)
    normalise_pools(graph, target.largest_pool)
    normalise_linear_resize(graph)
    normalise_softmax(graph)
    normalise_moves(graph, atom)
    normalise_convolutions(graph)
    fold_selections(graph)
    cut_outputs(graph, atom)
    normalise_binary(graph, is_float=not calibrated)
    fold_forward(graph)
    fuse_pads(graph)
    fuse(graph)
    fold_selections(graph)
    if kernel_volume:
        cut_volumes(graph, kernel_volume, atom)
    graph.sort()
    graph.prune()
    if target is RK3588:
        find_turns(graph, atom)
    finish(graph)
    if calibrated:
        mark_islands(graph)
