"""All stages in a row, for one choice of input shapes or for several that share scales and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from openrknn.compiler.calibration import Preprocess, feeds_for
from openrknn.compiler.cores import CORE_COUNTS, choose_shares
from openrknn.compiler.cost import linked_costs
from openrknn.compiler.errors import OptionError
from openrknn.compiler.formats import Format
from openrknn.compiler.importer import Imported, import_model
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.link import Linked, link
from openrknn.compiler.link.cores import link_cores
from openrknn.compiler.lower import Lowering, Options, lower
from openrknn.compiler.normalise import normalise
from openrknn.compiler.normalise.outputs import split_final_concats
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.plan import plan
from openrknn.compiler.quantise import quantise
from openrknn.compiler.quantise.precision import Choice, set_precision
from openrknn.compiler.quantise.shapes import Shaped, calibrate, equalise_together
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.targets import TARGETS
from openrknn.compiler.write import build_model, join_models
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.writer import encode

__all__ = ["compile_stages"]

_SAMPLES = 4
"""Calibration inputs that are kept to compare with."""


@dataclass(slots=True)
class _Front:
    """One choice of shapes before lowering."""

    imported: Imported
    graph: Graph
    samples: list[dict[str, Array]] = field(default_factory=list)
    statistics: Mapping[str, Statistics] = field(default_factory=dict)


def compile_stages(onnx: Any, options: CompileOptions, seen: dict[str, Statistics]) -> Compiled:
    """All stages. `seen` is what calibration saw: filled, or used if it is filled already."""
    tell = options.progress or (lambda stage, done, of: None)
    tell("import", 0, 1)
    imports = [import_model(onnx, shapes=shapes, outputs=options.outputs) for shapes in options.shape_sets]
    is_fp16 = options.is_fp16(is_quantised=any(op.type == "QuantizeLinear" for op in imports[0].graph.ops))
    target = TARGETS[options.chip.family]
    form = target.fp16 if is_fp16 else target.int8
    batch = _batch(imports, options)
    preprocess = Preprocess.of(imports[0].graph, options.mean, options.std, options.order)
    tell("normalise", 0, 1)
    fronts = [_front(imported, options, form) for imported in imports]
    if not is_fp16:
        _quantise(fronts, options, preprocess, batch, seen)
    tell("lower", 0, 1)
    back = _Back(options, form, preprocess, batch)
    choices: tuple[Choice, ...] = ()
    decibels = None
    if options.auto_mixed or options.fp16_layers:
        choices, decibels = _mix(fronts, back)
    else:
        for front in fronts:
            if front.graph.floats:
                set_precision(front.graph, front.graph.floats)
    built = [back.build(front.graph, front.statistics, options.cores) for front in fronts]
    data = encode(join_models([model for model, _, _ in built]))
    tell("write", 1, 1)
    variants = tuple(
        Variant(front.graph, lowering, front.imported.model, front.samples, linked_costs(lowering.program, linked))
        for front, (_, lowering, linked) in zip(fronts, built, strict=True)
    )
    return Compiled(data, load(data), variants, preprocess, choices, decibels, way={"method": options.method})


def _batch(imports: list[Imported], options: CompileOptions) -> int:
    """Items of one run; a file has one number for all its graphs."""
    found = {imported.batch for imported in imports}
    if len(found) > 1:
        told = " and ".join(map(str, sorted(found)))
        raise OptionError(f"the shapes have batches of {told}; all graphs of a file take the same number of items")
    batch = found.pop()
    if options.batch is None or options.batch == batch:
        return batch
    if batch > 1:
        raise OptionError(f"batch={options.batch}, but the model takes {batch} items itself; leave one of both out")
    return options.batch


def _front(imported: Imported, options: CompileOptions, form: Format) -> _Front:
    graph = imported.graph
    if options.split_outputs:
        split_final_concats(graph)
    target = TARGETS[options.chip.family]
    kernel_volume = 0 if options.bold else target.kernel_volume[form.name]
    normalise(graph, atom=form.atom, calibrated=form.name == "int8", kernel_volume=kernel_volume, target=target)
    return _Front(imported, graph)


def _quantise(
    fronts: list[_Front], options: CompileOptions, preprocess: Preprocess, batch: int, seen: dict[str, Statistics]
) -> None:
    if options.calibration is not None:
        parts = []
        for front in fronts:
            feeds = feeds_for(
                options.calibration, front.graph, preprocess, batch=batch, is_choosy=len(fronts) > 1
            )
            front.samples = list(islice(feeds, _SAMPLES))
            parts.append(Shaped(front.graph, front.imported.model, feeds, front.samples))
        if options.equalize:
            equalise_together(parts)
        if not seen:
            total = sum(len(part.feeds) for part in parts)
            tell = options.progress or (lambda stage, done, of: None)
            seen.update(calibrate(parts, lambda done: tell("calibrate", done, total)))
    for front in fronts:
        known = {name: seen[name] for name in front.graph.values if name in seen}
        front.statistics = quantise(front.graph, front.imported.model, None, method=options.method, seen=known)


def _mix(fronts: list[_Front], back: _Back) -> tuple[tuple[Choice, ...], float | None]:
    """The precision is searched for on the first shapes that have data, and the same for the others."""
    from openrknn.compiler.mixed import Judge, mix

    options = back.options
    tell = options.progress or (lambda stage, done, of: None)
    chosen: list[str] = list(options.fp16_layers)
    choices: tuple[Choice, ...] = ()
    decibels: float | None = None
    for number, front in enumerate(sorted(fronts, key=lambda front: not front.samples)):
        judge = None
        if options.auto_mixed and not number:
            raw = [{name: back.preprocess.undo(name, array) for name, array in feed.items()} for feed in front.samples]
            judge = Judge(front.imported.model, front.graph.outputs, front.samples, raw)
        if number:
            made_here = {name for op in front.graph.ops for name in op.outputs}
            chosen = [choice.output for choice in choices if choice.precision == "fp16" and choice.output in made_here]
        front.graph, made, measured = mix(
            front.graph, partial(back.single, front.statistics), judge, options.min_snr, chosen,
            tell=lambda done, of: tell("precision", done, of),
        )  # fmt: skip
        if not number:
            choices, decibels = made, measured
    return choices, decibels


@dataclass(frozen=True, slots=True)
class _Back:
    """From a quantised graph to a model of that graph alone."""

    options: CompileOptions
    form: Format
    preprocess: Preprocess
    batch: int

    def single(self, statistics: Mapping[str, Statistics], graph: Graph) -> Model:
        """One item, one core: to measure with."""
        return load(encode(replace(self, batch=1).build(graph, statistics, 1)[0]))

    def build(
        self, graph: Graph, statistics: Mapping[str, Statistics], cores: int | None
    ) -> tuple[Model, Lowering, Linked]:
        """The graph is changed."""
        from openrknn import __version__

        chip = self.options.chip
        core_counts = CORE_COUNTS if cores != 1 and chip.cores > 1 else ()
        choice = Options(bias_correction=self.options.bias_correction, core_counts=core_counts)
        lowering = lower(graph, self.form, choice, statistics, TARGETS[chip.family])
        program = lowering.program
        choose_shares(program, cores)
        tables = {function.key: function.table for function in lowering.functions.values()}
        linked = link(program, tables)
        link_cores(program, linked, tables)
        plan(program)
        model = build_model(
            program, linked, chip, self.preprocess.pairs, version=f"openrknn {__version__}",
            custom_string=self.options.custom_string, batch=self.batch,
        )  # fmt: skip
        return model, lowering, linked
