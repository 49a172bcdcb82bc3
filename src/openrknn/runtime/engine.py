"""What a session runs on: our own programs on a device, or the vendor's library. A session sees no difference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openrknn import collecting
from openrknn.chips import Chip
from openrknn.container.model import Model
from openrknn.container.sizes import internal_bytes
from openrknn.device import Device, DeviceBuffer
from openrknn.device.protocol import Bytes
from openrknn.errors import UnsupportedError
from openrknn.npu.budget import UNLIMITED, Budget
from openrknn.records import dataclass
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import row_bytes, stored_type
from openrknn.runtime.io.user_memory import DmaBuf, as_bytes, check_stride
from openrknn.runtime.memory import MemoryReport, memory_report
from openrknn.runtime.options import open_store
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.runtime.program.program import Program
from openrknn.runtime.program.weights import WeightStore

if TYPE_CHECKING:
    from openrknn.runtime.profile import Profile


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `Session` that concern the engine."""

    cores: int = 1
    core_mask: int | None = None
    """The mask itself; None: whatever the device likes."""
    custom_ops: Mapping[str, CustomOperator] | None = None
    strict: bool = False
    """Refuse what boards are recorded to ignore."""
    budget: Budget = UNLIMITED
    """How much work and memory a run may ask for."""


class SessionDevice(Protocol):
    """What every device knows about itself."""

    @property
    def name(self) -> str: ...

    @property
    def chip(self) -> Chip: ...

    @property
    def cores(self) -> int: ...


Lane = tuple[Sequence[InputPort], Sequence[OutputPort]]
"""Inputs and outputs of one item of a batch."""


class Runnable(Protocol):
    """One graph with its memory."""

    @property
    def model(self) -> Model: ...

    @property
    def names(self) -> Sequence[str]:
        """Of the inputs."""

    @property
    def batch(self) -> int:
        """Items of one run if there are several (`rknn_batch_size`), else 0."""

    @property
    def inputs(self) -> Sequence[InputPort]: ...

    @property
    def outputs(self) -> Sequence[OutputPort]: ...

    @property
    def lanes(self) -> Sequence[Lane]:
        """The items that one run computes."""

    def run(self, pixels: frozenset[str]) -> None:
        """Execute it on what the inputs hold; `pixels` names those that hold raw pixels."""

    def forget(self) -> None:
        """Another program of the same session ran since the last run of this one."""

    def close(self) -> None:
        """Give its memory back."""


class Engine(Protocol):
    """A model on a device."""

    @property
    def device(self) -> SessionDevice: ...

    def program(self, graph: int) -> Runnable:
        """The graph with these shapes, ready to run."""

    def program_in(self, graph: int, places: Mapping[str, object]) -> Runnable:
        """`program` with some inputs and outputs in user memory."""

    def profile(self, graph: int, pixels: frozenset[str], runs: int) -> Profile: ...

    def memory(self) -> MemoryReport: ...

    def share(self, model: Model, options: Options) -> Engine:
        """Another engine with the same weights."""

    def close(self) -> None: ...


