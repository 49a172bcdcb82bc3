"""A model in the vendor's library, for `Session(device="vendor")`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from openrknn.chips import Chip
from openrknn.container.model import Model
from openrknn.container.writer import encode
from openrknn.errors import UnsupportedError
from openrknn.runtime.cost import cost_of
from openrknn.runtime.engine import Options
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.profile import Profile, describe
from openrknn.runtime.shapes import specs
from openrknn.runtime.vendor.custom import registered
from openrknn.runtime.vendor.program import BoundContext, VendorProgram
from openrknn.vendor.context.context import Context
from openrknn.vendor.errors import CallError
from openrknn.vendor.library.library import Library, default_library
from openrknn.vendor.tables.enums import CoreMask, InitFlag

Source = str | bytes


@dataclass(frozen=True, slots=True)
class VendorDevice:
    """The NPU behind the vendor's library."""

    library: Library
    chip: Chip

    @property
    def name(self) -> str:
        return f"vendor:{self.library.path}"

    @property
    def cores(self) -> int:
        return self.chip.cores


def vendor_library(text: str) -> Library:
    """From "vendor" or "vendor:PATH"."""
    path = text.partition(":")[2]
    return Library(path) if path else default_library()


class VendorEngine:
    """Contexts and programs of one model.

    Runtime 1.5.2 keeps reading an input as it was first bound, and forgets the shapes of a dynamic model once memory
    was bound for another. So each choice of shapes, and within it pixels and stored numbers, gets a context of its own
    when it is first needed. They share weights where the library can, and the memory of inputs and outputs.
    """

    def __init__(self, model: Model, source: Source, context: Context, options: Options) -> None:
        self._root = context
        """Of a dynamic model it stays as it was loaded, and all others are duplicates of it."""
        self._model, self._source, self._options = model, source, options
        self._device = VendorDevice(context.library, model.chip)
        self._homes: dict[int, Context] = {}
        self._bound: dict[tuple[int, frozenset[str]], BoundContext] = {}
        self._graph = 0
        self._programs: dict[int, VendorProgram] = {}
        self._placed: list[VendorProgram] = []
        self._users = [1]
        try:
            if not model.is_dynamic:
                self._set_up(context)
        except BaseException:
            context.close()
            raise

    @classmethod
    def open(cls, model: Model, source: object, library: Library, options: Options) -> VendorEngine:
        """Load a model; `source` is what the user gave, so that the library reads the very same file."""
        chosen = _source(model, source)
        return cls(model, chosen, Context(chosen, library=library), options)

    def share(self, model: Model, options: Options) -> VendorEngine:
        """`rknn_dup_context`, or where that is not possible `rknn_init` with shared weights."""
        if model is not self._model:
            raise ValueError("sessions share weights only if they were given the same Model: load the file once")
        made = VendorEngine(model, self._source, self._another(), options)
        made._users = self._users
        self._users[0] += 1
        return made

    @property
    def device(self) -> VendorDevice:
        return self._device

    @property
    def context(self) -> Context:
        """The one of the current shapes."""
        return self.home(self._graph)

    def home(self, graph: int) -> Context:
        """The context that the memory of a graph belongs to; it has that graph's shapes."""
        if not self._model.is_dynamic:
            return self._root
        if graph not in self._homes:
            self._homes[graph] = self._shaped(graph)
        return self._homes[graph]

    def program(self, graph: int) -> VendorProgram:
        """Made when it is first needed."""
        if graph not in self._programs:
            self._programs[graph] = VendorProgram(self, self._model, self._model.graphs[graph])
        self._graph = graph
        return self._programs[graph]

    def program_in(self, graph: int, places: Mapping[str, object]) -> VendorProgram:
        made = VendorProgram(self, self._model, self._model.graphs[graph], places)
        self._placed.append(made)
        return made

    def profile(self, graph: int, pixels: frozenset[str], runs: int) -> Profile:
        """By the library's own clock, in a context of its own that collects times."""
        ours = self.program(graph)
        seconds: dict[int, float] = {}
        with Context(self._source, InitFlag.COLLECT_PERF_MASK, library=self._root.library) as context:
            other = VendorEngine(self._model, self._source, context, self._options)
            program = other.program(graph)
            for theirs, mine in zip(program.input_memories, ours.input_memories, strict=True):
                theirs.array()[: mine.size_bytes] = mine.array()
            for _ in range(runs):
                program.run(pixels)
                for row in context.perf_detail.operators:
                    seconds[row.number - 1] = seconds.get(row.number - 1, 0.0) + (row.time_us or 0.0) / 1e6 / runs
            other.forget_programs()
        cores = self._options.cores
        cost = cost_of(self._model, cores, self._model.graphs[graph])
        rows = tuple(describe(self._model, self._model.graphs[graph], cost, seconds))
        return Profile(rows, runs, self._device.name, cores, cost)

    def memory(self) -> MemoryReport:
        ends = {"commands": 0, "inputs": 0, "outputs": 0}
        for program in (*self._programs.values(), *self._placed):
            ends = {name: ends[name] + size for name, size in program.sizes().items()}
        size = self.home(self._graph).memory_size
        return MemoryReport(
            weights=size.weights_bytes, internal=size.internal_bytes, weight_users=self._users[0], **ends
        )

    def close(self) -> None:
        self.forget_programs()
        if not self._root.closed:
            self._users[0] -= 1
        for context in (*(bound.context for bound in self._bound.values()), *self._homes.values(), self._root):
            context.close()

    def forget_programs(self) -> None:
        """Give the memory of all programs back."""
        for program in (*self._programs.values(), *self._placed):
            program.close()
        self._programs.clear()
        self._placed.clear()

    def bound_context(self, pixels: frozenset[str], graph: int) -> BoundContext:
        """The context for inputs that are fed in this way, with the shapes of a graph."""
        found = self._bound.get((graph, pixels))
        if found is None:
            is_first = all(other != graph for other, _ in self._bound)
            found = self._bound[graph, pixels] = BoundContext(self.home(graph) if is_first else self._shaped(graph))
        return found

    # ---------------------------------------------------------------------------------------------- inside

    def _another(self) -> Context:
        """A context with the same weights, where the chip can share them; how inputs are read is open again."""
        library = self._root.library
        if self._model.is_dynamic or not self._bound:  # a duplicate inherits what was bound
            try:
                return self._root.duplicate()
            except (ValueError, UnsupportedError):
                pass
        try:
            return Context(self._source, library=library, share_weights=self._root)
        except (UnsupportedError, CallError):  # RV1103 and RV1106; 1.5.2 for dynamic models
            return Context(self._source, library=library)

    def _set_up(self, context: Context) -> None:
        registered(context, self._model, self._options.custom_ops or {})
        self._set_cores(context, self._options)

    def _shaped(self, graph: int) -> Context:
        """Another context, with the shapes of a graph."""
        context = self._another()
        try:
            self._set_up(context)
            if self._model.is_dynamic:
                self._choose(context, graph)
        except BaseException:
            context.close()
            raise
        return context

    def _choose(self, context: Context, graph: int) -> None:
        described = self._model.graphs[graph]
        wanted = specs(self._model, described, inputs=True)
        shapes = []
        for entry, spec, index in zip(context.input_ranges, wanted, described.inputs, strict=True):
            known = {spec.shape, described.tensors[index].shape}
            shapes.append(next((shape for shape in entry.shapes if shape in known), spec.shape))
        context.set_input_shapes(shapes)

    def _set_cores(self, context: Context, options: Options) -> None:
        if options.core_mask is None or self._device.cores == 1:
            return
        try:
            mask = CoreMask(options.core_mask)
        except ValueError:
            known = ", ".join(f"{int(one)} ({one.name})" for one in CoreMask if int(one) < 1 << self._device.cores)
            raise ValueError(f"the vendor's library has no core mask {options.core_mask}; it has {known}") from None
        context.set_core_mask(mask)


def _source(model: Model, given: object) -> Source:
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    return model.path if model.path else encode(model)
