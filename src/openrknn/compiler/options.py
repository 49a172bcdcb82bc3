"""What a compilation is asked for: one value with every option, checked in one place.

`CompileKeywords` are the same names as keyword arguments, for type checkers; a test keeps both in step.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from openrknn.chips import CHIPS, Chip, find_chip, known_chips
from openrknn.compiler.calibration import FITS, Calibration
from openrknn.compiler.errors import CalibrationError, OptionError
from openrknn.compiler.importer.batch import MOST_ITEMS
from openrknn.compiler.quantise.ranges import METHODS
from openrknn.compiler.targets import TARGETS, target_of

if TYPE_CHECKING:
    from openrknn.container.model import Model

Numbers: TypeAlias = "Mapping[str, Sequence[float]] | Sequence[float] | float | None"
"""One number, one per channel, or these by input name."""
Shapes: TypeAlias = "Mapping[str, Sequence[int] | Sequence[Sequence[int]]]"
"""By input name: one shape, or several; the n-th shapes of all inputs belong together."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (stage, done, of)."""

Metric: TypeAlias = "Callable[[Model | None], float]"

_ORDERS = ("rgb", "bgr")


class CompileKeywords(TypedDict, total=False):
    """Keyword arguments of `openrknn.compile`; `CompileOptions` says what they mean."""

    calibration: Calibration
    fp16: bool | None
    mean: Numbers
    std: Numbers
    order: str
    fit: str
    shapes: Shapes | None
    constants: Mapping[str, Any] | None
    batch: int | None
    outputs: Sequence[str]
    method: str
    bias_correction: bool
    adaptive_rounding: bool
    equalize: bool
    bold: bool
    split_outputs: bool
    auto_mixed: bool
    min_snr: float
    accuracy_drop: float | str | None
    metric: Metric | None
    fp16_layers: Sequence[str]
    int8_products: Mapping[str, tuple[float, float]] | None
    custom_string: str
    cores: int | None
    check: bool
    check_seconds: float
    progress: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Everything that can be asked of the compiler. What is impossible for any model raises `OptionError`."""

    target: str = "rk3588"
    calibration: Calibration = None
    """A folder of pictures, paths, arrays, or dicts of arrays by input name."""
    fp16: bool | None = None
    """Force fp16 (True) or int8 (False); left alone, calibration data or a quantised model make it int8."""
    mean: Numbers = None
    """With `std`: what the model does to raw pixels itself."""
    std: Numbers = None
    order: str = "rgb"
    """Channels of calibration pictures: "rgb" or "bgr"."""
    fit: str = "auto"
    """How calibration pictures are made to fit: "letterbox", "crop", "stretch"; auto is what `run` and `detect` do (the
    middle for a classifier, else the whole picture with gray bars)."""
    shapes: Shapes | None = None
    """Sizes of open inputs. Several shapes for an input make a file with one graph for each."""
    constants: Mapping[str, Any] | None = None
    """Inputs that are always the same (masks, sample rates), by name: a number, a list, an array or the path of a .npy
    file. One number is taken for the whole input."""
    batch: int | None = None
    """Items of one run: the model is compiled for one, and the runtime repeats it. Left alone: what the model's own
    batch dimension says."""
    outputs: Sequence[str] = ()
    """Cut the model here."""
    method: str = "cost"
    """How ranges are chosen: cost (by what they cost the outputs), minmax, percentile, mse, entropy, or auto: try cost,
    minmax and mse, and keep the best on the calibration data."""
    bias_correction: bool = True
    """Take back the mean error of rounded weights."""
    adaptive_rounding: bool = True
    """Round weights up or down so that their errors cancel on the calibration data."""
    equalize: bool = False
    """Even out the channels between convolutions."""
    bold: bool = False
    """Use features that have not been confirmed on a board yet."""
    split_outputs: bool = False
    """Parts of a final Concat become outputs of their own, each with its own scale."""
    auto_mixed: bool = False
    """Operators whose quantisation costs most become fp16, as many as needed for the worst output to reach `min_snr`
    decibels on the calibration data."""
    min_snr: float = 30.0
    accuracy_drop: float | str | None = None
    """What the model may lose, as a share or as a text like "1%": recipes are tried and measured on the calibration
    data, the cheapest on the board first, until one holds it (docs/accuracy.md). None: int8 as it is."""
    metric: Metric | None = None
    """For `accuracy_drop`: your own measure, larger is better. It is called with a compiled model, and with None for
    the float model. Without one the float model's answers are right."""
    fp16_layers: Sequence[str] = ()
    """Operators (names) that are fp16 anyway."""
    int8_products: Mapping[str, tuple[float, float]] | None = None
    """Of an fp16 model: products (names) that are int8, with the range of what they read. Their results are fp16."""
    custom_string: str = ""
    """A text that programs can read from the model (`rknn_query`)."""
    cores: int | None = None
    """1 for the one-core task list only, 3 for lists of two and three cores with everything shared that can be; left
    alone, these are there if they are worth it."""
    check: bool = True
    """Run the result on the software NPU and compare it with ONNX in float: outputs, and every operator."""
    check_seconds: float = 60.0
    """Estimated time limit of the check; beyond it, less is checked and a note is shown."""
    progress: Progress | None = None

    def __post_init__(self) -> None:
        chip = self.chip
        if self.cores not in {None, 1, chip.cores}:
            raise OptionError(
                f"cores={self.cores!r}: choose 1 (one task list) or {chip.cores} (lists for all numbers of cores)"
            )
        if self.method not in {*METHODS, "cost", "auto"}:
            raise OptionError(f"method {self.method!r} is unknown; the choices are cost, {', '.join(METHODS)} and auto")
        if self.order not in _ORDERS:
            raise OptionError(f"order {self.order!r} is unknown; the choices are {' and '.join(_ORDERS)}")
        if self.fit not in FITS:
            raise OptionError(f"fit {self.fit!r} is unknown; the choices are {', '.join(FITS)}")
        if self.batch is not None and not 1 <= self.batch <= MOST_ITEMS:
            raise OptionError(f"batch={self.batch!r}: a run has 1 to {MOST_ITEMS} items")
        _ = self.shape_sets
        if (self.auto_mixed or self.fp16_layers) and not target_of(chip).can_mix:
            if not target_of(chip).has_fp16:
                raise OptionError(f"{chip.title} computes int8 only: leave out auto_mixed and fp16_layers")
            raise OptionError(
                f"int8 and fp16 in one model is for RK3588 only: no file of the vendor's shows how {chip.title} goes "
                "from one to the other. Leave out auto_mixed and fp16_layers"
            )
        if self.constants is not None and not isinstance(self.constants, Mapping):
            raise OptionError(f"constants is a dict of values by input name, not {self.constants!r}")
        self._check_products()
        self._check_bound()
        for name in ("outputs", "fp16_layers"):
            if isinstance(getattr(self, name), str):
                raise OptionError(f"{name} is a list of names, not the text {getattr(self, name)!r}")

    def _check_products(self) -> None:
        """int8 that writes fp16: chips whose output converter has a power of two for fp16."""
        if self.int8_products and not self.fp16:
            raise OptionError("int8_products are those of an fp16 model: add fp16=True, or leave them out")
        if self.int8_products and not (target_of(self.chip).has_fp16 and target_of(self.chip).scales_tables):
            raise OptionError(f"{self.chip.title} has no int8 products whose results are fp16: leave out int8_products")

    def _check_bound(self) -> None:
        if self.accuracy_drop is not None:
            share_of(self.accuracy_drop)
            if self.auto_mixed or self.fp16:
                raise OptionError("accuracy_drop chooses the precision itself: leave out fp16 and auto_mixed")
        elif self.metric is not None:
            raise OptionError("metric is what accuracy_drop is measured by: say how much may be lost")

    @property
    def chip(self) -> Chip:
        """What the model is for."""
        found = find_chip(str(self.target))
        if found is None:
            raise OptionError(f"target {self.target!r} is not a chip that openrknn knows; there are {known_chips()}")
        if found.family not in TARGETS:
            known = ", ".join(chip.name for chip in CHIPS.values() if chip.family in TARGETS)
            raise OptionError(
                f"the compiler makes models for {known}; {found.title} has other registers, and no recipes for "
                "it yet. Use the vendor's toolkit for it"
            )
        return found

    @property
    def shape_sets(self) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of all graphs, the largest first, as in the vendor's files."""
        given = {name: _several(name, shape) for name, shape in (self.shapes or {}).items()}
        counts = {name: len(entries) for name, entries in given.items() if len(entries) > 1}
        if len(set(counts.values())) > 1:
            counted = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise OptionError(f"the n-th shapes of all inputs belong together, each needs the same number: {counted}")
        sets = [
            {name: entries[min(number, len(entries) - 1)] for name, entries in given.items()}
            for number in range(max(counts.values(), default=1))
        ]
        for number, entry in enumerate(sets):
            if entry in sets[:number]:
                raise OptionError(f"the shapes {entry} were given twice; one graph is enough for them")
        return sorted(sets, key=lambda entry: -sum(math.prod(shape) for shape in entry.values()))

    def is_fp16(self, *, is_quantised: bool) -> bool:
        """Whether all of the model becomes fp16; `is_quantised` says that it brings scales of its own."""
        has_data = self.calibration is not None
        if not target_of(self.chip).has_fp16:
            return self._is_not_fp16(has_data=has_data or is_quantised)
        chosen = not has_data and not is_quantised if self.fp16 is None else self.fp16
        if chosen and (self.auto_mixed or self.fp16_layers):
            raise CalibrationError(
                "int8 and fp16 are mixed in a model that is quantised: give calibration data, and do not ask for fp16"
            )
        if self.accuracy_drop is not None and not has_data:
            raise CalibrationError("accuracy_drop measures on calibration data: give pictures or arrays as in real use")
        if self.auto_mixed and not has_data:
            raise CalibrationError("auto_mixed measures on calibration data: give pictures or arrays as in real use")
        if not chosen and not has_data and not is_quantised:
            raise CalibrationError(
                "int8 needs calibration data: give a folder of pictures or arrays like those of real use, "
                "or choose fp16"
            )
        return chosen

    def _is_not_fp16(self, *, has_data: bool) -> bool:
        """For chips that compute int8 only."""
        if self.fp16:
            raise OptionError(f"{self.chip.title} computes int8 only: leave out fp16, and give calibration data")
        if not has_data:
            raise CalibrationError(
                f"{self.chip.title} computes int8 only, and int8 needs calibration data: give a folder of pictures or "
                "arrays like those of real use"
            )
        return False


def share_of(given: float | str) -> float:
    """0.01 of 0.01, "0.01" or "1%"."""
    text = str(given).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise OptionError(f"accuracy_drop is what may be lost, as 1% or 0.01 (above 0, below 100%), not {given!r}")
    return share


def _several(name: str, given: Sequence[int] | Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    entries = list(given)
    is_one = all(isinstance(entry, numbers.Integral) for entry in entries)
    shapes: list[Any] = [entries] if is_one else entries
    try:
        found = [tuple(operator.index(size) for size in shape) for shape in shapes]
    except TypeError:
        raise OptionError(f"the shapes of {name!r} are whole numbers like (1, 3, 224, 224), not {given!r}") from None
    if not all(found):
        raise OptionError(f"the shapes of {name!r} are empty; give one like (1, 3, 224, 224)")
    return found
