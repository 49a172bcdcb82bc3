"""All stages in a row, for one choice of input shapes or for several that share scales and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from openrknn.compiler.calibration import Feeds, Preprocess, feeds_for
from openrknn.compiler.cores import CORE_COUNTS, choose_shares, join_shares
from openrknn.compiler.cost import Cost, linked_costs
from openrknn.compiler.errors import CompileError, OptionError, in_terms_of
from openrknn.compiler.formats import Format
from openrknn.compiler.importer import Imported, import_model
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.link import link, link_copies
from openrknn.compiler.link.cores import link_cores
from openrknn.compiler.link.joined import JOINED_CORES, join_cores
from openrknn.compiler.link.plan import plan
from openrknn.compiler.lower import Lowering, Options, lower
from openrknn.compiler.lower.cpu import refuse_cpu
from openrknn.compiler.measured import is_rounding_better
from openrknn.compiler.normalise import normalise
from openrknn.compiler.normalise.clean import split_final_concats
from openrknn.compiler.options import CompileOptions, Progress
from openrknn.compiler.program import Program
from openrknn.compiler.quantise import quantise
from openrknn.compiler.quantise.gradient import channel_costs
from openrknn.compiler.quantise.groups import moves
from openrknn.compiler.quantise.mixed_outputs import free_mixed_outputs
from openrknn.compiler.quantise.precision import Choice, find_operators, set_precision
from openrknn.compiler.quantise.products import choices_of, narrow_products
from openrknn.compiler.quantise.range_choice import RangeChoice
from openrknn.compiler.quantise.rounding import adapt, samples_for
from openrknn.compiler.quantise.shapes import Shaped, calibrate, equalise_together
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.repeat import repeat
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.targets import target_of
from openrknn.compiler.write import as_mini, build_model, join_models, with_pixels
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.writer import encode

if TYPE_CHECKING:
    from openrknn.compiler.mixed import Choose, Judge

_MOST_CORES = 3
_SAMPLES = 4
"""Calibration inputs that are kept to compare with."""
_PROBED = 2
"""Calibration inputs that tell what errors cost."""


@dataclass(slots=True)
class _Front:
    """One choice of shapes before lowering."""

    imported: Imported
    graph: Graph
    samples: list[dict[str, Array]] = field(default_factory=list)
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    ranges: list[RangeChoice] = field(default_factory=list)
    rounding: dict[str, float] = field(default_factory=dict)
    more: list[dict[str, Array]] = field(default_factory=list)
    """Samples and some more, for what is learnt from them."""


class Mixing(NamedTuple):
    """Another search for the precision of operators than that of `auto_mixed`: its judge, how it chooses, its limit."""

    judge: Callable[[], Judge]
    choose: Choose
    wanted: float


def compile_stages(
    onnx: Any, options: CompileOptions, seen: dict[str, Statistics], mixing: Mixing | None = None
) -> Compiled:
    """All stages. `seen` is what calibration saw: filled, or used if it is filled already."""
    tell = options.progress or (lambda stage, done, of: None)
    tell("import", 0, 1)
    imports = [
        import_model(onnx, shapes=shapes, outputs=options.outputs, constants=options.constants)
        for shapes in options.shape_sets
    ]
    try:
        return _compiled(imports, options, seen, tell, mixing)
    except CompileError as error:
        in_terms_of(error, imports[0].known)
        raise


def _compiled(
    imports: list[Imported], options: CompileOptions, seen: dict[str, Statistics], tell: Progress,
    mixing: Mixing | None,
) -> Compiled:  # fmt: skip
    is_fp16 = options.is_fp16(is_quantised=any(op.type == "QuantizeLinear" for op in imports[0].graph.ops))
    target = target_of(options.chip)
    form = target.fp16 if is_fp16 else target.int8
    items, batch = _items(imports, options)
    preprocess = Preprocess.of(imports[0].graph, options.mean, options.std, options.order, options.fit)
    tell("normalise", 0, 1)
    fronts = [_front(imported, options, form) for imported in imports]
    if not is_fp16:
        _quantise(fronts, options, preprocess, seen)
    elif options.calibration is not None:  # to check the result with
        for front in fronts:
            front.samples = list(islice(_feeds(front, options, preprocess, len(fronts)), _SAMPLES))
    tell("lower", 0, 1)
    back = _Back(options, form, preprocess, batch)
    way = {"method": options.method, "adaptive_rounding": _settle(fronts, back)}
    choices: tuple[Choice, ...] = ()
    decibels = None
    if options.auto_mixed or options.fp16_layers or mixing:
        choices, decibels = _mix(fronts, back, mixing)
    elif options.int8_products:
        choices = choices_of(fronts[0].graph)
    else:
        for front in fronts:
            if front.graph.floats:
                set_precision(front.graph, front.graph.floats)
    built = [
        back.build(front.graph, front.statistics, options.cores, count)
        for front, count in zip(fronts, items, strict=True)
    ]
    notes = imports[0].metadata.as_notes()
    data = encode(replace(_finished([entry.model for entry in built]), notes_text=notes))
    tell("write", 1, 1)
    variants = tuple(
        Variant(
            front.graph, entry.lowering, front.imported.model, front.samples, entry.costs, entry.program, count,
            front.imported.given,
        )
        for front, entry, count in zip(fronts, built, items, strict=True)
    )
    return Compiled(
        data, load(data), variants, preprocess, choices, decibels, way=way,
        ranges=tuple(fronts[0].ranges), rounding_db=fronts[0].rounding,
    )  # fmt: skip


def _finished(models: list[Model]) -> Model:
    """One model in the form that the chip's runtime takes; several shapes are a container 6 everywhere."""
    model = join_models(models)
    if model.chip.holds_uint8_setting:
        model = with_pixels(model)
    return as_mini(model) if target_of(model.chip).is_mini and len(models) == 1 else model


