"""`PartedSession`: what `Session` gives for a file of parts."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.chips import chip_named
from openrknn.container.bundle import Bundle, Part, Plan, Port, read_bundle
from openrknn.container.parts import Layout
from openrknn.container.specs import Specs, TensorSpec
from openrknn.device import Device
from openrknn.forks import in_child
from openrknn.npu.budget import Budget
from openrknn.runtime.binding import Binding
from openrknn.runtime.errors import PartsError
from openrknn.runtime.feed import in_order
from openrknn.runtime.io.outputs import OutputKind, Outputs
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.options import core_count
from openrknn.runtime.parted.isolated import CpuHost, IsolatedStep
from openrknn.runtime.parted.measure import PartedProfile, memory_of, profile_of
from openrknn.runtime.parted.state import CarriedArrays
from openrknn.runtime.parted.steps import CpuStep, NpuStep, Step, run_plan
from openrknn.runtime.parted.types import DTYPES, as_type
from openrknn.runtime.runner import NodeArg, node_arg
from openrknn.runtime.session import Session
from openrknn.runtime.state import Carried
from openrknn.runtime.times import RunTimes

_LOG = logging.getLogger(__name__)
_ALONE = "one part alone is a model of its own: Session(session.bundle.files[part.file])"


@dataclass(frozen=True)
class CpuDevice:
    """Where a parted model runs that has no part for the NPU."""

    name: str = "cpu (ONNX Runtime)"


class PartedSession(Session):
    """A file of parts that is ready to run; `Session` makes it by itself when it is given such a file.

    Inputs and outputs have the types of the model that was cut, integers as well. Parts are opened when they first run.
    """

    def __init__(
        self,
        model: Bundle | str | os.PathLike[str] | bytes,
        device: str | Device = "auto",
        *,
        session_options: Any = None,
        in_process: bool = False,
        **options: Any,
    ) -> None:
        """The parts of the CPU run in a process of their own, within the limits `max_memory` and `max_work`.

        `session_options`: an `onnxruntime.SessionOptions` for them; they then run in this process without limits. So
        they do with `in_process`, which is for models that this process has cut itself. The others as for `Session`.
        """
        self._donor = _donor(options.pop("share_weights_with", None))
        self.bundle = model if isinstance(model, Bundle) else read_bundle(model)
        if self._donor is not None and self._donor.bundle.files != self.bundle.files:
            raise ValueError("weights can be shared only by sessions of the same model in parts")
        self.cores = core_count(options.get("cores"), options.get("core_mask"), chip_named(self.bundle.target))
        self._device, self._options, self._cpu_options = device, options, session_options
        self._in_process = in_process or session_options is not None
        shared: CpuHost | None = None if self._donor is None else self._donor._host
        self._host: CpuHost | None = self._new_host() if self._donor is None else shared and shared.join()
        self._lock = threading.RLock()
        self._steps: dict[int, Step] = {}
        self._plan = self.bundle.plans[0]
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self._kept: dict[str, Any] | None = None
        self.times = RunTimes()
        self._fed: dict[str, Any] | None = None
        """What the last run was given."""
        self.part_times: list[tuple[int, float]] = []
        """(part, seconds) of the last run."""
        self.timings: list[tuple[Part, int, int]] | None = None
        """Where a run adds (part, start, stop), in nanoseconds of the monotonic clock."""
        in_child(self, PartedSession._begin_anew)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        """Of the NPU's parts."""
        first = next((number for number in self._plan.parts if self.bundle.parts[number].kind == "npu"), None)
        if first is None:
            return CpuDevice()
        step = self._step(first)
        return step.session.device if isinstance(step, NpuStep) else CpuDevice()

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Session.notes`, of all parts that ran."""
        opened = [self._steps[number] for number in sorted(self._steps)]
        return tuple(
            f"{step.part.file}: {note}" for step in opened if isinstance(step, NpuStep) for note in step.session.notes
        )

    def __getattr__(self, name: str) -> Any:
        """Of what `Session` has and this does not: what to use instead."""
        if name == "model":
            raise PartsError(
                "a model in parts is no single `.rknn`: session.bundle has its parts, session.inputs and "
                f"session.outputs what it takes and gives; {_ALONE}"
            )
        if name == "context":
            raise PartsError(f"a model in parts has no context of the vendor's library; {_ALONE}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def inputs(self) -> Specs:
        """What to feed, for the current shapes: by number, or by name."""
        return Specs(_spec(port, self._plan) for port in self.bundle.inputs)

    @property
    def outputs(self) -> Specs:
        """What comes out, by number or by name; open dimensions that only a run decides are 0."""
        return Specs(_spec(port, self._plan) for port in self.bundle.outputs)

    @property
    def allowed_shapes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The sets of input shapes that there are plans for."""
        return tuple({name: tuple(shape) for name, shape in plan.shapes.items()} for plan in self.bundle.plans)

    def set_shapes(self, wanted: Mapping[str, tuple[int, ...]] | list[tuple[int, ...]] | tuple[int, ...]) -> None:
        """Not needed: `run` chooses by what it is fed. It changes what `inputs` shows."""
        with self._lock:
            self._check_open()
            self._plan = self._plan_for(_by_name(wanted, [port.name for port in self.bundle.inputs]))

    # -- running -------------------------------------------------------------------------------------------------

    def _run(self, inputs: object, layout: Any, pass_through: bool, outputs: OutputKind) -> Outputs:
        """As `Session.run`, with the model's own types."""
        if outputs != "float" or pass_through:
            raise ValueError("a model in parts takes and gives arrays in the model's own types; leave the option out")
        names = [port.name for port in self.bundle.inputs]
        given = dict(zip(names, in_order(inputs, names), strict=True))
        values = {port.name: as_type(given[port.name], port.type, port.name) for port in self.bundle.inputs}
        with self._lock:
            self._check_open()
            return self._compute(values)

    def _output_names(self) -> list[str]:
        return [port.name for port in self.bundle.outputs]

    def _node_arg(self, spec: TensorSpec) -> NodeArg:
        return node_arg(spec, spec.dtype)

    def _compute(self, values: dict[str, Any]) -> Outputs:
        shapes = {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        plan = self._plan_for(shapes)
        self._plan = plan
        self._fed = dict(values)
        values = {name: _fill_up(value, plan.shapes.get(name)) for name, value in values.items()}
        stops: list[tuple[Part, int, int]] = []
        found = run_plan(self.bundle, plan, self._step, values, stops, kept=self._kept)
        self.part_times = [
            (number, (stop - start) / 1e9) for number, (_, start, stop) in zip(plan.parts, stops, strict=True)
        ]  # fmt: skip
        if self.timings is not None:
            self.timings.extend(stops)
        self.times = RunTimes(0.0, sum(seconds for _, seconds in self.part_times), 0.0)
        rows = self._kept_rows(shapes, plan)
        if rows is not None:
            found = {name: value[:rows] for name, value in found.items()}
        types = {port.name: port.type for port in self.bundle.outputs}
        made: dict[str, Any] = {name: as_type(found[name], kind, name) for name, kind in types.items()}
        return Outputs(made)

    def _kept_rows(self, shapes: Mapping[str, tuple[int, ...]], plan: Plan) -> int | None:
        """How many rows are real, where the plan is for more of them."""
        for name in self.bundle.padded:
            planned = plan.shapes.get(name)
            if planned is not None and shapes[name] != planned:
                return shapes[name][0]
        return None

    def _plan_for(self, shapes: Mapping[str, Sequence[int]]) -> Plan:
        fallback = None
        for plan in self.bundle.plans:
            if not plan.shapes:
                fallback = plan
            elif all(tuple(shapes.get(name, ())) == tuple(shape) for name, shape in plan.shapes.items()):
                return plan
        larger = [plan for plan in self.bundle.plans if self._fits(shapes, plan)]
        if larger:
            return min(larger, key=lambda plan: max(shape[0] for shape in plan.shapes.values()))
        if fallback is not None:
            return fallback
        known = "; ".join(str(entry) for entry in self.allowed_shapes)
        raise ValueError(f"inputs of the shapes {dict(shapes)} were given; the file has parts for {known}")

    def takes(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether inputs of these shapes can be run, filled up with rows where that changes nothing."""
        return any(
            not plan.shapes or plan.shapes == {name: tuple(shape) for name, shape in shapes.items()}
            or self._fits(shapes, plan)
            for plan in self.bundle.plans
        )  # fmt: skip

    def _fits(self, shapes: Mapping[str, Sequence[int]], plan: Plan) -> bool:
        """Whether rows of zeros make the inputs fit, and change nothing else."""
        if not self.bundle.padded or not plan.shapes:
            return False
        for name, planned in plan.shapes.items():
            given = tuple(shapes.get(name, ()))
            if given == planned:
                continue
            if name not in self.bundle.padded or given[1:] != planned[1:] or not 0 < given[0] < planned[0]:
                return False
        return True

    @property
    def plan(self) -> Plan:
        """The order of parts that ran last, or runs next."""
        return self._plan

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs as the plan for their shapes takes them: with rows of zeros where those change nothing else."""
        shapes = {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        plan = self._plan_for(shapes)
        return {name: _fill_up(value, plan.shapes.get(name)) for name, value in values.items()}

    def run_part(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """One part alone, on the values that it reads; what it makes, by name."""
        with self._lock:
            self._check_open()
            part = self.bundle.parts[number]
            lost = [name for name in part.inputs if name not in values]
            if lost:
                raise ValueError(f"part {number} reads {lost[0]!r}, which was not given")
            found = self._step(number).run([values[name] for name in part.inputs])
            return dict(zip(part.outputs, found, strict=True))

    def values(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run once and keep what crosses the borders between parts: everything that a part reads or makes."""
        kept: dict[str, Any] = {}
        with self._lock:
            self._kept = kept
            try:
                found = self.run(dict(inputs))
            finally:
                self._kept = None
        return {**kept, **found}

    def bind(
        self, *, pixels: bool = True, inputs: Mapping[str, object] | None = None,
        outputs: Mapping[str, object] | None = None, graph: int | None = None,
    ) -> Binding:  # fmt: skip
        """Not possible: the memory of inputs and outputs belongs to several parts."""
        raise PartsError(f"the tensors of a model in parts have no memory to bind; use run(); {_ALONE}")

    def carry(self, pairs: Mapping[str, str], *, layout: str | Mapping[str, str] | None = None) -> Carried:
        """As `Session.carry`; the states are arrays that go back in, in the shapes of the model that was cut."""
        with self._lock:
            self._check_open()
            shapes = {spec.name: spec.shape for spec in (*self.inputs, *self.outputs)}
            return CarriedArrays(pairs, (self.bundle.inputs, self.bundle.outputs), shapes, self.run, layout)

    def profile(self, inputs: object = None, *, runs: int = 1) -> PartedProfile:
        """Seconds of each part, and of each operator of the NPU's; on `inputs`, or on what the last run was given."""
        if runs < 1:
            raise ValueError(f"{runs} runs cannot be measured")
        with self._lock:
            self._check_open()
            if inputs is None and self._fed is None:
                raise ValueError("nothing was run yet; give inputs")
            fed = self._fed if inputs is None else inputs
            seconds: dict[int, float] = {}
            for _ in range(runs):
                self.run(fed)
                for number, took in self.part_times:
                    seconds[number] = seconds.get(number, 0.0) + took / runs
            return profile_of(self._plan, seconds, self._step, runs, (self.device.name, self.cores))

    # -- resources -----------------------------------------------------------------------------------------------

    def memory(self) -> MemoryReport:
        """Bytes on the device, of the NPU's parts for the current shapes. What ONNX Runtime takes is not known."""
        with self._lock:
            self._check_open()
            return memory_of(self._plan, self._step)

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            was_closed, self._closed = self._closed, True
            for step in self._steps.values():
                step.close()
            self._steps.clear()
            if self._host is not None and not was_closed:
                self._host.leave()

    def __repr__(self) -> str:
        kinds = [part.kind for part in self.bundle.parts]
        state = "closed" if self._closed else f"{kinds.count('npu')} NPU and {kinds.count('cpu')} CPU parts"
        return f"<Session {self.bundle.path or 'from bytes'} {state}>"

    def _step(self, number: int) -> Step:
        with self._lock:
            self._check_open()
            if number not in self._steps:
                self._steps[number] = self._new_step(number)
            return self._steps[number]

    def _new_step(self, number: int) -> Step:
        part = self.bundle.parts[number]
        data = self.bundle.files[part.file]
        donor = self._donor._step(number) if self._donor is not None else None
        if isinstance(donor, CpuStep | IsolatedStep):
            return donor.shared()
        if isinstance(donor, NpuStep):
            shared = donor.session
            return NpuStep(part, data, lambda _: Session(shared.model, share_weights_with=shared, **self._options))
        if part.kind == "npu":
            return NpuStep(part, data, lambda data: Session(data, self._device, **self._options))
        if self._host is not None:
            return IsolatedStep(part, number, self._host)
        return CpuStep(part, data, self._cpu_options)

    def _new_host(self) -> CpuHost | None:
        """One process for all CPU parts of the file, started by the first one that runs."""
        if self._in_process:
            return None
        files = {
            number: self.bundle.files[part.file] for number, part in enumerate(self.bundle.parts) if part.kind == "cpu"
        }
        size = sum(len(data) for data in self.bundle.files.values())
        work, memory = self._options.get("max_work"), self._options.get("max_memory")
        return CpuHost(Budget.for_file(size, work=work, memory=memory), files) if files else None


def _donor(other: object) -> PartedSession | None:
    if other is None:
        return None
    if not isinstance(other, PartedSession):
        raise ValueError("weights can be shared only by sessions of the same model in parts")
    other._check_open()
    return other


def _spec(port: Port, plan: Plan) -> TensorSpec:
    shape = plan.shapes.get(port.name) or tuple(size if isinstance(size, int) else 0 for size in port.shape)
    kind = DTYPES.get(port.type)
    return TensorSpec(port.name, tuple(shape), np.dtype(kind).name if kind else port.type, Layout.UNDEFINED.label)


def _by_name(wanted: Any, names: list[str]) -> dict[str, tuple[int, ...]]:
    if isinstance(wanted, Mapping):
        return {str(name): tuple(shape) for name, shape in wanted.items()}
    shapes = [wanted] if wanted and isinstance(wanted[0], int) else list(wanted)
    if len(shapes) != len(names):
        raise ValueError(f"{len(shapes)} shapes were given; the model has {len(names)} inputs: {', '.join(names)}")
    return {name: tuple(shape) for name, shape in zip(names, shapes, strict=True)}


def _fill_up(value: Any, planned: tuple[int, ...] | None) -> Any:
    if planned is None or not isinstance(value, np.ndarray) or value.shape == planned:
        return value
    more = np.zeros((planned[0] - value.shape[0], *planned[1:]), value.dtype)
    return np.concatenate([value, more])
