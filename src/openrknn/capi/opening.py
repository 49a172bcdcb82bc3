"""From a model and the flags of `rknn_init` to a context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openrknn.capi.call import CallError, Code
from openrknn.capi.context import Context
from openrknn.capi.program import Program
from openrknn.container.model import Model
from openrknn.device.automatic import automatic_device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.options import budget_for
from openrknn.vendor.tables.flags import InitFlag

__all__ = ["device_for", "open_context"]

_KNOWN = sum(int(flag) for flag in InitFlag if flag is not InitFlag.MEM_ALLOC_NO_CONTEXT)


def open_context(program: Program, model: Model, flags: int, extend: dict[str, Any]) -> Context:
    """`rknn_init`."""
    _check(flags)

    def opened(options: Options) -> LocalEngine:
        return LocalEngine.open(model, device_for(model), replace(options, budget=budget_for(model, None, None)))

    return Context(model, flags, opened)


def device_for(model: Model) -> str:
    """The device that users chose, or what "auto" is; never the vendor's library, because that would be ourselves."""
    chosen = automatic_device(model.chip)
    if chosen.partition(":")[0] == "vendor":
        raise CallError(
            Code.DEVICE_UNAVAILABLE,
            f"OPENRKNN_DEVICE={chosen!r} names the vendor's library, and this is the open one in its place; choose "
            "software, rknpu, rocket or auto",
        )
    return f"software:{model.chip.name}" if chosen == "software" else chosen


def _check(flags: int) -> None:
    if flags & ~_KNOWN:
        raise CallError(Code.PARAM_INVALID, f"{flags & ~_KNOWN:#x} are not flags of rknn_init")
    if flags & InitFlag.FENCE_OUT_OUTSIDE:
        raise CallError(
            Code.PARAM_INVALID,
            "RKNN_FLAG_FENCE_OUT_OUTSIDE: fences come from a kernel driver, and runs here end in a process; use "
            "rknn_wait",
        )