def _items(imports: list[Imported], options: CompileOptions) -> tuple[list[int], int]:
    """Items that each graph takes itself, and items that the runtime makes of one run."""
    found = [imported.batch for imported in imports]
    if options.batch is None:
        return found, 1
    for batch in found:
        if batch not in {1, options.batch}:
            raise OptionError(f"batch={options.batch}, but the model takes {batch} items itself; leave one of them out")
    return [1] * len(found), options.batch


def _front(imported: Imported, options: CompileOptions, form: Format) -> _Front:
    graph = imported.graph
    if options.split_outputs:
        split_final_concats(graph)
    target = target_of(options.chip)
    kernel_volume = 0 if options.bold else target.kernel_volume[form.name]
    normalise(graph, atom=form.atom, calibrated=form.name == "int8", kernel_volume=kernel_volume, target=target)
    if form.name == "int8" and options.fp16_layers:
        named = find_operators(graph, options.fp16_layers)
        # Before there are scales: what they read keeps a scale of its own then.
        graph.floats |= {op.output for op in graph.ops if op.output in named and moves(op)}
    if options.int8_products:
        narrow_products(graph, options.int8_products, form.atom)
    return _Front(imported, graph)


def _feeds(front: _Front, options: CompileOptions, preprocess: Preprocess, count: int) -> Feeds:
    """The calibration data that fit one of so many choices of shapes."""
    batch = options.batch or front.imported.batch
    return feeds_for(options.calibration, front.graph, preprocess, batch=batch, is_choosy=count > 1)


def _quantise(
    fronts: list[_Front], options: CompileOptions, preprocess: Preprocess, seen: dict[str, Statistics]
) -> None:
    if options.calibration is not None:
        parts = []
        for front in fronts:
            feeds = _feeds(front, options, preprocess, len(fronts))
            front.more = list(islice(feeds, samples_for(front.graph)))
            front.samples = front.more[:_SAMPLES]
            parts.append(Shaped(front.graph, front.imported.model, feeds, front.samples))
        if options.equalize:
            equalise_together([part._replace(samples=front.more) for part, front in zip(parts, fronts, strict=True)])
        if not seen:
            total = sum(len(part.feeds) for part in parts)
            tell = options.progress or (lambda stage, done, of: None)
            seen.update(calibrate(parts, lambda done: tell("calibrate", done, total)))
        for front in fronts:
            front.graph.mixed = free_mixed_outputs(front.graph, seen, can_mix=target_of(options.chip).can_mix)
    costs = _costs(fronts) if options.method == "cost" else {}
    for front in fronts:
        known = {name: seen[name] for name in front.graph.values if name in seen}
        quantise(front.graph, front.imported.model, known, options.method, costs, front.ranges)
        front.statistics = known
    if options.adaptive_rounding and options.calibration is not None:
        _round(fronts)


def _round(fronts: list[_Front]) -> None:
    """Adaptive rounding on the first shapes that there are data for; the others store the same weights."""
    front = next((front for front in fronts if front.samples), None)
    if front is None or front.graph.given:
        return
    front.rounding.update(adapt(front.graph, front.imported.model, front.more))
    for other in fronts:
        other.graph.adapted = front.graph.adapted


def _settle(fronts: list[_Front], back: _Back) -> bool:
    """Whether adaptive rounding stays; where it is measured to be worse, all weights go to the nearest again."""
    front = next((front for front in fronts if front.graph.adapted and front.more), None)
    if front is None:
        return False
    build = partial(back.single, front.statistics)
    better = is_rounding_better(front.graph, front.imported.model, front.more, back.preprocess, build)
    for entry in fronts:
        entry.more = []
        if better is False:
            entry.graph.adapted = {}
            entry.rounding.clear()
    return better is not False


