"""From a model and the flags of `rknn_init` to a context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openrknn.capi.call import Call, CallError, Code
from openrknn.capi.context import Context
from openrknn.capi.program import Program
from openrknn.capi.shared_weights import with_weights_of
from openrknn.capi.wire import Operation
from openrknn.container.model import Model
from openrknn.device.automatic import automatic_device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.options import budget_for
from openrknn.vendor.tables.flags import InitFlag

__all__ = ["device_for", "open_context"]


def open_context(program: Program, model: Model, flags: int, extend: dict[str, Any]) -> Context:
    """`rknn_init`. Flags that are not known do nothing, as in runtime 1.5.2."""
    donor = _donor(program, flags, extend)
    if donor is not None and flags & InitFlag.SHARE_WEIGHT_MEM:
        model = with_weights_of(model, donor.model)
    if flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        return Context(model, flags, None)

    def opened(options: Options) -> LocalEngine:
        options = replace(options, budget=budget_for(model, None, None))
        if donor is not None and flags & InitFlag.SHARE_WEIGHT_MEM and donor.is_open:
            try:
                return donor.engine.share(model, options)
            except ValueError:  # constants in other places: a copy of its own
                pass
        return LocalEngine.open(model, device_for(model), options)

    return Context(model, flags, opened)


def device_for(model: Model) -> str:
    """The device that users chose, or what "auto" is.

    Never the vendor's library, because that would be ourselves (`calls.programs` leaves OPENRKNN_DEVICE=vendor out).
    """
    chosen = automatic_device(model.chip)
    return f"software:{model.chip.name}" if chosen == "software" else chosen


def _donor(program: Program, flags: int, extend: dict[str, Any]) -> Context | None:
    """The context whose weights or SRAM are shared."""
    if not flags & (InitFlag.SHARE_WEIGHT_MEM | InitFlag.SHARE_SRAM):
        return None
    number = extend.get("ctx", 0)
    if not number and flags & InitFlag.SHARE_WEIGHT_MEM:
        raise CallError(
            Code.PARAM_INVALID, "RKNN_FLAG_SHARE_WEIGHT_MEM needs an rknn_init_extend whose ctx is the other context"
        )
    return program.context(Call(Operation.INIT, context=number), Context) if number else None