class LocalEngine:
    """Our own programs on the software NPU or on a kernel driver."""

    def __init__(self, model: Model, store: WeightStore, options: Options) -> None:
        self._model, self._store, self._options = model, store, options
        self._programs: dict[int, Program] = {}
        self._internal: DeviceBuffer | None = None
        try:
            size = max((internal_bytes(graph) for graph in model.graphs), default=0)
            options.budget.check_memory(size, "internal memory")
            if size:
                self._internal = store.device.allocate(size, "internal")
        except BaseException:
            store.release()
            raise

    @classmethod
    def open(cls, model: Model, device: str | Device, options: Options) -> LocalEngine:
        """On a new device, or on one that is open."""
        return cls(model, open_store(model, device, None, strict=options.strict, budget=options.budget), options)

    def share(self, model: Model, options: Options) -> LocalEngine:
        self._store.join(model)
        return LocalEngine(model, self._store, options)

    @property
    def device(self) -> Device:
        return self._store.device

    @property
    def internal(self) -> Bytes:
        """The memory of the tensors between the operators."""
        return self._internal.array if self._internal is not None else np.zeros(0, np.uint8)

    def program(self, graph: int) -> Program:
        """Made when it is first needed."""
        if graph not in self._programs:
            self._programs[graph] = self._make(graph, {})
        return self._programs[graph]

    def program_in(self, graph: int, places: Mapping[str, object]) -> Program:
        """User memory is seen by the device as it is; buffers of the device (of another program, say) are shared."""
        borrowed = {name: memory for name, memory in places.items() if isinstance(memory, DeviceBuffer)}
        adopt = getattr(self.device, "adopt", None)
        import_dma_buf = getattr(self.device, "import_dma_buf", None)
        for name, memory in places.items():
            is_possible = adopt or (import_dma_buf and isinstance(memory, DmaBuf))
            if name not in borrowed and not is_possible:
                kinds = "dma-bufs only" if import_dma_buf else "only its own memory"
                raise UnsupportedError(
                    f"{self.device.name} can bind {kinds}; bind without inputs= and outputs= and fill the views"
                )
        described = self._model.graphs[graph]
        tensors = {described.tensors[i].name: described.tensors[i] for i in (*described.inputs, *described.outputs)}
        adopted: dict[str, DeviceBuffer] = {}
        try:
            for name, memory in places.items():
                if name in borrowed:
                    continue
                tensor = tensors[name]
                if isinstance(memory, DmaBuf):
                    check_stride(memory, name, row_bytes(tensor))
                view = as_bytes(memory, name, tensor.size_bytes, stored_type(tensor))
                if adopt is not None:
                    adopted[name] = adopt(view, name)
                elif import_dma_buf is not None and isinstance(memory, DmaBuf):
                    adopted[name] = import_dma_buf(memory.fd, memory.offset, view, name)
            return self._make(graph, {**adopted, **borrowed}, borrowed)
        except BaseException:
            for buffer in adopted.values():
                self.device.free(buffer)
            raise

    def profile(self, graph: int, pixels: frozenset[str], runs: int) -> Profile:
        from openrknn.runtime.profile import measure  # here: few need it, and it brings the cost model

        return measure(self.program(graph), pixels, runs=runs, device=self.device, cores=self._options.cores)

    def memory(self) -> MemoryReport:
        programs: Iterable[Program] = self._programs.values()
        return memory_report(self._store, self._internal, programs)

    def forget_programs(self) -> None:
        """Programs are made again when they are needed: with other custom operators, or in other memory."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()

    def has_intact_weights(self) -> bool:
        """Whether no task has changed them."""
        return self._store.is_intact()

    def weights(self) -> Bytes:
        """The constants as they are on the device."""
        self._store.complete()
        self._store.is_exposed = True
        buffer = self._store.buffer
        return buffer.array[: self._store.size_bytes] if buffer is not None else np.zeros(0, np.uint8)

    def use_internal(self, memory: Bytes) -> bool:
        """Keep the tensors between the operators in memory that exists already; whether the device can."""
        adopt = getattr(self.device, "adopt", None)
        size = max((internal_bytes(graph) for graph in self._model.graphs), default=0)
        if adopt is None or self._internal is None or memory.nbytes < size:
            return False
        self.forget_programs()
        before, self._internal = self._internal, adopt(memory, "internal")
        self.device.free(before)
        return True

    def use_weights(self, memory: Bytes) -> bool:
        """Keep the constants in memory that exists already; whether the device can, and they are not shared."""
        if not self._store.can_move(memory):
            return False
        self.forget_programs()
        self._store.move(memory)
        return True

    def close(self) -> None:
        self.forget_programs()
        if self._internal is not None:
            self._store.device.free(self._internal)
            self._internal = None
        self._store.release()

    @collecting.paused()
    def _make(self, graph: int, places: Mapping[str, DeviceBuffer], borrowed: Collection[str] = ()) -> Program:
        return Program(
            self._model,
            self._model.graphs[graph],
            self._store,
            self._internal,
            cores=self._options.cores,
            custom_ops=self._options.custom_ops or {},
            places=places,
            borrowed=borrowed,
            budget=self._options.budget,
        )
