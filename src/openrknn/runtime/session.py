"""`Session`: a model bound to a device."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openrknn.container.bundle import Bundle, is_bundle
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.specs import Specs
from openrknn.device import Device
from openrknn.errors import UnsupportedError
from openrknn.forks import in_child
from openrknn.names import OwnSignature, meant, refuse_unknown
from openrknn.runtime import shapes
from openrknn.runtime.automatic import named_device
from openrknn.runtime.binding import Binding
from openrknn.runtime.engine import Engine, LocalEngine, Options, Runnable, SessionDevice
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.feed import compute, in_order, layouts_in_order
from openrknn.runtime.io.input_warnings import InputWarnings
from openrknn.runtime.io.outputs import OutputKind, Outputs
from openrknn.runtime.io.user_memory import without_frames
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.options import budget_for, core_count
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.runtime.runner import Runner
from openrknn.runtime.state import Carried, CarriedProgram
from openrknn.runtime.times import RunTimes

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from openrknn.npu import IgnoredNote
    from openrknn.runtime.inspector import Inspector, Window
    from openrknn.runtime.profile import Profile
    from openrknn.vendor.context.context import Context

_LOG = logging.getLogger(__name__)


class Session(Runner):
    """A model that is ready to run.

        with Session("yolo.rknn") as session:
            outputs = session.run({"images": frame})        # name or number -> float32 array in the original shape

    `device` is "auto", "software", "software:rk3588", "rknpu", "rocket", "vendor" (the vendor's library, as
    `openrknn.vendor` finds it), "vendor:/path/to/librknnrt.so", or an open `Device`, which then stays open. `cores` (or
    the bits of `core_mask`) says how many cores share each run. `custom_ops` brings functions for operators of the CPU
    that openrknn does not have, or replaces its own. `share_weights_with` is another session of the same model, whose
    weights and device this one uses too. Bits and words that boards are recorded to ignore are in `notes`; with
    `strict` the software NPU refuses them. What may change a result it refuses always.

    A hostile file could ask for hours of work or for all memory. `max_work` (operations of one run) and `max_memory`
    (bytes of each: internal memory, inputs and outputs, the intermediate results of a task) bound it; what is beyond
    raises `BudgetError` before it is allocated or run. The defaults grow with the file and are far above what real
    models need; OPENRKNN_MAX_WORK and OPENRKNN_MAX_MEMORY replace them.

    One session runs one thing at a time, from whichever thread; a `SessionPool` runs several. A file of parts
    (`openrknn compile --partition`) gives a `PartedSession`, which runs them as one model.
    """

    __signature__ = OwnSignature()

    def __new__(cls, model: object = None, *_arguments: object, **options: object) -> Session:
        """A file of parts has a session of its own kind."""
        if cls is Session:
            refuse_unknown("Session", {name: 0 for name in options if name != "session_options"}, Session.__init__)
        if cls is Session and (isinstance(model, Bundle) or is_bundle(model)):
            from openrknn.runtime.parted.session import PartedSession  # here: it stands on this module

            return object.__new__(PartedSession)
        return object.__new__(cls)

    def __init__(
        self,
        model: Model | Bundle | str | os.PathLike[str] | bytes,
        device: str | Device = "auto",
        *,
        cores: int | None = None,
        core_mask: int | None = None,
        custom_ops: Mapping[str, CustomOperator] | None = None,
        share_weights_with: Session | None = None,
        strict: bool = False,
        max_work: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        if isinstance(model, Bundle):
            raise TypeError("a model in parts makes a PartedSession; give it to Session itself, not to a subclass")
        self.model = model if isinstance(model, Model) else load(model)
        """What it runs."""
        self.cores = core_count(cores, core_mask, self.model.chip)
        """How many cores share each run."""
        self._lock = threading.RLock()
        in_child(self, Session._begin_anew)
        self._bindings: list[Binding] = []
        self._carried: list[CarriedProgram] = []
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self._pixels: frozenset[str] = frozenset()
        """The inputs that hold raw pixels since the last run."""
        self._watch = InputWarnings()
        self.times = RunTimes()
        """Where the time of the last `run` went."""
        self._last: Runnable | None = None
        """What ran last."""
        mask = core_mask if core_mask is not None or cores is None else (1 << cores) - 1
        budget = budget_for(self.model, max_work, max_memory)
        options = Options(self.cores, mask, dict(custom_ops or {}), strict, budget)
        self._engine: Engine = _open(self.model, model, device, share_weights_with, options)
        self._graph = 0
        try:
            self._program: Runnable = self._engine.program(0)
        except BaseException:
            self._release()
            raise
        if device == "auto":
            _LOG.info("device auto: took %s", self.device.name)
        _LOG.info("%s on %s, %d core(s)", self.model.path or "model from bytes", self.device.name, self.cores)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> SessionDevice:
        """Where it runs; `device.name` says which one "auto" took."""
        return self._engine.device

    @property
    def notes(self) -> tuple[str, ...]:
        """What the commands that ran hold and boards are recorded to ignore, each with the run that shows it."""
        found: tuple[IgnoredNote, ...] = getattr(self.device, "findings", ())
        return tuple(f"{finding.text} (task {finding.task}; ignored by {finding.run})" for finding in found)

    @property
    def context(self) -> Context:
        """The vendor's context below a session on "vendor": everything else that the C API can do."""
        context: Context | None = getattr(self._engine, "context", None)
        if context is None:
            raise AttributeError(f"a session on {self.device.name} has no context of the vendor's library")
        return context

    @property
    def inputs(self) -> Specs:
        """What to feed, for the current shapes: by number, or by name (`session.inputs["image"]`)."""
        return shapes.specs(self.model, self.model.graphs[self._graph], inputs=True)

    @property
    def outputs(self) -> Specs:
        """What comes out, for the current shapes: by number, or by name (`session.outputs["logits"]`)."""
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
                self._program = self._engine.program(graph)
                self._graph = graph

    # -- running -------------------------------------------------------------------------------------------------

    def _run(
        self, inputs: object, layout: str | Mapping[str, str] | None, pass_through: bool, outputs: OutputKind
    ) -> Outputs:
        with self._lock:
            self._check_open()
            program = self._program
            values = in_order(inputs, program.names)
            layouts = None if layout is None else layouts_in_order(layout, program.names)
            results, self.times = compute(
                program, values, layouts, self._execute, pass_through=pass_through, outputs=outputs, watch=self._watch
            )
            return results

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            self._check_open()
            if self._worker is None:
                from concurrent.futures import ThreadPoolExecutor

                self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openrknn-session")
            return self._worker

    def _output_names(self) -> list[str]:
        return [port.name for port in self._program.outputs]

    def bind(
        self,
        *,
        pixels: bool = True,
        inputs: Mapping[str, object] | None = None,
        outputs: Mapping[str, object] | None = None,
        graph: int | None = None,
    ) -> Binding:
        """Views of the input and output memory, to fill and read without copies; see `Binding`.

        `inputs` and `outputs` put tensors into memory of your own: a `DmaBuf` (of a camera, a decoder, another
        session; its `stride` has to be the one that the NPU reads), a `VideoFrame` of RGB pixels in one, on the
        software NPU also a NumPy array of the tensor's type or of bytes, on "vendor" also a
        `TensorMemory` of `session.context`. `graph`: of a model with several shapes, the number of their graph; left
        alone: the current shapes.
        """
        with self._lock:
            self._check_open()
            if self.model.batch_size > 1:
                raise ValueError("the items of a batch (rknn_batch_size) take turns in the same memory; use run")
            number = self._graph if graph is None else graph
            if not 0 <= number < len(self.model.graphs):
                raise ValueError(f"there is no graph {number}; the model has {len(self.model.graphs)}")
            program = self._engine.program(number)
            shapes_in_memory = {port.name: port.pixels.shape for port in program.inputs}
            places = without_frames(_places(program, inputs or {}, outputs or {}), shapes_in_memory)
            program = self._engine.program_in(number, places) if places else program
            made = Binding(program, self._run_bound, pixels=pixels, owned=bool(places), export=self._export)
            self._bindings.append(made)
            return self._bindings[-1]

    def _export(self, program: Runnable, name: str) -> int:
        """The memory of a tensor as a descriptor of the caller's."""
        export, buffer_of = getattr(self.device, "export", None), getattr(program, "buffer_of", None)
        descriptor: int | None = None if export is None or buffer_of is None else export(buffer_of(name))
        if descriptor is None:
            raise UnsupportedError(
                f"{self.device.name} does not export its memory; bind a DmaBuf of your own (inputs={{{name!r}: ...}})"
            )
        return descriptor

    def carry(self, pairs: Mapping[str, str], *, layout: str | Mapping[str, str] | None = None) -> Carried:
        """Steps of a recurrent model: outputs that become inputs of the next step stay on the device; see `Carried`.

        `pairs`: output -> input. Several can be carried at once, each with states of its own; `run` does not touch
        them. They are good until the session is closed or gets other shapes. `layout`, for all states or by input:
        "nchw" or "nhwc", where a state of four dimensions can be both by its shape.
        """
        with self._lock:
            self._check_open()
            if self.model.batch_size > 1:
                raise ValueError("the items of a batch (rknn_batch_size) take turns in the same memory; use run")
            self._carried.append(CarriedProgram(self._engine, self._graph, pairs, self._run_bound, layout))
            return self._carried[-1]

    def profile(self, inputs: object = None, *, runs: int = 1) -> Profile:
        """Time and work of each operator, run one by one on `inputs`, or on what the last run left in the inputs."""
        if runs < 1:
            raise ValueError(f"{runs} runs cannot be measured")
        with self._lock:
            self._check_open()
            if inputs is not None:
                self.run(inputs)
            return self._engine.profile(self._graph, self._pixels, runs)

    # -- resources -----------------------------------------------------------------------------------------------

    def memory(self) -> MemoryReport:
        """Bytes on the device."""
        with self._lock:
            self._check_open()
            return self._engine.memory()

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        worker = self._worker
        if worker is not None:
            worker.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            if not self._closed:
                self._release()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"on {self.device.name}, {self.cores} core(s)"
        return f"<Session {self.model.path or 'from bytes'} {state}>"

    def _begin_anew(self) -> None:
        """In a forked process: no other thread runs it, and the worker stayed behind."""
        self._lock = threading.RLock()
        self._worker = None

    def _execute(self, program: Runnable, pixels: frozenset[str]) -> None:
        if program is not self._last:
            program.forget()
            self._last = program
        self._pixels = pixels
        program.run(pixels)

    def _run_bound(self, program: Runnable, pixels: frozenset[str]) -> None:
        with self._lock:
            if self._closed:
                self._check_open()
            self._execute(program, pixels)

    def _unbind(self) -> None:
        for binding in self._bindings:
            binding.close()
        self._bindings.clear()
        for carried in self._carried:
            carried.close()
        self._carried.clear()
        self._pixels = frozenset()
        self._last = None

    def _release(self) -> None:
        self._closed = True
        self._unbind()
        self._engine.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the session is closed; open another one")


