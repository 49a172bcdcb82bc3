"""A model in the engine: what `rknn_init` returns a number for.

One context runs one thing at a time, whichever thread asks. Its inputs and outputs are in memory of its own until they
are bound to the program's (`bound`), and each graph of a dynamic model has programs of its own (`plan`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

from openrknn.capi.bound import Bound, bind_input, bind_output
from openrknn.capi.call import Call, CallError, Code
from openrknn.capi.frames import Frame, Results, live
from openrknn.capi.memory import Bytes, Memory, Piece
from openrknn.capi.perf import measured, perf_text
from openrknn.capi.plan import Plan, Programs
from openrknn.capi.tensors import input_view
from openrknn.container.model import Model
from openrknn.container.parts import Placement
from openrknn.device import Device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.options import core_count
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.runtime.program.program import Program
from openrknn.runtime.shapes import graph_for
from openrknn.vendor.tables.flags import InitFlag

__all__ = ["Context"]

_ALL_CORES = 0xFFFF
_PAIRS = frozenset({0b001, 0b010, 0b100, 0b011, 0b111})
"""What rknn_core_mask names, beside automatic and all."""


class Context:
    """A model with the engine that runs it. `lock` is held by every call on it."""

    def __init__(self, model: Model, flags: int, open_engine: Callable[[Options], LocalEngine]) -> None:
        self.model, self.flags = model, flags
        self.graph = 0
        self.lock = threading.RLock()
        self.custom_ops: dict[str, CustomOperator] = {}
        self.under_way: Call | None = None
        """The call whose channel callbacks go through."""
        self.runs = 0
        self.last_run_us = 0
        self.is_fed = False
        """Whether inputs were set, which takes memory for them."""
        self._seconds: dict[int, float] = {}
        """With COLLECT_PERF_MASK: of the operators in the last run."""
        self.results = Results()
        self.staging: Memory | None = None
        self.is_shaped = not model.is_dynamic
        """A dynamic model has no shapes until they are set."""
        self._options = Options(custom_ops=self.custom_ops)
        self._engine = open_engine(self._options)
        self._programs: dict[int, Programs] = {}
        self._bound: dict[str, Bound] = {}
        self._fed: dict[str, tuple[Array, str | None]] = {}
        """Of a batch: the inputs as they were set, because its items take turns in the NPU's memory."""
        self._pixels: frozenset[str] = frozenset()
        self._plan: Plan | None = None
        self._frame: Frame | None = None
        try:
            if not _awaits_operators(model) and not flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
                _ = self.runnable
        except BaseException:
            self.close()
            raise

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._engine.device

    @property
    def engine(self) -> LocalEngine:
        """The model on the device."""
        return self._engine

    @property
    def is_dynamic(self) -> bool:
        return self.model.is_dynamic

    @property
    def batch(self) -> int:
        """Items of one run."""
        return max(self.model.batch_size, 1)

    @property
    def runnable(self) -> Program:
        """The program of the current shapes, with memory of its own."""
        return self._current.base

    @property
    def _current(self) -> Programs:
        if self.graph not in self._programs:
            self._programs[self.graph] = Programs(self._engine, self.graph)
        return self._programs[self.graph]

    def memory_report(self) -> MemoryReport:
        """Bytes on the device."""
        return self._engine.memory()

    def profile_text(self) -> str | None:
        """What the last run with COLLECT_PERF_MASK measured; None without that flag, and before a run."""
        if not self._seconds:
            return None
        return perf_text(self.model, self.model.graphs[self.graph], self._seconds, self._options.cores)

    # -- another one, and the end --------------------------------------------------------------------------------

    def duplicate(self) -> Context:
        """The same model with the same weights (`rknn_dup_context`)."""
        with self.lock:
            made = Context(self.model, self.flags, lambda options: self._engine.share(self.model, options))
            return made

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self.lock:
            self._drop_programs()
            self.results.close()
            if self.staging is not None:
                self.staging.close()
                self.staging = None
            self._engine.close()

    # -- inputs --------------------------------------------------------------------------------------------------

    def feed(self, index: int, data: Bytes, kind: int, form: int, *, pass_through: bool) -> None:
        """One input of `rknn_inputs_set`."""
        port = self._input(index)
        self.is_fed = True
        self._bound.pop(port.name, None)
        self._plan = None
        if self.runnable.batch:
            self._fed[port.name] = self._batch_input(index, data, kind, form, pass_through=pass_through)
        elif pass_through:
            _feed_native(port, data)
            self._pixels -= {port.name}
        else:
            view, layout = input_view(port, data, kind, form, padded=False)
            is_pixels = port.feed(view, layout)
            self._pixels = self._pixels | {port.name} if is_pixels else self._pixels - {port.name}

    def _input(self, index: int) -> Any:
        inputs = self.runnable.inputs
        if not 0 <= index < len(inputs):
            raise CallError(Code.INPUT_INVALID, f"there is no input {index}; the model has {len(inputs)}")
        return inputs[index]

    def _batch_input(
        self, index: int, data: Bytes, kind: int, form: int, *, pass_through: bool
    ) -> tuple[Array, str | None]:
        raise CallError(Code.FAIL, "batches are not possible yet")

    # -- memory of the program -----------------------------------------------------------------------------------

    def bind(self, piece: Piece, attr: dict[str, Any]) -> None:
        """`rknn_set_io_mem`: the name says which tensor is meant."""
        with self.lock:
            self.check_ready()
            name = attr["name"]
            program = self.runnable
            for port in program.inputs:
                if port.name == name:
                    self._bound[name] = bind_input(port, piece, attr, self.batch)
                    self._plan = None
                    return
            for output in program.outputs:
                if output.name == name:
                    self._bound[name] = bind_output(output, piece, attr, self.batch)
                    self._plan = None
                    return
            known = ", ".join((*program.names, *(output.name for output in program.outputs)))
            raise CallError(Code.PARAM_INVALID, f"no input or output is called {name!r}; there are {known}")

    def forget(self, memory: Memory) -> None:
        """The program destroyed a memory; what is bound to it keeps it until something else is bound."""
        with self.lock:
            if not any(one.memory is memory for one in self._bound.values()):
                for programs in self._programs.values():
                    programs.forget(memory)

    # -- running -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """One run on what the inputs hold, and wait for it."""
        with self.lock:
            plan = self._plan
            if plan is None:
                plan = self._new_plan()
            for step in plan.before:
                step(0)
            began = perf_counter_ns()
            if self.flags & InitFlag.COLLECT_PERF_MASK:
                self._seconds = measured(plan.program, plan.pixels)
            else:
                plan.program.run(plan.pixels)
            self.last_run_us = (perf_counter_ns() - began) // 1000
            for step in plan.after:
                step(0)
            self.runs += 1

    def _new_plan(self) -> Plan:
        self.check_ready()
        self._plan = plan = self._current.plan(self._bound, self._pixels)
        self._frame = live(plan.program)
        return plan

    @property
    def frame(self) -> Frame:
        """The outputs of the last run."""
        if self._frame is None:
            self._new_plan()
        assert self._frame is not None
        return self._frame

    def check_ready(self) -> None:
        """Refuse what has no meaning yet."""
        if self.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
            raise CallError(Code.FAIL, "a context with RKNN_FLAG_COLLECT_MODEL_INFO_ONLY answers queries and no more")
        if not self.is_shaped:
            raise CallError(Code.CTX_INVALID, "the model has several shapes; choose with rknn_set_input_shapes first")

    # -- settings ------------------------------------------------------------------------------------------------

    def set_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Choose the graph with these input shapes."""
        with self.lock:
            graph = graph_for(self.model, list(shapes))
            self.is_shaped = True
            if graph != self.graph or self._bound:
                self.graph = graph
                self._bound.clear()
                self._pixels = frozenset()
                self._plan = self._frame = None

    def set_core_mask(self, mask: int) -> None:
        """How many cores share a run."""
        chip = self.model.chip
        if mask not in {0, _ALL_CORES} | _PAIRS or (mask != _ALL_CORES and mask >> chip.cores) or chip.cores == 1:
            raise CallError(Code.FAIL, f"{chip.title} has {chip.cores} core(s); core mask {mask:#x} is not possible")
        with self.lock:
            wanted = (1 << chip.cores) - 1 if mask == _ALL_CORES else mask
            cores = core_count(None, wanted, chip)
            if cores != self._options.cores:
                self._reopen(replace(self._options, cores=cores, core_mask=wanted))

    def _reopen(self, options: Options) -> None:
        """The same model and weights with other options; inputs that were set have to be set again."""
        made = self._engine.share(self.model, options)
        self._drop_programs()
        self._engine.close()
        self._engine, self._options = made, options

    def _drop_programs(self) -> None:
        self._plan = self._frame = None
        for programs in self._programs.values():
            programs.close()
        self._programs.clear()


def _awaits_operators(model: Model) -> bool:
    """The program brings functions for some operators, after `rknn_init`."""
    return any(
        operator.placement is Placement.CUSTOM for graph in model.graphs for operator in model.operators_of(graph)
    )


def _feed_native(port: Any, data: Bytes) -> None:
    whole = port.stored.native.nbytes if port.stored.padding is None else None
    try:
        port.feed_native(data if whole is None else data[:whole])
    except ValueError as error:
        raise CallError(Code.PARAM_INVALID, str(error)) from None
