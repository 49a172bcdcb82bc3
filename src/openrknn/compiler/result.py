"""What a compilation leaves behind, for reports and comparisons: one `Variant` for each choice of input shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler.accuracy_result import AccuracyResult
from openrknn.compiler.calibration import Preprocess
from openrknn.compiler.check_result import CheckResult
from openrknn.compiler.cost import Cost
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.lower import Lowering
from openrknn.compiler.program import Program
from openrknn.compiler.quantise.precision import Choice
from openrknn.compiler.quantise.range_choice import RangeChoice
from openrknn.container.model import Model


@dataclass(slots=True)
class Variant:
    """The model for one choice of input shapes: one graph of the file."""

    graph: Graph
    lowering: Lowering
    source: Any
    """The folded ONNX model."""
    samples: list[dict[str, Array]] = field(default_factory=list)
    """The first calibration inputs, as the ONNX model takes them."""
    costs: dict[int, Cost] = field(default_factory=dict)
    """Number of cores -> what a run costs on a board, for each number that there are task lists for."""

    program: Program | None = None
    """Its tensors and tasks for all items, with their places in memory."""

    batch: int = 1
    """Items that this graph takes; graph and source are for one of them."""

    given: Callable[[], Any] | None = None
    """Reads the model as it was given: shapes are bound and outputs cut, nothing is rewritten."""

    @property
    def item_shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the inputs, for one item."""
        return {name: self.graph.values[name].shape for name in self.graph.inputs}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the inputs, for all items."""
        return {name: (shape[0] * self.batch, *shape[1:]) for name, shape in self.item_shapes.items()}


@dataclass(slots=True)
class Compiled:
    """The file, and what each stage made on the way."""

    data: bytes
    model: Model
    variants: tuple[Variant, ...]
    """One, or several with dynamic shapes: the largest first, as in the file."""
    preprocess: Preprocess
    precision: tuple[Choice, ...] = ()
    """Mixed models: int8 or fp16 for each operator, and why."""
    mixed_snr_db: float | None = None
    """What the search for the precision measured at the worst output."""
    fp16_cycles: int | None = None
    """Mixed models that were searched for: what the model costs with everything in fp16."""
    way: dict[str, Any] = field(default_factory=dict)
    """Options that `method="auto"` chose between."""
    accuracy: AccuracyResult | None = None
    """What `accuracy_drop` tried and chose."""
    check: CheckResult = field(default_factory=CheckResult)
    """What running the file has shown, or why it was not run."""
    ranges: tuple[RangeChoice, ...] = ()
    """int8: the range of each value, and why."""
    rounding_db: dict[str, float] = field(default_factory=dict)
    """int8: what adaptive rounding of its weights gained each convolution on the calibration data, in decibels."""

    @property
    def checked(self) -> str:
        """What running the file has shown, in words."""
        return self.check.text

    @property
    def graph(self) -> Graph:
        """Of the first variant, as everything below."""
        return self.variants[0].graph

    @property
    def lowering(self) -> Lowering:
        """The tasks that its operators became."""
        return self.variants[0].lowering

    @property
    def source(self) -> Any:
        """The ONNX model that was compiled, with its shapes bound."""
        return self.variants[0].source

    @property
    def samples(self) -> list[dict[str, Array]]:
        """The calibration data, by input."""
        return self.variants[0].samples

    @property
    def costs(self) -> dict[int, Cost]:
        """What each operator costs by estimate, by its number."""
        return self.variants[0].costs

    @property
    def format_name(self) -> str:
        """int8, fp16 or mixed."""
        if any(choice.precision == "fp16" for choice in self.precision):
            return "mixed" if any(choice.precision == "int8" for choice in self.precision) else "fp16"
        return self.lowering.format.name
