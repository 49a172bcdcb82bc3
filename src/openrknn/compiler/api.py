"""`compile`: all stages in a row."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Unpack

from openrknn.chips import Chip
from openrknn.compiler.calibration import Preprocess, feeds_for
from openrknn.compiler.cores import CORE_COUNTS, choose_shares
from openrknn.compiler.cost import Cost, linked_costs
from openrknn.compiler.formats import FP16, INT8, Format
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.link import Linked, link
from openrknn.compiler.link.cores import link_cores
from openrknn.compiler.lower import Lowering, Options, lower
from openrknn.compiler.normalise import normalise
from openrknn.compiler.normalise.outputs import split_final_concats
from openrknn.compiler.options import CompileKeywords, CompileOptions
from openrknn.compiler.plan import plan
from openrknn.compiler.quantise import quantise
from openrknn.compiler.quantise.equalise import equalise
from openrknn.compiler.quantise.precision import Choice, set_precision
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.write import build_model
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.writer import encode

__all__ = ["Compiled", "compile_model", "compile_onnx", "compile_with"]

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
    costs: dict[int, Cost] = field(default_factory=dict)
    """Number of cores -> what a run costs on a board, for each number that there are task lists for."""

    @property
    def format_name(self) -> str:
        """int8, fp16 or mixed."""
        if any(choice.precision == "fp16" for choice in self.precision):
            return "mixed" if any(choice.precision == "int8" for choice in self.precision) else "fp16"
        return self.lowering.format.name


def compile_onnx(
    onnx: str | os.PathLike[str] | bytes | Any, target: str = "rk3588", **options: Unpack[CompileKeywords]
) -> Model:
    """An ONNX model as a `.rknn` model; `openrknn.save` or `Session` take it from there.

    `calibration`: a folder of pictures, paths, arrays, or dicts of arrays by input name; without it the model is fp16.
    `openrknn.compiler.CompileOptions` lists all options.
    """
    return compile_model(onnx, target, **options).model


def compile_model(
    onnx: str | os.PathLike[str] | bytes | Any, target: str = "rk3588", **options: Unpack[CompileKeywords]
) -> Compiled:
    """The same, with what each stage made of it."""
    return compile_with(onnx, CompileOptions(target=target, **options))


def compile_with(onnx: str | os.PathLike[str] | bytes | Any, options: CompileOptions) -> Compiled:
    """The same for options that are there already."""
    return _best(onnx, options) if options.method == "auto" else _compile(onnx, options, {})


_EXACT_DB = 60.0
"""Nothing to gain beyond that."""
_JUDGED = 2
"""Calibration inputs that `method="auto"` judges by."""


def _best(onnx: Any, options: CompileOptions) -> Compiled:
    """Compile with two kinds of ranges, and keep what is closest to float.

    The worst output on the first calibration inputs decides; on a draw the earlier one stays.
    """
    from openrknn.compiler.verify import verify

    if options.auto_mixed:  # the way is chosen for int8, and then the operators that it does not suffice for
        plain = _best(onnx, replace(options, auto_mixed=False))
        return compile_with(onnx, replace(options, **plain.way))
    seen: dict[str, Statistics] = {}

    def attempt(method: str) -> tuple[float, Compiled]:
        made = _compile(onnx, replace(options, method=method), seen)
        if made.lowering.format is not INT8 or not made.samples:
            return math.inf, made
        return min(verdict.decibels for verdict in verify(made, made.samples[:_JUDGED])), made

    best = attempt("minmax")
    if best[0] < _EXACT_DB:
        best = max(best, attempt("mse"), key=lambda pair: pair[0])
    return best[1]


def _compile(onnx: Any, options: CompileOptions, seen: dict[str, Statistics]) -> Compiled:
    """All stages. `seen` is what calibration saw: filled, or used if it is filled already."""
    chip = options.chip
    tell = options.progress or (lambda stage, done, of: None)
    tell("import", 0, 1)
    imported = import_model(onnx, shapes=options.shapes, outputs=options.outputs)
    graph = imported.graph
    is_fp16 = options.is_fp16(is_quantised=any(op.type == "QuantizeLinear" for op in graph.ops))
    form = FP16 if is_fp16 else INT8
    if options.split_outputs:
        split_final_concats(graph)
    preprocess = Preprocess.of(graph, options.mean, options.std, options.order)
    tell("normalise", 0, 1)
    normalise(graph, atom=form.atom, calibrated=not is_fp16, kernel_volume=0 if options.bold else _KERNEL_VOLUME)
    statistics: dict[str, Statistics] = {}
    samples: list[dict[str, Array]] = []
    if not is_fp16:
        feeds = None if options.calibration is None else feeds_for(options.calibration, graph, preprocess)
        total = len(feeds) if feeds is not None else 0
        samples = list(islice(feeds, _SAMPLES)) if feeds is not None else []
        if options.equalize and samples:
            equalise(graph, imported.model, samples)
        statistics = quantise(
            graph, imported.model, feeds, method=options.method, seen=seen,
            progress=lambda done: tell("calibrate", done, total),
        )  # fmt: skip
    tell("lower", 0, 1)

    def build(some: Graph, cores: int | None = 1) -> tuple[bytes, Lowering, Linked]:
        core_counts = CORE_COUNTS if cores != 1 and chip.cores > 1 else ()
        choice = Options(bias_correction=options.bias_correction, core_counts=core_counts)
        return _build(some, form, choice, statistics, chip, preprocess, options.custom_string, cores)

    choices: tuple[Choice, ...] = ()
    decibels = None
    if options.auto_mixed or options.fp16_layers:
        from openrknn.compiler.mixed import Judge, mix

        judge = None
        if options.auto_mixed:
            raw = [{name: preprocess.undo(name, array) for name, array in feed.items()} for feed in samples]
            judge = Judge(imported.model, graph.outputs, samples, raw)
        graph, choices, decibels = mix(
            graph, lambda some: load(build(some)[0]), judge, options.min_snr, options.fp16_layers,
            tell=lambda done, of: tell("precision", done, of),
        )  # fmt: skip
    elif graph.floats:
        set_precision(graph, graph.floats)
    data, lowering, linked = build(graph, options.cores)
    tell("write", 1, 1)
    return Compiled(
        data, load(data), graph, lowering, imported.model, preprocess, samples, choices, decibels,
        way={"method": options.method}, costs=linked_costs(lowering.program, linked),
    )  # fmt: skip


def _build(
    graph: Graph, form: Format, options: Options, statistics: Mapping[str, Statistics], chip: Chip,
    preprocess: Preprocess, custom_string: str, cores: int | None,
) -> tuple[bytes, Lowering, Linked]:  # fmt: skip
    """From the quantised graph to the file; the graph is changed."""
    from openrknn import __version__

    lowering = lower(graph, form, options, statistics)
    program = lowering.program
    tables = {function.key: function.table for function in lowering.functions.values()}
    choose_shares(program, cores)
    linked = link(program, tables)
    link_cores(program, linked)
    plan(program)
    model = build_model(
        program, linked, chip, preprocess.pairs, version=f"openrknn {__version__}", custom_string=custom_string
    )
    return encode(model), lowering, linked
