"""What is in a model in parts: the values that `inspect`, the page and the server show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.analysis.inspection import report as model_report
from openrknn.analysis.reports import ModelReport, as_json
from openrknn.chips import find_chip
from openrknn.container.bundle import Bundle, Part, Port
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.onnxdata import message_fields
from openrknn.errors import RknnError

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class PartReport:
    """One part."""

    number: int
    kind: str
    """npu or cpu."""
    file: str
    size_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    operators: int
    """Of the ONNX model."""
    types: Mapping[str, int]
    """Types of the operators in the part's file, the commonest first; a `.rknn` has them fused."""
    macs: int
    npu_macs: int
    npu_us: float | None
    cpu_us: float
    board_us: float
    """Where it is, by estimate."""
    reason: str
    problem: str
    """Why its file cannot be read; empty: it can."""

    @property
    def share(self) -> float:
        """Of its products on the NPU."""
        return self.npu_macs / self.macs if self.macs else float(self.kind == "npu")


@dataclass(frozen=True, slots=True)
class PlanReport:
    """One choice of input shapes."""

    parts: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    macs: int
    npu_macs: int
    board_us: float
    cpu_us: float
    """Everything on a board's processor."""


@dataclass(frozen=True, slots=True)
class PartedReport:
    """The whole file."""

    path: str | None
    size_bytes: int
    """Of all parts, unpacked."""
    target: str
    chip: str
    precision: str
    made_by: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parts: tuple[PartReport, ...]
    plans: tuple[PlanReport, ...]
    padded: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def first(self) -> PlanReport:
        """The plan that is shown."""
        return self.plans[0]

    @property
    def npu_share(self) -> float:
        """Of the first plan's products."""
        return self.first.npu_macs / self.first.macs if self.first.macs else 1.0

    def ordered(self) -> tuple[PartReport, ...]:
        """The parts of the first plan, as they run."""
        return tuple(self.parts[number] for number in self.first.parts)


@dataclass(frozen=True, slots=True)
class Inside:
    """An NPU part with everything that is known about its `.rknn`."""

    number: int
    part: Part
    model: Model
    report: ModelReport


def describe_parts(bundle: Bundle) -> PartedReport:
    """Read every part; the report of a damaged part has the error."""
    chip = find_chip(bundle.target)
    return PartedReport(
        path=bundle.path,
        size_bytes=sum(map(len, bundle.files.values())),
        target=bundle.target,
        chip=chip.title if chip is not None else bundle.target,
        precision=bundle.precision,
        made_by=bundle.made_by,
        inputs=bundle.inputs,
        outputs=bundle.outputs,
        parts=tuple(_part(bundle, number, part) for number, part in enumerate(bundle.parts)),
        plans=tuple(_plan(bundle, plan.parts, plan.shapes) for plan in bundle.plans),
        padded=bundle.padded,
        notes=bundle.notes,
    )


def inside(bundle: Bundle, number: int) -> Inside | None:
    """Of an NPU part; None for those of the CPU, and for a file that cannot be read."""
    part = bundle.parts[number]
    if part.kind != "npu":
        return None
    try:
        model = load(bundle.files[part.file], strict=False)
        return Inside(number, part, model, model_report(model))
    except RknnError:
        return None


def parted_json(bundle: Bundle, found: PartedReport) -> dict[str, Any]:
    """For programs; NPU parts with the report of their `.rknn` (docs/inspect-json.md)."""
    parts = []
    for part in found.parts:
        known = inside(bundle, part.number)
        parts.append({**_fields(part), "share": part.share, "report": None if known is None else as_json(known.report)})
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "parts",
        **_fields(found),
        "npu_share": found.npu_share,
        "parts": parts,
    }


def _fields(value: object) -> dict[str, Any]:
    found = as_json(value)
    assert isinstance(found, dict)
    return found


def _part(bundle: Bundle, number: int, part: Part) -> PartReport:
    data = bundle.files[part.file]
    types, problem = _types(part, data)
    return PartReport(
        number, part.kind, part.file, len(data), part.inputs, part.outputs, dict(part.shapes), part.operators,
        dict(Counter(types).most_common()), part.macs, part.npu_macs, part.npu_us, part.cpu_us, _board_us(part),
        part.reason, problem,
    )  # fmt: skip


def _types(part: Part, data: bytes) -> tuple[list[str], str]:
    try:
        if part.kind == "cpu":
            return operator_types(data), ""
        return [operator.type for operator in load(data, strict=False).operators if not _is_end(operator.type)], ""
    except RknnError as error:
        return [], str(error)


def _is_end(kind: str) -> bool:
    """Operators that are the model's inputs and outputs, and no work."""
    return kind in {"InputOperator", "OutputOperator"}


def _board_us(part: Part) -> float:
    return part.npu_us if part.kind == "npu" and part.npu_us is not None else part.cpu_us


def _plan(bundle: Bundle, numbers: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> PlanReport:
    parts = [bundle.parts[number] for number in numbers]
    return PlanReport(
        numbers, dict(shapes), sum(part.macs for part in parts), sum(part.npu_macs for part in parts),
        sum(map(_board_us, parts)), sum(part.cpu_us for part in parts),
    )  # fmt: skip


def port_text(port: Port) -> str:
    """ "float 1x3x8x8", "int64 [batch, ?]": open dimensions have a name, or none."""
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    sizes = ["?" if size is None else str(size) for size in port.shape]
    is_fixed = all(isinstance(size, int) for size in port.shape)
    return f"{kind} {'x'.join(sizes) or 'scalar'}" if is_fixed else f"{kind} [{', '.join(sizes)}]"


_MODEL_GRAPH, _GRAPH_NODE, _NODE_TYPE, _NODE_DOMAIN = 7, 1, 4, 7
_PLAIN = {"", "ai.onnx"}
_MOST_CHARACTERS = 200


def operator_types(data: bytes) -> list[str]:
    """The type of every node of the outermost graph, in the order of the file; other domains stand in front."""
    return [
        _type(node)
        for number, graph in _messages(memoryview(data)) if number == _MODEL_GRAPH
        for inner, node in _messages(graph) if inner == _GRAPH_NODE
    ]  # fmt: skip


def _type(node: memoryview) -> str:
    texts = {_NODE_TYPE: "", _NODE_DOMAIN: ""}
    for number, value in _messages(node):
        if number in texts:
            texts[number] = bytes(value[:_MOST_CHARACTERS]).decode("utf-8", "replace")
    domain = texts[_NODE_DOMAIN]
    return texts[_NODE_TYPE] if domain in _PLAIN else f"{domain}.{texts[_NODE_TYPE]}"


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and bytes of each field that has a length."""
    for number, _, value in message_fields(data):
        if isinstance(value, memoryview):
            yield number, value
