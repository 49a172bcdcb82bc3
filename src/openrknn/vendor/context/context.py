"""`Context`: a model in the vendor's library, safe to use.

    with Context("model.rknn") as context:
        context.set_inputs([image])
        context.run()
        scores, = context.get_outputs()

Every wrong argument raises before the library sees it, and nothing can be used after it was closed. Contexts may be
used from threads: calls on one take turns, calls on several run side by side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openrknn.chips import Chip
from openrknn.vendor.context.custom import CustomOp, Registration
from openrknn.vendor.context.initialize import check_flags, initialize
from openrknn.vendor.context.shapes import ContextShapes
from openrknn.vendor.context.source import ModelSource, Source
from openrknn.vendor.errors import call_error
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.library.library import Library, default_library
from openrknn.vendor.library.structs import CONTEXT
from openrknn.vendor.tables.enums import CoreMask, InitFlag
from openrknn.vendor.tables.versions import Version

_DUPLICATES_AFTER_MEM_SIZE = Version(1, 6)
"""Runtime 1.5.2 was seen to crash; newer ones were not tried."""


class RunInfo(NamedTuple):
    """The result of a run with options; 0 where the library does not fill it in."""

    frame_id: int
    fence_fd: int


class Context(ContextShapes):
    """`rknn_context`: one loaded model.

    `model` is a path, bytes, any buffer, or a `TensorMemory` that holds the model (2.1.0; it is not copied then).
    `model_offset` and `model_size` find a model inside a larger file (1.5.2 finds none in a file that begins with
    zeros). `share_weights` is a context of the same network whose weights are used, `share_sram` one whose SRAM is
    used. `key` is for encrypted models (2.5.0). With `check=False` our own reader does not look at the model before
    the library does.
    """

    def __init__(
        self,
        model: Source,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        *,
        library: Library | None = None,
        share_weights: Context | None = None,
        share_sram: Context | None = None,
        model_offset: int = 0,
        model_size: int | None = None,
        key: bytes | None = None,
        check: bool = True,
    ) -> None:
        used = library or default_library()
        source = ModelSource.open(model, offset=model_offset, length=model_size, check=check)
        donor = _donor(share_weights, share_sram)
        flags = check_flags(used, InitFlag(flags), source, share_weights is not None, share_sram is not None)
        if share_weights is not None:
            _check_donor(source, share_weights._constants)
        handle = initialize(used, source, flags, donor._live_handle() if donor else None, key)
        self._constants: Mapping[str, int] = source.constants
        self._setup(handle, flags, source.chip or used.chip, source.custom_operators)

    def _setup(
        self,
        handle: Handle,
        flags: InitFlag,
        chip: Chip | None,
        operators: frozenset[str],
        family: set[str] | None = None,
    ) -> None:
        self._callback_errors: list[BaseException] = []
        self._missing_ops = operators
        self._extend: Any = None
        self._rknn_run = handle.library.function("rknn_run")
        try:
            super().__init__(handle, flags, chip, family)
        except BaseException:
            handle.close()
            raise
        if operators:
            names = ", ".join(sorted(operators))
            self._blockers["operators"] = f"the model has operators of its own, {names}; use register_custom_ops first"

    def close(self) -> None:
        """Give everything back; `destroy` functions of custom operators are called here. A second call does nothing."""
        super().close()
        if self._callback_errors:
            raise self._callback_errors.pop(0)

    def _live_handle(self) -> Handle:
        self._ensure_open()
        return self._handle

    def duplicate(self) -> Context:
        """`rknn_dup_context`: another context of the same model that shares its weights, for another thread."""
        with self._lock:
            self._ensure_open()
            self._require("rknn_dup_context")
            if "memory size" in self._family and self.library.version < _DUPLICATES_AFTER_MEM_SIZE:
                raise ValueError(
                    f"library {self.library.version} crashes when a context is duplicated after its memory size was "
                    "asked for (RKNN_QUERY_MEM_SIZE); duplicate first, then ask"
                )
            mine, made = CONTEXT(self._handle.value), CONTEXT(0)
            self.library.check("rknn_dup_context", ctypes.byref(mine), ctypes.byref(made))
            handle = Handle(self.library, made.value, "rknn_destroy", self._handle)
        copy = Context.__new__(Context)
        copy._constants = self._constants
        copy._setup(handle, self.flags, self.chip, self._missing_ops, self._family)
        copy._ways = dict(self._ways)  # the library copies them too
        return copy

    # ---------------------------------------------------------------------------------------------- running

    def run(self, *, timeout_ms: int = 0, non_blocking: bool = False, fence_fd: int | None = None) -> RunInfo | None:
        """`rknn_run`. Options go to the library in an `rknn_run_extend`; runtime 1.5.2 takes and ignores them."""
        if timeout_ms or non_blocking or fence_fd is not None:
            return self._run_extended(timeout_ms, non_blocking, fence_fd)
        with self._lock:
            if self._blockers:
                self._raise_blocked()
            code = self._rknn_run(self._handle.value, None)
            self._runs += 1
            if self._callback_errors:
                raise self._callback_errors.pop(0)
        if code < 0:
            raise call_error("rknn_run", code, self.library.version)
        return None

    def _run_extended(self, timeout_ms: int, non_blocking: bool, fence_fd: int | None) -> RunInfo:
        if not 0 <= timeout_ms < 2**31:
            raise ValueError(f"a timeout of {timeout_ms} ms is not possible")
        if non_blocking:
            self._require("rknn_wait")
        extend = self.library.structs.rknn_run_extend()
        extend.timeout_ms, extend.non_block = timeout_ms, int(non_blocking)
        extend.fence_fd = -1 if fence_fd is None else fence_fd
        with self._lock:
            if self._blockers:
                self._raise_blocked()
            self._extend = extend if non_blocking else None
            code = self._rknn_run(self._handle.value, ctypes.byref(extend))
            self._runs += 1
            if self._callback_errors:
                raise self._callback_errors.pop(0)
        if code < 0:
            raise call_error("rknn_run", code, self.library.version)
        return RunInfo(extend.frame_id, extend.fence_fd)

    def wait(self, timeout_ms: int = 0) -> RunInfo:
        """`rknn_wait`: the end of a run that did not block."""
        with self._lock:
            self._ensure_open()
            self._require("rknn_wait")
            if self._extend is None:
                raise ValueError("there is no run to wait for; start one with run(non_blocking=True)")
            extend, self._extend = self._extend, None
            extend.timeout_ms = timeout_ms
            self._call("rknn_wait", ctypes.byref(extend))
        return RunInfo(extend.frame_id, extend.fence_fd)

    def set_core_mask(self, mask: CoreMask) -> None:
        """`rknn_set_core_mask`: which cores work on this context."""
        mask = CoreMask(mask)
        self._require("rknn_set_core_mask")
        self.library.require_value(mask)
        if mask is CoreMask.UNDEFINED:
            raise ValueError("CoreMask.UNDEFINED is what the library says, not what it takes")
        if self.chip and mask is not CoreMask.ALL and int(mask) >> self.chip.cores:
            raise ValueError(f"{mask.name} names more cores than the {self.chip.cores} of {self.chip.title}")
        self._call("rknn_set_core_mask", int(mask), about=mask.name)

    def set_batch_core_num(self, count: int) -> None:
        """`rknn_set_batch_core_num`: how many cores share the batches of a model with rknn_batch_size > 1."""
        most = self.chip.cores if self.chip else 3
        self._require("rknn_set_batch_core_num")
        if not 1 <= count <= most:
            raise ValueError(f"batches can run on 1 to {most} cores, not on {count}")
        self._call("rknn_set_batch_core_num", count)

    # ---------------------------------------------------------------------------------------------- operators

    def register_custom_ops(self, operators: Sequence[CustomOp]) -> None:
        """`rknn_register_custom_ops`: Python functions for operators that the library does not know."""
        self._ensure_open()
        self._require("rknn_register_custom_ops")
        registration = Registration(self.library, operators, self._callback_errors)
        with self._lock:
            self._ensure_open()
            self._handle.kept.append(registration)
            code = self.library.function("rknn_register_custom_ops")(
                self._handle.value, registration.structs, len(registration.structs)
            )
            if self._callback_errors:
                raise self._callback_errors.pop(0)
            if code < 0:
                raise call_error("rknn_register_custom_ops", code, self.library.version)
            self._missing_ops -= {operator.name for operator in operators}
            if not self._missing_ops:
                self._blockers.pop("operators", None)


def _donor(weights: Context | None, sram: Context | None) -> Context | None:
    if weights is not None and sram is not None and weights is not sram:
        raise ValueError("weights and SRAM can only be shared with one and the same context")
    return weights or sram


def _check_donor(source: ModelSource, constants: Mapping[str, int]) -> None:
    """The library only logs it when two networks differ, and computes something."""
    missing = [name for name in sorted(source.lacking) if constants.get(name) != source.constants[name]]
    if constants and missing:
        raise ValueError(f"another network: the context to share with has no weights like {', '.join(missing[:3])}")
