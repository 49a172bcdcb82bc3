"""Sessions of ONNX Runtime that use our provider, and the parts that they made of their graphs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from openrknn.compiler.errors import OptionError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.options import CompileOptions
from openrknn.container.bundle import Bundle, Plan
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import RknnError
from openrknn.onnxruntime.options import partition_options
from openrknn.onnxruntime.plugin_plan import Planned, is_open, plan
from openrknn.partition import Parted, PartitionOptions
from openrknn.partition.ports import ports_of
from openrknn.runtime.parted.session import PartedSession

PREFIX = "ep.rknnexecutionprovider."
"""What ONNX Runtime puts before the names of our options."""


class GoneError(RknnError):
    """A number that was given back, or never given."""


@dataclass(slots=True)
class _Session:
    options: PartitionOptions
    planned: Planned | None = None


@dataclass(slots=True)
class _Part:
    runs: Parted | PartedSession
    inputs: tuple[str | None, ...]
    """In ONNX Runtime's order; None: a constant."""
    outputs: tuple[str, ...]


class Book:
    """Numbers that C keeps, and what they stand for. From any thread."""

    def __init__(self, first: int = 1) -> None:
        """`first`: the number of what is opened first."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(first)
        self._sessions: dict[int, _Session] = {}
        self._parts: dict[int, _Part] = {}

    @property
    def sizes(self) -> tuple[int, int]:
        """(sessions, parts) that are open."""
        return len(self._sessions), len(self._parts)

    def open(self, entries: Mapping[str, str]) -> int:
        """A session, by all entries of its options."""
        given = {key.removeprefix(PREFIX): value for key, value in entries.items() if key.startswith(PREFIX)}
        for name in ("outputs", "constants"):
            if given.get(name):
                raise OptionError(f"{name} changes the graph, which is ONNX Runtime's here: change the model instead")
        session = _Session(partition_options(given))
        _ = CompileOptions(target=session.options.target).chip  # an unknown one is told now
        with self._lock:
            number = next(self._numbers)
            self._sessions[number] = session
        return number

    def plan(self, session: int, data: bytes) -> list[int]:
        """For each node the number of its part, or -1."""
        found = self._session(session)
        refuse_external_data(data, "the model")
        found.planned = plan(onnx_package().load_from_string(data), found.options)
        return found.planned.numbers

    def build(self, session: int, data: bytes) -> int:
        """The number of the part that this model is."""
        refuse_external_data(data, "the part")
        model = onnx_package().load_from_string(data)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = tuple(None if entry.name in constants else entry.name for entry in model.graph.input)
        kept = [entry for entry in model.graph.input if entry.name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        tensors = sorted(model.graph.initializer, key=lambda tensor: str(tensor.name))  # ONNX Runtime keeps no order
        del model.graph.initializer[:]
        model.graph.initializer.extend(tensors)
        model.graph.name = "part"
        part = _Part(_ready(model, self._session(session)), inputs, tuple(entry.name for entry in model.graph.output))
        with self._lock:
            number = next(self._numbers)
            self._parts[number] = part
        return number

    def run(self, part: int, arrays: Sequence[Any]) -> list[Any]:
        """Outputs in ONNX Runtime's order."""
        found = self._parts.get(part)
        if found is None:
            raise GoneError(f"part {part} was given back")
        if len(arrays) != len(found.inputs):
            raise GoneError(f"part {part} takes {len(found.inputs)} inputs, and {len(arrays)} came")
        feed = {name: array for name, array in zip(found.inputs, arrays, strict=True) if name is not None}
        made = found.runs.run(feed)
        return [made[name] for name in found.outputs]

    def drop(self, part: int) -> None:
        """A part is not needed any more."""
        with self._lock:
            found = self._parts.pop(part, None)
        if found is not None:
            found.runs.close()

    def close(self, session: int) -> None:
        """Nor is a session."""
        with self._lock:
            self._sessions.pop(session, None)

    def _session(self, number: int) -> _Session:
        found = self._sessions.get(number)
        if found is None:
            raise GoneError(f"session {number} was closed")
        return found


def _ready(model: Any, session: _Session) -> Parted | PartedSession:
    """What was compiled when the graph was planned; else it is compiled for the shapes that come."""
    options = session.options
    inputs, outputs = ports_of(model)
    key = frozenset(port.name for port in outputs)
    found = session.planned.files.pop(key, None) if session.planned is not None and not is_open(model) else None
    if found is not None and set(found[0].inputs) == {port.name for port in inputs}:
        part, data = found
        bundle = Bundle(options.target, inputs, outputs, (part,), (Plan((0,)),), {part.file: data})
        return PartedSession(bundle, options.device, in_process=True)
    announced = session.planned.shapes.get(key, {}) if session.planned is not None else {}
    shapes = (announced,) if announced and set(announced) == {port.name for port in inputs} else ()
    # The calibration data are for the inputs of the whole model.
    precision = "fp16" if options.calibration is not None else options.precision
    return Parted(model, replace(options, prefer="npu", shapes=shapes, calibration=None, precision=precision))
