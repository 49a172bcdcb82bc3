"""`compile`: all stages in a row."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from openrknn.chips import CHIPS, Chip
from openrknn.compiler.calibration import Calibration, Preprocess, feeds_for
from openrknn.compiler.cores import CORE_COUNTS, choose_shares
from openrknn.compiler.errors import CalibrationError, CompileError
from openrknn.compiler.formats import FP16, INT8, Format
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.link import link
from openrknn.compiler.link.cores import link_cores
from openrknn.compiler.lower import Lowering, Options, lower
from openrknn.compiler.normalise import normalise
from openrknn.compiler.normalise.outputs import split_final_concats
from openrknn.compiler.plan import plan
from openrknn.compiler.quantise import quantise
from openrknn.compiler.quantise.equalise import equalise
from openrknn.compiler.quantise.precision import Choice
from openrknn.compiler.quantise.ranges import METHODS
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.write import build_model
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.writer import encode

__all__ = ["Compiled", "compile_model", "compile_onnx"]

_TARGETS = ("rk3588",)
_SAMPLES = 4
_KERNEL_VOLUME = 3072
"""The largest channels x kernel rows x kernel columns of one task that the vendor's converter emits."""


@dataclass(slots=True)
class Compiled:
    """The result of each stage, for reports."""

    data: bytes
    model: Model
    graph: Graph
    lowering: Lowering
    source: Any
    """The folded ONNX model."""
    preprocess: Preprocess
    samples: list[dict[str, Array]] = field(default_factory=list)
    """The first calibration inputs, as the ONNX model takes them."""
    precision: tuple[Choice, ...] = ()
    """Mixed models: int8 or fp16 for each operator, and why."""
    mixed_snr_db: float | None = None
    """What the search for the precision measured at the worst output."""
    way: dict[str, Any] = field(default_factory=dict)
    """Options that `method="auto"` chose between."""

    @property
    def format_name(self) -> str:
        """int8, fp16 or mixed."""
        if any(choice.precision == "fp16" for choice in self.precision):
            return "mixed" if any(choice.precision == "int8" for choice in self.precision) else "fp16"
        return self.lowering.format.name


def compile_onnx(
    onnx: str | os.PathLike[str] | bytes | Any,
    target: str = "rk3588",
    *,
    calibration: Calibration = None,
    **options: Any,
) -> Model:
    """An ONNX model as a `.rknn` model; `openrknn.save` or `Session` take it from there.

    `calibration`: a folder of pictures, paths, arrays, or dicts of arrays by input name; without it the model is fp16.
    See `compile_model` for the options.
    """
    return compile_model(onnx, target, calibration=calibration, **options).model


_EXACT_DB = 60.0
"""Nothing to gain beyond that."""
_JUDGED = 2
"""Calibration inputs that `method="auto"` judges by."""


def _best(onnx: Any, target: str, options: dict[str, Any], *, correct: bool) -> Compiled:
    """Compile with two kinds of ranges, and keep what is closest to float.

    The worst output on the first calibration inputs decides; on a draw the earlier one stays.
    """
    from openrknn.compiler.verify import verify

    if options["auto_mixed"]:  # the way is chosen for int8, and then the operators that it does not suffice for
        plain = _best(onnx, target, {**options, "auto_mixed": False}, correct=correct)
        return compile_model(onnx, target, **{**options, **plain.way})
    seen: dict[str, Statistics] = {}

    def attempt(method: str) -> tuple[float, Compiled]:
        made = compile_model(onnx, target, **options, method=method, bias_correction=correct, _seen=seen)
        if made.lowering.format is not INT8 or not made.samples:
            return math.inf, made
        return min(verdict.decibels for verdict in verify(made, made.samples[:_JUDGED])), made

    best = attempt("minmax")
    if best[0] < _EXACT_DB:
        best = max(best, attempt("mse"), key=lambda pair: pair[0])
    return best[1]


