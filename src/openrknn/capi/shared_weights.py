"""RKNN_FLAG_SHARE_WEIGHT_MEM: a model that was built without weights (`remove_weight`) takes another's."""

from __future__ import annotations

from dataclasses import replace

from openrknn.capi.call import CallError, Code
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, Tensor

__all__ = ["with_weights_of"]


def with_weights_of(model: Model, donor: Model) -> Model:
    """The model with the constants that it lacks; the model itself if it lacks none."""
    known = {tensor.name: tensor for graph in donor.graphs for tensor in graph.tensors if tensor.data}
    own = {tensor.name for tensor in model.graphs[0].tensors if tensor.data}
    if not any(_lacks(tensor, own) for graph in model.graphs for tensor in graph.tensors):
        return model

    def filled(tensor: Tensor) -> Tensor:
        if not _lacks(tensor, own):
            return tensor
        found = known.get(tensor.name)
        if found is None or found.shape != tensor.shape or found.dtype is not tensor.dtype:
            raise CallError(
                Code.MODEL_INVALID,
                f"the context to share with is of another network: it has no weights like {tensor.name!r}",
            )
        return replace(
            tensor, data=found.data, size_bytes=found.size_bytes, compressed=found.compressed,
            compression=found.compression,
        )  # fmt: skip

    def whole(graph: Graph) -> Graph:
        return replace(graph, tensors=tuple(filled(tensor) for tensor in graph.tensors))

    return replace(model, graphs=tuple(whole(graph) for graph in model.graphs))


def _lacks(tensor: Tensor, own: set[str]) -> bool:
    return tensor.kind is Kind.WEIGHT and not tensor.data and tensor.name not in own
