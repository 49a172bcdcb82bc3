"""What `explain.describe` says about a model: plain frozen values, one source for text, JSON and HTML.

Field names are the keys of `openrknn inspect --json` (docs/inspect-json.md): rename none of them without a new
`SCHEMA_VERSION`. Bytes are `_bytes`, operators are named by their index in the graph.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from openrknn.backports import StrEnum

SCHEMA_VERSION = 2


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    """Good to know."""
    WARNING = "warning"
    """Costs speed or accuracy, or surprises the one who feeds the model."""
    ERROR = "error"
    """The file contradicts itself, or its commands compute something else than its network."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is worth a look: what it is, why it matters, what to do."""

    code: str
    """Stable name: "cpu-fallback", "shared-scale"."""
    severity: Severity
    subject: str
    """The tensor or operator it is about; empty for the whole model."""
    what: str
    why: str
    action: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Who built the model, from what, for which chip."""

    toolkit_version: str
    compiler: str
    """The whole version text of the converter, compiler and build date included."""
    framework: str
    target: str
    """The NPU's name that the vendor's runtime compares: "RKNPU v2"."""
    platform: str
    """The chip's name as given to the toolkit: "rk3588"."""
    chip: str
    """The chip (or the chips that share this NPU) as people write it: "RK3566 / RK3568"."""
    cores: int
    container_version: int
    flavour: str
    format_version: int


@dataclass(frozen=True, slots=True)
class RuntimeNeed:
    """The oldest vendor runtime that is known to load the model."""

    library: str
    """"librknnrt", or "librknnmrt" on the small RV110x chips."""
    version: str
    """"1.5.2", "2.0"; empty if unknown."""
    certainty: str
    """"tested", "reported", "announced" or "unknown"."""
    evidence: str
    refused_by: str
    """The newest runtime that is known to refuse it, with its error; empty where none is known."""
    advised: str
    """What the vendor advises: the version of the toolkit that made the file; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class InputReport:
    """An input as a program has to feed it."""

    name: str
    shape: tuple[int, ...]
    """In the order of `layout`, as the API takes it."""
    layout: str
    dtype: str
    """The element type inside the model."""
    scale: float | None
    zero_point: int | None
    range: tuple[float, float] | None
    """Smallest and largest value that the quantised type can hold."""
    calibrated: tuple[float, float] | None
    """Smallest and largest value that calibration saw."""
    is_image: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    normalizes: bool
    """Whether mean and std do something: the model computes (x - mean) / std itself."""
    calibrated_as_bgr: bool
    """Whether calibration pictures were turned from RGB to BGR: the network wants BGR."""
    native_shape: tuple[int, ...]
    native_layout: str
    native_bytes: int
    offset: int
    dynamic_shapes: tuple[tuple[int, ...], ...]
    """The shapes it can take (original order), one per graph; empty when it is fixed."""
    feed: str
    """One sentence: what to put in."""


@dataclass(frozen=True, slots=True)
class OutputReport:
    """An output as a program reads it."""

    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str
    scale: float | None
    zero_point: int | None
    range: tuple[float, float] | None
    calibrated: tuple[float, float] | None
    native_shape: tuple[int, ...]
    native_layout: str
    native_bytes: int
    offset: int
    read: str
    """One sentence: how to get numbers out of it."""


@dataclass(frozen=True, slots=True)
class TensorUse:
    """A tensor where an operator uses it."""

    name: str
    kind: str
    """"input", "output", "internal", "weight", "cpu_constant", "lut", "compiler_constant"."""
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WeightQuantization:
    """How an operator's weights are quantised. The file says it only between the lines of its commands."""

    axis: int | None
    """Along which dimension of the weights (ONNX order) the channels lie."""
    channels: int
    smallest_scale: float
    largest_scale: float
    is_symmetric: bool
    """Whether all zero points are 0."""


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """One row of the operator table."""

    index: int
    type: str
    name: str
    placement: str
    """"npu", "cpu", "gpu" or "custom"."""
    is_boundary: bool
    """InputOperator and OutputOperator: where data enter and leave, not computation."""
    tasks: Mapping[str, int]
    """Task list ("1", "2.0", "2.1", ...) -> tasks of this operator in it; lists without one are left out."""
    commands: int
    """Register commands of the one-core list, the four closing ones of each task included."""
    inputs: tuple[TensorUse, ...]
    """Activations."""
    constants: tuple[TensorUse, ...]
    """Weights, bias and other constants."""
    outputs: tuple[TensorUse, ...]
    weight_bytes: int
    output_bytes: int
    macs: int | None
    """Multiply-accumulates; None where the shapes do not tell (element-wise operators have 0)."""
    weight_quantization: WeightQuantization | None
    """None where weights are floats, are not there, or the file does not say enough."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over one graph."""

    operators: int
    """Without the boundary ones."""
    placements: Mapping[str, int]
    """Placement -> operators, without the boundary ones."""
    tasks: Mapping[str, int]
    """Task list -> tasks."""
    weight_bytes: int
    constant_bytes: int
    internal_bytes: int
    command_bytes: int
    macs: int
    macs_unknown: int
    """Operators whose multiply-accumulates could not be computed."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Offset of an activation in internal memory, and the operators between which it is alive."""

    tensor: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    size_bytes: int
    first: int
    """Index of the operator that writes it first; -1 when none uses it."""
    last: int
    memory_class: int


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One graph; models with dynamic shapes have one per shape."""

    index: int
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    totals: Totals
    operators: tuple[OperatorReport, ...]
    memory: tuple[Lifetime, ...]
    """Activations by offset in internal memory."""


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """How long one core of a board takes for one run of the first graph shown; `openrknn.cost` makes it."""

    time_ms: float | None
    """None if no measurement of a board with this chip is published. Operators of the CPU are not in it."""
    low_ms: float | None
    """Published figures were at least this much of what was predicted for them."""
    high_ms: float | None
    bound: str
    """What most of the time is spent on: array, table, DPU, pooling, memory or start. Empty: no work for the NPU."""
    bound_shares: Mapping[str, float]
    """Shares of the whole time by what it is spent on, the largest first."""
    board_hertz: int
    """The NPU's highest clock."""
    board_figures: int
    """How many published figures the board's rates are fitted to."""
    board_mean_error: float | None
    """Mean relative error of the prediction for a network that was not among them."""
    board_source: str
    assumed_driver: str
    """Whose start of jobs the times contain: "vendor", its runtime on its kernel driver."""
    submit_us: float
    """The start of a job, and of a task, in these times."""
    task_us: float
    open_driver_ms: float | None
    """The time with jobs that start as slowly as an open driver's; None if not measured."""
    open_submit_us: float | None
    open_source: str
    cpu_operators: int
    unknown_operators: int
    """Operators whose commands could not be decoded: they are not counted."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Everything that is said about a model."""

    schema_version: int
    path: str | None
    size_bytes: int
    origin: Origin
    runtime: RuntimeNeed
    inputs: tuple[InputReport, ...]
    outputs: tuple[OutputReport, ...]
    is_dynamic: bool
    batch_size: int
    """0 and 1: one input per run."""
    custom_string: str
    custom_operators: tuple[str, ...]
    graph_count: int
    graphs: tuple[GraphReport, ...]
    findings: tuple[Finding, ...]
    estimate: EstimateReport | None = None
    """None until somebody who can decode commands fills it in, and for damaged files."""

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that cost something."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)


def as_json(value: object) -> object:
    """A report as dicts, lists, texts and numbers. JSON knows no infinity: such numbers become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, StrEnum) else value
