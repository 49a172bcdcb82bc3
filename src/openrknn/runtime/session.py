"""`Session`: a model bound to a device."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from types import TracebackType

from openrknn.container.load import load
from openrknn.container.model import Model, TensorSpec
from openrknn.container.sizes import internal_bytes
from openrknn.device import Device, DeviceBuffer
from openrknn.runtime import shapes
from openrknn.runtime.binding import Binding
from openrknn.runtime.cpu import CustomOperator
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.feed import feed, in_order, join_batch, layouts_in_order, split_batch
from openrknn.runtime.memory import MemoryReport, memory_report
from openrknn.runtime.options import core_count, open_store
from openrknn.runtime.outputs import OutputKind, check_kind
from openrknn.runtime.profile import Profile, RunTimes, measure
from openrknn.runtime.program import Program
from openrknn.runtime.tensors import Array
from openrknn.runtime.weights import WeightStore

__all__ = ["Session"]

_LOG = logging.getLogger(__name__)


class Session:
    """A model that is ready to run.

        with Session("yolo.rknn") as session:
            outputs = session.run({"images": frame})        # dict: name -> float32 array in the original shape

    `device` is "auto", "software", "software:rk3588" or an open `Device`, which then stays open. `cores` (or the bits
    of `core_mask`) says how many cores share each run. `custom_ops` brings functions for operators of the CPU that
    openrknn does not have, or replaces its own. `share_weights_with` is another session of the same model, whose
    weights and device this one uses too. `strict=False` lets the software NPU pass over what it does not know.

    One session runs one thing at a time, from whichever thread; a `SessionPool` runs several.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | bytes,
        device: str | Device = "auto",
        *,
        cores: int | None = None,
        core_mask: int | None = None,
        custom_ops: Mapping[str, CustomOperator] | None = None,
        share_weights_with: Session | None = None,
        strict: bool = True,
    ) -> None:
        self.model = model if isinstance(model, Model) else load(model)
        self.cores = core_count(cores, core_mask, self.model.chip)
        self._custom_ops = dict(custom_ops or {})
        self._lock = threading.RLock()
        self._programs: dict[int, Program] = {}
        self._bindings: list[Binding] = []
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self._pixels: frozenset[str] = frozenset()
        """The inputs that hold raw pixels since the last run."""
        self.times = RunTimes()
        """Where the time of the last `run` went."""
        self._store: WeightStore = open_store(self.model, device, _weights_of(share_weights_with), strict=strict)
        self._internal: DeviceBuffer | None = None
        try:
            size = max((internal_bytes(graph) for graph in self.model.graphs), default=0)
            if size:
                self._internal = self._store.device.allocate(size, "internal")
            self._graph = 0
            self._program()
        except BaseException:
            self._release()
            raise
        _LOG.info("%s on %s, %d core(s)", self.model.path or "model from bytes", self.device.name, self.cores)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """Where it runs; `device.name` says which one "auto" took."""
        return self._store.device

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What to feed, for the current shapes."""
        return shapes.specs(self.model, self.model.graphs[self._graph], inputs=True)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What comes out, for the current shapes."""
        return shapes.specs(self.model, self.model.graphs[self._graph], inputs=False)

    @property
    def allowed_shapes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The sets of input shapes that the model was built for: one, or several if they are dynamic."""
        return shapes.allowed_shapes(self.model)

    def set_shapes(self, wanted: Mapping[str, tuple[int, ...]] | list[tuple[int, ...]] | tuple[int, ...]) -> None:
        """Choose the input shapes of a dynamic-shape model, by name, in order, or for the only input."""
        with self._lock:
            self._check_open()
            graph = shapes.graph_for(self.model, wanted)
            if graph != self._graph:
                self._unbind()
                self._graph = graph
                self._program()

    # -- running -------------------------------------------------------------------------------------------------

    def run(
        self,
        inputs: object,
        *,
        layout: str | Mapping[str, str] | None = None,
        pass_through: bool = False,
        outputs: OutputKind = "float",
    ) -> dict[str, Array]:
        """Run the model once.

        `inputs`: one array, a list or tuple in the model's order, or a dict by name. uint8 pictures go in as they are;
        the model subtracts mean and divides by std itself. Other numbers are normalized and quantized as the model
        says. NHWC and NCHW are told apart by the shape, or by `layout` where it does not tell. With `pass_through` the
        arrays are bytes in the model's own type and memory layout.

        `outputs`: "float" (float32 in the original shape), "raw" (stored elements in the original shape) or "native"
        (the memory itself, [N, C1, H, W, C2] and no copy: the next run writes into it).
        """
        check_kind(outputs)
        with self._lock:
            self._check_open()
            program = self._program()
            names = [port.name for port in program.inputs]
            values = in_order(inputs, names)
            layouts = layouts_in_order(layout, names)
            items = split_batch(values, names, self.model.batch_size)
            results = []
            feeding = running = reading = 0.0
            for item in items:
                started = perf_counter()
                self._pixels = feed(program, item, layouts, pass_through=pass_through)
                fed = perf_counter()
                program.run(self._pixels)
                ran = perf_counter()
                results.append({port.name: port.read(outputs) for port in program.outputs})
                if len(items) > 1 and outputs == "native":
                    results[-1] = {name: value.copy() for name, value in results[-1].items()}
                feeding, running, reading = feeding + fed - started, running + ran - fed, reading + perf_counter() - ran
            self.times = RunTimes(feeding, running, reading)
            return join_batch(results)

    def run_async(self, inputs: object, **options: object) -> Future[dict[str, Array]]:
        """`run` in a thread of the session; runs of one session follow each other."""
        with self._lock:
            self._check_open()
            if self._worker is None:
                self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openrknn-session")
            return self._worker.submit(self.run, inputs, **options)  # type: ignore[arg-type]

    def bind(self, *, pixels: bool = True) -> Binding:
        """Views of the input and output memory, to fill and read without copies; see `Binding`."""
        with self._lock:
            self._check_open()
            if self.model.batch_size > 1:
                raise ValueError("the items of a batch (rknn_batch_size) take turns in the same memory; use run")
            self._bindings.append(Binding(self._program(), self._run_bound, pixels=pixels))
            return self._bindings[-1]

    def profile(self, inputs: object = None, *, runs: int = 1) -> Profile:
        """Time and work of each operator, run one by one on `inputs`, or on what the last run left in the inputs."""
        if runs < 1:
            raise ValueError(f"{runs} runs cannot be measured")
        with self._lock:
            self._check_open()
            if inputs is not None:
                self.run(inputs)
            return measure(self._program(), self._pixels, runs=runs, device=self.device.name, cores=self.cores)

    # -- resources -----------------------------------------------------------------------------------------------

    def memory(self) -> MemoryReport:
        """Bytes on the device."""
        with self._lock:
            self._check_open()
            return memory_report(self._store, self._internal, self._programs.values())

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        worker = self._worker
        if worker is not None:
            worker.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            if not self._closed:
                self._release()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"on {self.device.name}, {self.cores} core(s)"
        return f"<Session {self.model.path or 'from bytes'} {state}>"

    def _program(self) -> Program:
        """The program of the current graph; made when it is first needed."""
        if self._graph not in self._programs:
            self._programs[self._graph] = Program(
                self.model,
                self.model.graphs[self._graph],
                self._store,
                self._internal,
                cores=self.cores,
                custom_ops=self._custom_ops,
            )
        return self._programs[self._graph]

    def _run_bound(self, binding: Binding) -> None:
        with self._lock:
            self._check_open()
            self._pixels = binding.pixels
            binding.execute(self._program())

    def _unbind(self) -> None:
        for binding in self._bindings:
            binding.program = None
        self._bindings.clear()
        self._pixels = frozenset()

    def _release(self) -> None:
        self._closed = True
        self._unbind()
        for program in self._programs.values():
            program.close()
        self._programs.clear()
        if self._internal is not None:
            self._store.device.free(self._internal)
            self._internal = None
        self._store.release()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the session is closed; open another one")


def _weights_of(other: Session | None) -> WeightStore | None:
    if other is None:
        return None
    other._check_open()
    return other._store