def compile_model(
    onnx: str | os.PathLike[str] | bytes | Any,
    target: str = "rk3588",
    *,
    calibration: Calibration = None,
    fp16: bool | None = None,
    mean: Mapping[str, Sequence[float]] | Sequence[float] | None = None,
    std: Mapping[str, Sequence[float]] | Sequence[float] | None = None,
    order: str = "rgb",
    shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = (),
    method: str = "minmax",
    bias_correction: bool = True,
    equalize: bool = False,
    bold: bool = False,
    split_outputs: bool = False,
    auto_mixed: bool = False,
    min_snr: float = 30.0,
    fp16_layers: Sequence[str] = (),
    custom_string: str = "",
    cores: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    _seen: dict[str, Statistics] | None = None,
) -> Compiled:
    """All stages; `progress` is told (stage, done, of) while they run.

    fp16: force fp16 (True) or int8 (False); left alone, calibration data or a quantised model make it int8.
    mean, std: what the model does to raw pixels itself, one number or one per channel, or these by input name.
    order: channels of calibration pictures, "rgb" or "bgr". shapes: sizes of open inputs. outputs: cut here.
    method: how ranges are chosen (minmax, percentile, mse, entropy), or auto: try minmax and mse, and keep the best on
    the calibration data. split_outputs: parts of a final Concat become outputs of their own, each with its own scale.
    bias_correction: take back the mean error of rounded weights. equalize: even out the channels between convolutions.
    auto_mixed: operators whose quantisation costs most become fp16, so many that the worst output has min_snr decibels
    on the calibration data. fp16_layers: operators (names) that are fp16 anyway. bold: things that no board has been
    seen to do yet. cores: 1 for the one-core task list only, 3 for lists of two and three cores with everything shared
    that can be; left alone, these are there if they are worth it.
    """
    chip = _chip(target)
    if method == "auto":
        options = {
            "calibration": calibration, "fp16": fp16, "mean": mean, "std": std, "order": order, "shapes": shapes,
            "outputs": outputs, "equalize": equalize, "bold": bold, "split_outputs": split_outputs,
            "auto_mixed": auto_mixed, "min_snr": min_snr, "fp16_layers": fp16_layers, "custom_string": custom_string,
            "progress": progress, "cores": cores,
        }  # fmt: skip
        return _best(onnx, target, options, correct=bias_correction)
    if cores not in (None, 1, chip.cores):
        raise ValueError(f"cores={cores!r}: choose 1 (one task list) or {chip.cores} (lists for all numbers of cores)")
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not known; there are {', '.join(METHODS)} and auto")
    tell = progress or (lambda stage, done, of: None)
    tell("import", 0, 1)
    imported = import_model(onnx, shapes=shapes, outputs=outputs)
    graph = imported.graph
    is_quantised = any(op.type == "QuantizeLinear" for op in graph.ops)
    is_fp16 = (calibration is None and not is_quantised) if fp16 is None else fp16
    if is_fp16 and (auto_mixed or fp16_layers):
        raise CalibrationError(
            "int8 and fp16 are mixed in a model that is quantised: give calibration data, and do not ask for fp16"
        )
    if auto_mixed and calibration is None:
        raise CalibrationError("auto_mixed measures on calibration data: give pictures or arrays as in real use")
    if not is_fp16 and calibration is None and not is_quantised:
        raise CalibrationError(
            "int8 needs calibration data: give a folder of pictures or arrays like those of real use, or choose fp16"
        )
    form = FP16 if is_fp16 else INT8
    if split_outputs:
        split_final_concats(graph)
    preprocess = Preprocess.of(graph, mean, std, order)
    tell("normalise", 0, 1)
    normalise(graph, atom=form.atom, calibrated=not is_fp16, kernel_volume=0 if bold else _KERNEL_VOLUME)
    statistics: dict[str, Statistics] = {}
    samples: list[dict[str, Array]] = []
    if not is_fp16:
        feeds = None if calibration is None else feeds_for(calibration, graph, preprocess)
        total = len(feeds) if feeds is not None else 0
        samples = list(islice(feeds, _SAMPLES)) if feeds is not None else []
        if equalize and samples:
            equalise(graph, imported.model, samples)
        statistics = quantise(
            graph, imported.model, feeds, method=method, seen=_seen,
            progress=lambda done: tell("calibrate", done, total),
        )  # fmt: skip
    tell("lower", 0, 1)
    def build(some: Graph, cores: int | None = 1) -> tuple[bytes, Lowering]:
        core_counts = CORE_COUNTS if cores != 1 and chip.cores > 1 else ()
        choice = Options(bias_correction=bias_correction, core_counts=core_counts)
        return _build(some, form, choice, statistics, chip, preprocess, custom_string, cores)

    choices: tuple[Choice, ...] = ()
    decibels = None
    if auto_mixed or fp16_layers:
        from openrknn.compiler.mixed import Judge, mix

        judge = None
        if auto_mixed:
            raw = [{name: preprocess.undo(name, array) for name, array in feed.items()} for feed in samples]
            judge = Judge(imported.model, graph.outputs, samples, raw)
        graph, choices, decibels = mix(
            graph, lambda some: load(build(some)[0]), judge, min_snr, fp16_layers,
            tell=lambda done, of: tell("precision", done, of),
        )  # fmt: skip
    data, lowering = build(graph, cores)
    tell("write", 1, 1)
    return Compiled(
        data, load(data), graph, lowering, imported.model, preprocess, samples, choices, decibels,
        way={"method": method, "bias_correction": bias_correction},
    )  # fmt: skip


def _build(
    graph: Graph, form: Format, options: Options, statistics: Mapping[str, Statistics], chip: Chip,
    preprocess: Preprocess, custom_string: str, cores: int | None,
) -> tuple[bytes, Lowering]:  # fmt: skip
    """From the quantised graph to the file; the graph is changed."""
    from openrknn import __version__

    lowering = lower(graph, form, options, statistics)
    program = lowering.program
    tables = {function.key: function.table for function in lowering.functions.values()}
    choose_shares(program, cores)
    linked_scratch = link(program, tables)
    link_cores(program, linked_scratch)
    plan(program)
    model = build_model(
        program, linked_scratch, chip, preprocess.pairs, version=f"openrknn {__version__}", custom_string=custom_string
    )
    return encode(model), lowering


def _chip(target: str) -> Chip:
    name = target.lower()
    if name not in CHIPS:
        raise CompileError(f"target {target!r} is not a chip that openrknn knows; there are {', '.join(CHIPS)}")
    if name not in _TARGETS and CHIPS[name].family != "rk3588":
        raise CompileError(
            f"the compiler makes models for {', '.join(_TARGETS)}; {CHIPS[name].title} has other registers, and no "
            "recipes for it yet. Use the vendor's toolkit for it"
        )
    return CHIPS[name]
