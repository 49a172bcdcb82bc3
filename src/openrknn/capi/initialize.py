"""From a model and the flags of `rknn_init` to a context; a model without weights takes those of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openrknn.capi.call import Call, CallError, Code
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.wire import Operation
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, Tensor
from openrknn.device.automatic import automatic_device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.options import budget_for
from openrknn.vendor.tables.enums import InitFlag


def open_context(program: Client, model: Model, flags: int, extend: dict[str, Any]) -> ModelContext:
    """`rknn_init`. Flags that are not known do nothing, as in runtime 1.5.2."""
    donor = _donor(program, flags, extend)
    if donor is not None and flags & InitFlag.SHARE_WEIGHT_MEM:
        model = with_weights_of(model, donor.model)
    if flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        return ModelContext(model, flags, None)

    def opened(options: Options) -> LocalEngine:
        options = replace(options, budget=budget_for(model, None, None))
        if donor is not None and flags & InitFlag.SHARE_WEIGHT_MEM and donor.is_open:
            try:
                return donor.engine.share(model, options)
            except ValueError:  # constants in other places: a copy of its own
                pass
        return LocalEngine.open(model, device_for(model), options)

    return ModelContext(model, flags, opened)


def device_for(model: Model) -> str:
    """The device that users chose, or what "auto" is.

    Never the vendor's library, because that would be ourselves (`calls.programs` leaves OPENRKNN_DEVICE=vendor out).
    """
    chosen = automatic_device(model.chip)
    return f"software:{model.chip.name}" if chosen == "software" else chosen


def _donor(program: Client, flags: int, extend: dict[str, Any]) -> ModelContext | None:
    """The context whose weights or SRAM are shared."""
    if not flags & (InitFlag.SHARE_WEIGHT_MEM | InitFlag.SHARE_SRAM):
        return None
    number = extend.get("ctx", 0)
    if not number and flags & InitFlag.SHARE_WEIGHT_MEM:
        raise CallError(
            Code.PARAM_INVALID, "RKNN_FLAG_SHARE_WEIGHT_MEM needs an rknn_init_extend whose ctx is the other context"
        )
    return program.context(Call(Operation.INIT, context=number), ModelContext) if number else None


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
