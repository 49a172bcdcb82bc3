"""A model in the engine: what `rknn_init` returns a number for.

Its inputs and outputs are in memory of its own until they are bound to the program's (`bound`), and each graph of a
dynamic model has programs of its own (`plan`). How it runs is in `execution`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from openrknn.capi.attributes import native_input_attr, native_output_attr, nhwc_output_attr
from openrknn.capi.bound import Bound, End, bind_input, bind_output
from openrknn.capi.call import Call, CallError, Code
from openrknn.capi.custom import Operators
from openrknn.capi.execution import Execution
from openrknn.capi.frames import Results
from openrknn.capi.memory import Bytes, Memory, Piece
from openrknn.capi.perf import perf_text
from openrknn.capi.plan import Programs, RunPlan
from openrknn.capi.set_inputs import Fed, fed_batch, feed
from openrknn.container.model import Model
from openrknn.device import Device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.program.program import Program
from openrknn.vendor.tables.enums import InitFlag


class ModelContext(Execution):
    """A model with the engine that runs it."""

    def __init__(self, model: Model, flags: int, opened: Callable[[Options], LocalEngine] | None) -> None:
        """`opened` puts the model on a device; without it the context only answers queries."""
        super().__init__(flags)
        self.model = model
        self.graph = 0
        self.under_way: Call | None = None
        """The call whose channel callbacks go through."""
        self.operators = Operators(weakref.proxy(self))
        """Operators that the program brought."""
        self.pixel_inputs: set[str] = set()
        """Inputs that were given as raw pixels at least once: the native type is uint8 from then on."""
        self.is_fed = False
        """Whether inputs were set, which takes memory for them."""
        self.results = Results()
        self.staging: Memory | None = None
        self.missing: set[str] = set()
        """What MEM_ALLOC_OUTSIDE and INTERNAL_ALLOC_OUTSIDE leave to the program."""
        if flags & InitFlag.MEM_ALLOC_OUTSIDE:
            self.missing = {"weights", "internal"}
        elif flags & InitFlag.INTERNAL_ALLOC_OUTSIDE:
            self.missing = {"internal"}
        self.is_shaped = not model.is_dynamic
        """A dynamic model has no shapes until they are set."""
        self._options = Options(custom_ops=self.custom_ops)
        self._engine = opened(self._options) if opened is not None else None
        self._programs: dict[int, Programs] = {}
        self._bound: dict[str, Bound] = {}
        self._fed: dict[str, Fed] = {}
        self._pixels: frozenset[str] = frozenset()
        try:
            if self.operators.missing() is None and self._engine is not None:
                _ = self.runnable
        except BaseException:
            self.close()
            raise

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the model is on a device."""
        return self._engine is not None

    @property
    def engine(self) -> LocalEngine:
        """The model on its device."""
        if self._engine is None:
            raise CallError(Code.FAIL, "a context with RKNN_FLAG_COLLECT_MODEL_INFO_ONLY answers queries and no more")
        return self._engine

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.engine.device

    @property
    def is_dynamic(self) -> bool:
        """Whether its shapes have to be chosen."""
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
            self.operators.check()
            self._programs[self.graph] = Programs(self.engine, self.graph)
        return self._programs[self.graph]

    def memory_report(self) -> MemoryReport:
        """Bytes on the device."""
        return self.engine.memory()

    def profile_text(self) -> str | None:
        """What the last run with COLLECT_PERF_MASK measured; None without that flag, and before a run."""
        if not self.seconds:
            return None
        return perf_text(self.model, self.model.graphs[self.graph], self.seconds, self._options.cores)

    # -- another one, and the end --------------------------------------------------------------------------------

    def duplicate(self) -> ModelContext:
        """A second context of the model that shares its weights (`rknn_dup_context`)."""
        with self.settled():
            engine = self._engine
            if engine is None:
                return ModelContext(self.model, self.flags, None)
            made = ModelContext(self.model, self.flags, lambda options: engine.share(self.model, options))
            made.graph, made.is_shaped = self.graph, self.is_shaped
            made._change(cores=self._options.cores, core_mask=self._options.core_mask)
            return made

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self.lock:
            self._pending.close()
            self.operators.close()
            self._drop_programs()
            self._bound.clear()
            self._fed.clear()
            self.results.close()
            if self.staging is not None:
                self.staging.close()
                self.staging = None
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    # -- inputs --------------------------------------------------------------------------------------------------

    def feed(self, index: int, data: Bytes, kind: int, form: int, *, pass_through: bool) -> None:
        """One input of `rknn_inputs_set`; called with the context settled."""
        ports = self.runnable.inputs
        if not 0 <= index < len(ports):
            raise CallError(Code.INPUT_INVALID, f"there is no input {index}; the model has {len(ports)}")
        port = ports[index]
        self.is_fed = True
        if self.runnable.batch:
            self._fed[port.name] = fed_batch(port, data, kind, form, items=self.batch, pass_through=pass_through)
            is_pixels = self._fed[port.name].is_pixels
        else:
            is_pixels = feed(port, data, kind, form, pass_through=pass_through)
        if is_pixels:
            self.pixel_inputs.add(port.name)
        pixels = self._pixels | {port.name} if is_pixels else self._pixels - {port.name}
        if self._bound.pop(port.name, None) is not None or pixels != self._pixels or self.runnable.batch:
            self._pixels, self._plan = pixels, None

    # -- memory of the program -----------------------------------------------------------------------------------

    def bind(self, piece: Piece, attr: dict[str, Any]) -> None:
        """`rknn_set_io_mem`: the name selects the tensor."""
        with self.settled():
            self.check_ready()
            name = attr["name"]
            program = self.runnable
            for index, port in enumerate(program.inputs):
                if port.name == name:
                    native = native_input_attr(self.model, self.graph, index)
                    self._set_bound(bind_input(End(port, native["size_with_stride"], (), self.batch), piece, attr))
                    return
            for index, output in enumerate(program.outputs):
                if output.name == name:
                    native = native_output_attr(self.model, self.graph, index)
                    last = nhwc_output_attr(self.model, self.graph, index)["dims"]
                    dims = (last[0] // self.batch, *last[1:])
                    self._set_bound(bind_output(End(output, native["size_with_stride"], dims, self.batch), piece, attr))
                    return
            known = ", ".join((*program.names, *(output.name for output in program.outputs)))
            raise CallError(Code.PARAM_INVALID, f"no input or output is called {name!r}; there are {known}")

    def _set_bound(self, bound: Bound) -> None:
        self._bound[bound.name] = bound
        if bound.is_pixels:
            self.pixel_inputs.add(bound.name)
        self._fed.pop(bound.name, None)
        self._plan = None

    def forget(self, memory: Memory) -> None:
        """The program destroyed a memory; what is bound to it keeps it until something else is bound."""
        with self.settled():
            if not any(one.memory is memory for one in self._bound.values()):
                for programs in self._programs.values():
                    programs.forget(memory)

    def use_memory(self, kind: str, region: Bytes) -> None:
        """`rknn_set_weight_mem` and `rknn_set_internal_mem`. Where the device cannot use it, weights are copied there.

        A weight memory that is as large as the vendor's runtime asks for may be too small for ours, which keeps the
        constants of the compiler with the weights; then it stays an unused copy.
        """
        with self.settled():
            kept = self._kept_inputs()
            self._drop_programs()
            if kind == "weights":
                if not self.engine.use_weights(region):
                    source = self.engine.weights()[: region.nbytes]
                    region[: source.nbytes] = source
            else:
                self.engine.use_internal(region)
            self._restore_inputs(kept)
            self.missing.discard(kind)

    def _new_plan(self) -> RunPlan:
        self.check_ready()
        if self.missing:
            names = " and ".join(
                f"rknn_set_{'weight' if one == 'weights' else one}_mem" for one in sorted(self.missing)
            )
            raise CallError(Code.FAIL, f"the context was opened for memory of the program's: call {names} first")
        return self._current.plan(self._bound, self._pixels, self._fed)

    def check_ready(self) -> None:
        """Refuse what has no meaning yet."""
        _ = self.engine
        if not self.is_shaped:
            raise CallError(Code.CTX_INVALID, "the model has several shapes; choose with rknn_set_input_shapes first")

    # -- settings ------------------------------------------------------------------------------------------------

    def choose_graph(self, graph: int) -> None:
        """The graph of the shapes that were set; what was bound and set before is over."""
        with self.settled():
            self.is_shaped = True
            self.graph = graph
            self._bound.clear()
            self._fed.clear()
            self._pixels = frozenset()
            self._forget_plan()

    def set_cores(self, cores: int, mask: int) -> None:
        """How many cores share a run."""
        with self.settled():
            self._change(cores=cores, core_mask=mask)

    def operators_changed(self) -> None:
        """Programs look their custom operators up when they are made."""
        with self.settled():
            self._drop_programs()
            self.engine.forget_programs()

    def _change(self, **options: Any) -> None:
        changed = replace(self._options, **options)
        if changed.cores == self._options.cores or self._engine is None:
            self._options = changed
            return
        kept = self._kept_inputs()
        made = self._engine.share(self.model, changed)
        self._drop_programs()
        self._engine.close()
        self._engine, self._options = made, changed
        self._restore_inputs(kept)

    def _kept_inputs(self) -> dict[str, Bytes]:
        if self.graph not in self._programs:
            return {}
        base = self._programs[self.graph].base
        return {name: base.buffer_of(name).array.copy() for name in base.names}

    def _restore_inputs(self, kept: dict[str, Bytes]) -> None:
        for name, memory in kept.items():
            self.runnable.buffer_of(name).array[...] = memory

    def _drop_programs(self) -> None:
        self._forget_plan()
        for programs in self._programs.values():
            programs.close()
        self._programs.clear()