def _open(model: Model, source: object, device: str | Device, donor: Session | None, options: Options) -> Engine:
    if donor is not None:
        donor._check_open()
        if not isinstance(device, str) and device is not donor.device:
            raise ValueError("sessions that share weights share the device as well; leave device= out")
        return donor._engine.share(model, options)
    if isinstance(device, str):
        device = named_device(device, model.chip)
        if device.partition(":")[0] == "vendor":
            from openrknn.runtime.vendor.engine import VendorEngine, vendor_library  # here: few need it

            return VendorEngine.open(model, source, vendor_library(device), options)
    return LocalEngine.open(model, device, options)


def _places(program: Runnable, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> dict[str, object]:
    """Memory by tensor, after making sure that there are such tensors."""
    for kind, given, ports in (("input", inputs, program.inputs), ("output", outputs, program.outputs)):
        known = [port.name for port in ports]
        unknown = [name for name in given if name not in known]
        if unknown:
            near = meant(unknown[0], known)
            raise ValueError(f"no {kind} is called {unknown[0]!r}; the model has {', '.join(known)}{near}")
    return {**inputs, **outputs}


def inspector_of(session: Session, windows: Mapping[str, Window] | None = None) -> Inspector:
    """The operators of a session one by one, for its current shapes, in its memory. The session stays open."""
    from openrknn.runtime.inspector import Inspector  # here: few need it

    engine = session._engine
    if not isinstance(engine, LocalEngine) or session.cores != 1:
        raise UnsupportedError(f"operators run one by one on one core of our own runtime, not in {session!r}")
    return Inspector(session.model, graph=session._graph, windows=windows, engine=engine)