def _costs(fronts: list[_Front]) -> dict[str, Array]:
    """What an error in each channel of each value costs, on the first shapes that there are data for."""
    front = next((front for front in fronts if front.samples and not front.graph.given), None)
    if front is None:
        return {}
    outputs = [entry.name for entry in front.imported.model.graph.output]
    return channel_costs(front.imported.model, outputs, front.samples[:_PROBED])


def _mix(fronts: list[_Front], back: _Back, mixing: Mixing | None) -> tuple[tuple[Choice, ...], float | None]:
    """The precision is searched for on the first shapes that have data, and the same for the others."""
    from openrknn.compiler.mixed import Judge, choose_precision, mix

    options = back.options
    tell = options.progress or (lambda stage, done, of: None)
    chosen: list[str] = list(options.fp16_layers)
    choices: tuple[Choice, ...] = ()
    decibels: float | None = None
    for number, front in enumerate(sorted(fronts, key=lambda front: not front.samples)):
        judge: Judge | None = None
        if mixing and not number:
            judge = mixing.judge()
        elif options.auto_mixed and not number:
            raw = [{name: back.preprocess.undo(name, array) for name, array in feed.items()} for feed in front.samples]
            judge = Judge(front.imported.model, front.graph.outputs, front.samples, raw)
        if number:
            made_here = {name for op in front.graph.ops for name in op.outputs}
            chosen = [choice.output for choice in choices if choice.precision == "fp16" and choice.output in made_here]
        front.graph, made, measured = mix(
            front.graph, partial(back.single, front.statistics), judge,
            mixing.wanted if mixing else options.min_snr, chosen, tell=lambda done, of: tell("precision", done, of),
            choose=mixing.choose if mixing else choose_precision,
        )  # fmt: skip
        if not number:
            choices, decibels = made, measured
    return choices, decibels


def build_graph(
    graph: Graph, options: CompileOptions, packed: MutableMapping[str, Any] | None = None, *, joined: bool = False
) -> _Built:
    """Compile a normalised fp16 graph that was built here, not imported.

    `packed`: as in `lower`. `joined`: with lists for three cores that are one job, on chips that have so many.
    """
    preprocess = Preprocess.of(graph, None, None, options.order)
    back = _Back(options, target_of(options.chip).fp16, preprocess, 1, packed, joined)
    return back.build(graph, {}, options.cores, 1)


class _Built(NamedTuple):
    model: Model
    lowering: Lowering
    costs: dict[int, Cost]
    program: Program


@dataclass(frozen=True, slots=True)
class _Back:
    """From a quantised graph to a model of that graph alone."""

    options: CompileOptions
    form: Format
    preprocess: Preprocess
    batch: int
    packed: MutableMapping[str, Any] | None = None
    joined: bool = False

    def single(self, statistics: Mapping[str, Statistics], graph: Graph) -> Model:
        """One item, one core: to measure with."""
        return load(encode(_finished([replace(self, batch=1).build(graph, statistics, 1, 1).model])))

    def build(self, graph: Graph, statistics: Mapping[str, Statistics], cores: int | None, items: int) -> _Built:
        """The graph is changed."""
        from openrknn import __version__

        chip = self.options.chip
        core_counts: tuple[int, ...] = CORE_COUNTS if cores != 1 and chip.cores == _MOST_CORES else ()
        is_joined = self.joined and cores != 1 and chip.cores == JOINED_CORES
        if is_joined:
            core_counts = (JOINED_CORES,)
        choice = Options(bias_correction=self.options.bias_correction, core_counts=core_counts)
        lowering = lower(graph, self.form, choice, statistics, target_of(chip), self.packed)
        if not lowering.target.has_cpu:
            refuse_cpu(lowering.program)
        if is_joined:
            join_shares(lowering.program, everything=cores == JOINED_CORES)
        else:
            choose_shares(lowering.program, cores, bold=self.options.bold)
        program = repeat(lowering.program, items)
        program.is_joined = is_joined
        tables = {function.key: function.table for function in lowering.functions.values()}
        linked = link(program, tables)
        link_copies(program, linked, chip.cores)
        if is_joined:
            join_cores(program, linked, tables)
        else:
            link_cores(program, linked, tables)
        plan(program)
        model = build_model(
            program, linked, chip, self.preprocess.pairs, version=f"openrknn {__version__}",
            custom_string=self.options.custom_string, batch=self.batch,
        )  # fmt: skip
        return _Built(model, lowering, linked_costs(program, linked), program)
