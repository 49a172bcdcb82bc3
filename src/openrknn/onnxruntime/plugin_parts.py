"""Sessions of ONNX Runtime that use our provider, and the parts that they made of their graphs."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openrknn.compiler.errors import OptionError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.options import CompileOptions
from openrknn.container.bundle import Bundle, Part, Plan
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import RknnError
from openrknn.onnxruntime.options import partition_options
from openrknn.partition import Parted, PartitionOptions
from openrknn.partition.build import build
from openrknn.partition.cache import Cache
from openrknn.partition.make import make_plan
from openrknn.partition.ports import ports_of
from openrknn.partition.prepare import prepare
from openrknn.partition.view import view_of
from openrknn.runtime.parted.session import PartedSession

PREFIX = "ep.rknnexecutionprovider."
"""What ONNX Runtime puts before the names of our options."""


class GoneError(RknnError):
    """A number that was released, or never issued."""


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
            raise GoneError(f"part {part} was released")
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


# Which nodes of ONNX Runtime's graph the NPU takes: the partition's answer, in the numbers of that graph.

_LOG = logging.getLogger(__name__)
_STANDARD = {"", "ai.onnx"}


@dataclass(slots=True)
class Planned:
    """The answer for a graph."""

    numbers: list[int]
    """For each node the number of its part, or -1."""
    files: dict[frozenset[str], tuple[Part, bytes]] = field(default_factory=dict)
    """Outputs of a part -> what was compiled for it. Nothing where shapes are open: then it is made for what comes."""
    shapes: dict[frozenset[str], Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Outputs of a part -> shapes of its inputs, where those of the model were announced."""


def plan(model: Any, options: PartitionOptions) -> Planned:
    """`model` stays as it is. Nothing is refused: at worst all numbers are -1."""
    parts, files = _parts(model, options)
    planned = Planned([-1] * len(model.graph.node))
    count = 0
    for part in parts:
        if part.kind != "npu":
            continue
        chosen = _between(model, part.inputs, part.outputs)
        if not chosen or any(planned.numbers[number] >= 0 for number in chosen) or not _is_convex(model, chosen):
            _LOG.warning(
                "a part of the NPU cannot be told to ONNX Runtime, which keeps it: %s", ", ".join(part.outputs)
            )
            continue
        for number in chosen:
            planned.numbers[number] = count
        count += 1
        key = frozenset(part.outputs)
        if not is_open(model):
            planned.files[key] = (part, files[part.file])
        elif options.shapes:
            planned.shapes[key] = {name: part.shapes[name] for name in part.inputs}
    taken = sum(number >= 0 for number in planned.numbers)
    _LOG.info("%d of %d operators in %d parts for the NPU", taken, len(planned.numbers), count)
    return planned


def is_open(model: Any) -> bool:
    """Whether an input has a size that is not fixed, or no known shape."""
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        if not kind.HasField("shape") or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
            return True
    return False


def _parts(model: Any, options: PartitionOptions) -> tuple[list[Part], dict[str, bytes]]:
    shapes = options.shapes[0] if options.shapes else {}
    if all(node.domain in _STANDARD for node in model.graph.node):
        bundle = make_plan(model, options, shapes)
        return list(bundle.parts), dict(bundle.files)
    # What only ONNX Runtime knows is among them: nobody else can run it, or say which shapes come behind it. It says so
    # itself where all shapes are fixed.
    copy = onnx_package().ModelProto()
    copy.CopyFrom(model)
    built = build(prepare(copy, shapes) if is_open(model) else view_of(copy), options, Cache(options.cache))
    return built.parts, built.files


def _between(model: Any, inputs: Collection[str], outputs: Collection[str]) -> set[int]:
    """The nodes that make these outputs of these inputs, with those that compute constants for them alone."""
    makers = {name: number for number, node in enumerate(model.graph.node) for name in node.output if name}
    chosen: set[int] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        number = makers.get(name)
        if number is None and name not in inputs and name in outputs:
            return set()  # the partition calls it by another name
        if number is not None and number not in chosen and name not in inputs:
            chosen.add(number)
            waiting += [read for read in model.graph.node[number].input if read]
    return chosen - _shared(model, chosen, outputs)


def _shared(model: Any, chosen: set[int], outputs: Collection[str]) -> set[int]:
    """Nodes that others need too, and that are no outputs: they computed constants."""
    readers: dict[str, set[int]] = {}
    for number, node in enumerate(model.graph.node):
        for name in node.input:
            readers.setdefault(name, set()).add(number)
    wanted = {entry.name for entry in model.graph.output}
    lost: set[int] = set()
    for number in sorted(chosen, reverse=True):  # readers before makers
        names = [name for name in model.graph.node[number].output if name and name not in outputs]
        if any(
            name in wanted or readers.get(name, set()) - chosen or readers.get(name, set()) & lost for name in names
        ):
            lost.add(number)
    return lost


def _is_convex(model: Any, chosen: set[int]) -> bool:
    """Whether no way leaves these nodes and comes back: they could not run as one."""
    outside: set[str] = set()
    ours: set[str] = set()
    for number, node in enumerate(model.graph.node):
        if number in chosen:
            if outside.intersection(node.input):
                return False
            ours.update(node.output)
        elif outside.intersection(node.input) or ours.intersection(node.input):
            outside.update(name for name in node.output if name)
    return True
