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

from openrknn.container.bundle import Bundle, Part, Plan, Port, read_bundle
from openrknn.container.model import TensorSpec
from openrknn.container.parts import Layout
from openrknn.device import Device
from openrknn.forks import in_child
from openrknn.runtime.feed import in_order, output_names
from openrknn.runtime.parted.steps import CpuStep, NpuStep, Step, run_plan
from openrknn.runtime.parted.types import DTYPES, as_type
from openrknn.runtime.profile import RunTimes
from openrknn.runtime.session import Session

__all__ = ["CpuDevice", "PartedSession"]

_LOG = logging.getLogger(__name__)


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
        **options: Any,
    ) -> None:
        """`session_options`: an `onnxruntime.SessionOptions` for the parts of the CPU; the others as for `Session`."""
        if options.get("share_weights_with") is not None:
            raise ValueError("a model in parts has no weights to share; open it once and use it from all threads")
        options.pop("share_weights_with", None)
        self.bundle = model if isinstance(model, Bundle) else read_bundle(model)
        self._device, self._options, self._cpu_options = device, options, session_options
        self._lock = threading.RLock()
        self._steps: dict[int, Step] = {}
        self._plan = self.bundle.plans[0]
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self.times = RunTimes()
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
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What to feed, for the current shapes."""
        return tuple(_spec(port, self._plan) for port in self.bundle.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What comes out; open dimensions that only a run decides are 0."""
        return tuple(_spec(port, self._plan) for port in self.bundle.outputs)

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

    def run(self, inputs: object, feed: Mapping[str, object] | None = None, **options: Any) -> Any:
        """As `Session.run`, with the model's own types."""
        if options.pop("outputs", "float") != "float" or options.pop("pass_through", False):
            raise ValueError("a model in parts takes and gives arrays in the model's own types; leave the option out")
        if feed is not None:
            wanted = output_names(inputs, [port.name for port in self.bundle.outputs])
            found = self.run(feed)
            return [found[name] for name in wanted]
        names = [port.name for port in self.bundle.inputs]
        given = dict(zip(names, in_order(inputs, names), strict=True))
        values = {port.name: as_type(given[port.name], port.type, port.name) for port in self.bundle.inputs}
        with self._lock:
            self._check_open()
            return self._compute(values)

    def _compute(self, values: dict[str, Any]) -> dict[str, Any]:
        shapes = {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        plan = self._plan_for(shapes)
        self._plan = plan
        values = {name: _fill_up(value, plan.shapes.get(name)) for name, value in values.items()}
        stops: list[tuple[Part, int, int]] = []
        found = run_plan(self.bundle, plan, self._step, values, stops)
        self.part_times = [
            (number, (stop - start) / 1e9) for number, (_, start, stop) in zip(plan.parts, stops, strict=True)
        ]  # fmt: skip
        if self.timings is not None:
            self.timings.extend(stops)
        self.times = RunTimes(0.0, sum(seconds for _, seconds in self.part_times), 0.0)
        rows = self._kept_rows(shapes, plan)
        if rows is not None:
            found = {name: value[:rows] for name, value in found.items()}
        return {port.name: as_type(found[port.name], port.type, port.name) for port in self.bundle.outputs}

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

    def run_parts(self, feed: Mapping[str, Any]) -> list[tuple[int, float]]:
        """Run once; (part, seconds) for each part."""
        self.run(dict(feed))
        return list(self.part_times)

    # -- resources -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._closed = True
            for step in self._steps.values():
                step.close()
            self._steps.clear()

    def __repr__(self) -> str:
        kinds = [part.kind for part in self.bundle.parts]
        state = "closed" if self._closed else f"{kinds.count('npu')} NPU and {kinds.count('cpu')} CPU parts"
        return f"<Session {self.bundle.path or 'from bytes'} {state}>"

    def _step(self, number: int) -> Step:
        with self._lock:
            self._check_open()
            if number not in self._steps:
                part = self.bundle.parts[number]
                data = self.bundle.files[part.file]
                step: Step = NpuStep(part, data, self._open) if part.kind == "npu" else CpuStep(
                    part, data, self._cpu_options
                )
                self._steps[number] = step
            return self._steps[number]

    def _open(self, data: bytes) -> Session:
        return Session(data, self._device, **self._options)


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
