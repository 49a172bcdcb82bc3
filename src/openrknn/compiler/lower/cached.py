"""Attention over a cache that is stored as weights: a language model's step without a copy of its past.

    CachedScores  queries and keys [1, (H + G) * d, 1, T], cache, mask, rotation  ->  [1, C + F, 1, H * T], new keys
    CachedValues  their softmax, cache, new values [1, G * d, 1, T]               ->  [1, H * d, 1, T]

H heads share G heads of keys and values of d numbers each. A projection writes its channels so that atoms of a head are
H + G atoms apart: then the same memory is a map of d channels with (head, token) as pixels, and heads that share keys
are rows of one product. Keys of the cache are kernels over d channels, values are kernels over C channels; the CPU
writes a new row to its place behind the step. What hides empty rows is added to their scores.

One token: the rotation comes as a matrix of d x d weights, its own key is a kernel as stored, its own value is
multiplied channel by channel. Several tokens: cosines and sines come as maps, new rows become weights here.

A whole text (C = 0) has no cache, gives no new keys, and its mask is a map for its own rows:

    CachedScores  queries and keys, mask [1, T, 1, (H / G) * T], perhaps a rotation  ->  [1, T, 1, H * T]
    CachedValues  their softmax, values                                              ->  [1, H * d, 1, T]

One token of each of several sequences: the same as several tokens, but each sequence has a cache of its own, and a
token sees no new row but its own. The first cache is multiplied with all tokens, the others with one each, which
replaces what the first one gave:

    CachedScores  queries and keys, first cache, mask, rotation, other caches  ->  [1, C + T, 1, H * T], new keys
    CachedValues  their softmax, caches, new values                            ->  [1, H * d, 1, T]

    MaskScores    scores whose products are tanh of a capped score, perhaps a mask   ->  cap * scores + masks
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from openrknn.compiler.forms import CachedAttention, Product
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, matrix_place, moved, pointwise_task, scratch, two_task
from openrknn.compiler.lower.product import channel_kernels, pixel_kernels
from openrknn.compiler.lower.tiles import channel_tiles, pixel_tiles
from openrknn.compiler.program import Place, Step, Task
from openrknn.compiler.recipes.convolution import Residual
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish, fp16_bits
from openrknn.compiler.tile import shared_parts
from openrknn.isa.enums import EwAlgorithm, EwOperation

_HIDDEN = -30000.0


def lower_scores(low: Lowering, op: Op) -> None:
    """Rotation, then a product with the cache and one with the new keys for each head of keys."""
    form = op.get(CachedAttention)
    step = low.step(op, "exMatMul")
    step.macs = form.heads * form.tokens * (form.capacity + form.fresh) * form.size
    rotated = _rotation(low, op)
    kernels = _kernel_places(low, op)

    def tasks(first: int, count: int) -> Iterator[Task]:
        yield from rotated.tasks(first, count)
        for head in range(first, first + count):
            yield from _scores(low, op, rotated, kernels, head)

    _add_heads(low, step, form.kv_heads, tasks)


def _add_heads(low: Lowering, step: Step, heads: int, tasks: Callable[[int, int], Iterable[Task]]) -> None:
    """The tasks of all heads of keys; each core can do those of some."""
    for task in tasks(0, heads):
        low.add(step, task)
    for cores in low.options.core_counts:
        low.share(step, cores, [list(tasks(*part)) if part[1] else [] for part in shared_parts(heads, cores)])


def _inputs(op: Op) -> tuple[str, list[str], str, str | None]:
    """Projections, caches (none of a whole text), mask, rotation."""
    if op.get(CachedAttention).capacity:
        projected, cache, mask, rotation, *others = op.inputs
        return projected, [cache, *others], mask, rotation
    projected, mask, *rest = op.inputs
    return projected, [], mask, rest[0] if rest else None


def _hiding(low: Lowering, form: CachedAttention, mask: str, pixel: int) -> Residual | None:
    """What is added to scores from a pixel on; capped ones are masked later."""
    hidden = low.tensor(mask)
    return None if form.cap else Residual(hidden.pixel(0, pixel), hidden.pitch)


def _scores(low: Lowering, op: Op, rotated: _Rotation, kernels: list[Place], head: int) -> Iterator[Task]:
    form, (_, caches, mask, _) = op.get(CachedAttention), _inputs(op)
    scores, pixels = low.tensor(op.outputs[0]), form.shared * form.tokens
    source = rotated.queries.at(head * pixels)
    if not form.capacity:
        yield from _new_scores(low, op, source, rotated.keys, kernels, head, mask)
        return
    past = Line(scores.pixel(0, head * pixels), scores.pitch, form.capacity, low.target.atom_bytes)
    weights = [Place(cache, form.offset + head * form.head_bytes) for cache in caches]
    for first, count in line_pixels(low.target, form.size, pixels):
        addend = _hiding(low, form, mask, first)
        yield pointwise_task(low.target, source.at(first), past.at(first), count, weights[0], addend=addend)
    for token, pixel in list(enumerate(form.masks))[1:]:
        addend = _hiding(low, form, mask, pixel)
        yield pointwise_task(low.target, source.at(token), past.at(token), 1, weights[token], addend=addend,
                             rows=form.shared, line=form.tokens)  # fmt: skip
    yield from _new_scores(low, op, source, rotated.keys, kernels, head, None)


class _Rotation:
    """Queries and keys at their positions. This one changes nothing: positions are in the rows already."""

    def __init__(self, low: Lowering, op: Op, source: Line) -> None:
        self._low, self._form, self._source = low, op.get(CachedAttention), source
        self.queries, self.keys = source, source.at(self._form.heads * self._form.tokens)

    def tasks(self, first: int, count: int) -> Iterator[Task]:
        """Of some heads of keys, and of the queries that meet them."""
        yield from ()


def _rotation(low: Lowering, op: Op) -> _Rotation:
    form, (projected, _, _, rotation) = op.get(CachedAttention), _inputs(op)
    given, both = low.tensor(projected), form.heads + form.kv_heads
    pitch = given.pitch if given.cube[0] == form.size else both * form.tokens  # heads are pixels already, or not
    source = Line(given.at(), pitch, form.size, low.target.atom_bytes)
    if rotation is None:
        return _Rotation(low, op, source)
    return (_RotatedOne if form.tokens == 1 else _Rotated)(low, op, source, rotation)


class _RotatedOne(_Rotation):
    """One token: a matrix for its position. Keys come out as the numbers of one head behind the other."""

    def __init__(self, low: Lowering, op: Op, source: Line, rotation: str) -> None:
        super().__init__(low, op, source)
        form, atom = self._form, low.target.atom_bytes
        self._weights = Place(rotation)
        made = scratch(low, f"{op.output}_queries", form.size * form.heads * 2)
        self.queries = Line(Place(made), form.heads, form.size, atom)
        self.keys = Line(low.tensor(op.outputs[1]).at(), 1, form.size, atom)

    def tasks(self, first: int, count: int) -> Iterator[Task]:
        form, chip, shared = self._form, self._low.target, self._form.shared
        source, queries = (line.at(first * shared) for line in (self._source, self.queries))
        yield pointwise_task(chip, source, queries, count * shared, self._weights)
        for head in range(first, first + count):
            target = self.keys.at(head * form.size * 2 // chip.atom_bytes)
            yield pointwise_task(chip, self._source.at(form.heads + head), target, 1, self._weights)


class _Rotated(_Rotation):
    """x * cos + turned(x) * sin, of several tokens."""

    def __init__(self, low: Lowering, op: Op, source: Line, rotation: str) -> None:
        super().__init__(low, op, source)
        form, atom = self._form, low.target.atom_bytes
        heads, both = form.heads * form.tokens, (form.heads + form.kv_heads) * form.tokens
        size = form.size * both * 2
        self._turned, self.queries = (
            Line(Place(scratch(low, f"{op.output}_{name}", size)), both, form.size, atom)
            for name in ("turned", "queries")
        )
        angles = low.tensor(rotation)
        self._cosines, self._sines = (
            Line(angles.at(first), angles.pitch, form.size, atom) for first in (0, form.size)
        )
        self.keys = self.queries.at(heads)
        if form.capacity:
            self.keys = Line(low.tensor(op.outputs[1]).at(), form.kv_heads * form.tokens, form.size, atom)
        self._matrix = matrix_place(low, f"{op.name}_turn", turning(form.size, form.turned or form.size))

    def tasks(self, first: int, count: int) -> Iterator[Task]:
        """Queries and keys of all heads lie side by side, those of some do not."""
        form, low, tokens = self._form, self._low, self._form.tokens
        heads = form.heads * tokens
        asked = (first * form.shared * tokens, count * form.shared * tokens)
        known = (heads + first * tokens, count * tokens)
        ranges = [(0, heads + form.kv_heads * tokens)] if count == form.kv_heads else [asked, known]
        for at, pixels in ranges:
            for skip, some in line_pixels(low.target, form.size, pixels):
                source, turned = (line.at(at + skip) for line in (self._source, self._turned))
                yield pointwise_task(low.target, source, turned, some, self._matrix)
        for at, pixels in ranges:
            source, turned, queries, cosines, sines = (
                line.at(at) for line in (self._source, self._turned, self.queries, self._cosines, self._sines)
            )
            yield two_task(low.target.fp16, turned, sines, turned, pixels, EwOperation.MUL)
            yield two_task(low.target.fp16, source, cosines, queries, pixels, EwOperation.MUL)
        turned, queries = (line.at(asked[0]) for line in (self._turned, self.queries))
        yield two_task(low.target.fp16, queries, turned, queries, asked[1], EwAlgorithm.ADD)
        turned, queries = (line.at(known[0]) for line in (self._turned, self.queries))
        yield two_task(low.target.fp16, queries, turned, self.keys.at(first * tokens), known[1], EwAlgorithm.ADD)


def turning(size: int, turned: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The matrix that makes (-b, a, 0) of (a, b, c), where a and b are halves of what is turned."""
    half = turned // 2
    made = np.zeros((size, size))
    made[np.arange(half), np.arange(half) + half] = -1
    made[np.arange(half) + half, np.arange(half)] = 1
    return made


def _kernel_places(low: Lowering, op: Op) -> list[Place]:
    """Where the new keys of each head become kernels; one token's are some as they lie."""
    form = op.get(CachedAttention)
    names = [f"{op.output}_kernels{head}" for head in range(form.kv_heads if form.tokens > 1 else 0)]
    return [Place(scratch(low, name, form.fresh * form.size * 2)) for name in names]


def _new_scores(
    low: Lowering, op: Op, queries: Line, keys: Line, kernels: list[Place], head: int, mask: str | None
) -> Iterator[Task]:
    """Of the rows that this step adds: each token sees itself and those before it, or what a mask says."""
    form, atom, scores = op.get(CachedAttention), low.target.atom_bytes, low.tensor(op.outputs[0])
    pixels = form.shared * form.tokens
    place = scores.pixel(form.capacity, head * pixels)
    if form.tokens == 1:  # lanes behind the only kernel must not win
        weights = moved(keys.place, head * form.size * 2 // atom, atom)
        target = Line(place, scores.pitch, 1, atom)
        yield pointwise_task(low.target, queries, target, pixels, weights, fill=fp16_bits(_HIDDEN))
        return
    source = keys.at(head * form.tokens)
    if low.target.turns_lanes:
        yield from pixel_kernels(low, Cube(source.place, source.pitch), form.tokens, form.size, kernels[head])
    else:
        tasks: list[Task] = []
        pixel_tiles(low, op, source, form.tokens, kernels[head], tasks)
        yield from tasks
    hiding = mask or _causal(low, form)
    target = Line(place, scores.pitch, form.tokens, atom)
    for first, count in line_pixels(low.target, form.size, pixels):
        addend = _hiding(low, form, hiding, first)
        yield pointwise_task(low.target, queries.at(first), target.at(first), count, kernels[head], addend=addend)


def _causal(low: Lowering, form: CachedAttention) -> str:
    """[T, shared * T]: what is added to the score of a new row (channel) for a token (pixel)."""
    window = form.window if form.window < form.tokens else 0
    window = 1 if form.masks else window
    name = f"causal_{form.tokens}x{form.shared}_{window}"
    distance = np.tile(np.arange(form.tokens), form.shared)[None] - np.arange(form.tokens)[:, None]
    is_hidden = (distance < 0) | (distance >= window if window else distance < 0)
    low.graph.constants.setdefault(name, np.where(is_hidden, _HIDDEN, 0.0).astype(np.float32))
    return low.feature_constant(name, (form.tokens, 1, form.shared * form.tokens), None)


def lower_masks(low: Lowering, op: Op) -> None:
    """cap * x + mask: of past rows for each head of keys, and of the new ones."""
    form, (given, *masks) = op.get(CachedAttention), op.inputs
    source, target, atom = low.tensor(given), low.tensor(op.output), low.target.atom_bytes
    step = low.step(op, "Add")
    pixels = form.shared * form.tokens

    def add(row: int, count: int, pixel: int, width: int, mask: str) -> None:
        hidden = low.tensor(mask)
        left, right = Line(source.pixel(row, pixel), source.pitch, count, atom), Line(hidden.at(), hidden.pitch, 0, 0)
        if low.target.alike_operands and right.pitch != source.pitch:
            numbers, before = low.target.fp16, Cube(right.place, right.pitch)
            copy = Place(scratch(low, f"{op.output}_mask", numbers.surfaces(count) * source.pitch * atom))
            right = Line(copy, source.pitch, 0, 0)
            low.add(step, Task(elementwise_task(numbers, (count, 1, width), before, Cube(copy, source.pitch))))
        made = Line(target.pixel(row, pixel), target.pitch, count, atom)
        low.add(step, two_task(low.target.fp16, left, right, made, width, EwAlgorithm.ADD, gain=form.cap))

    for head in range(form.kv_heads):
        if masks:
            add(0, form.capacity or form.fresh, head * pixels, pixels, masks[0])
        if form.capacity and form.tokens > 1:
            add(form.capacity, form.fresh, head * pixels, pixels, _causal(low, form))
    if form.capacity and form.tokens == 1:
        add(form.capacity, form.fresh, 0, form.heads, _only(low, form))


def _only(low: Lowering, form: CachedAttention) -> str:
    """[fresh, heads]: of the rows that one token adds, the first is one."""
    name = f"only_{form.fresh}x{form.heads}"
    rows = np.where(np.arange(form.fresh)[:, None] > 0, _HIDDEN, np.zeros(form.heads))
    low.graph.constants.setdefault(name, rows.astype(np.float32))
    return low.feature_constant(name, (form.fresh, 1, form.heads), None)


def lower_values(low: Lowering, op: Op) -> None:
    """A product with the values of the cache for each head of them, on top of what new rows give."""
    form, (shares, *caches, _) = op.get(CachedAttention), op.inputs
    weights, target, atom = low.tensor(shares), low.tensor(op.output), low.target.atom_bytes
    step = low.step(op, "exMatMul")
    step.follows = True  # each core has the shares of its heads
    step.macs = form.heads * form.tokens * (form.capacity + form.fresh) * form.size
    pixels, every = form.shared * form.tokens, form.heads * form.tokens
    result = Line(target.at(), every, form.size, atom)
    new = result
    if form.capacity:
        new = Line(Place(scratch(low, f"{op.output}_new", form.size * every * 2)), every, form.size, atom)

    def kernels_of(cache: str, head: int) -> Place:
        return Place(cache, form.offset + head * form.head_bytes)

    def sequences(first_head: int, heads: int) -> Iterator[Task]:
        """Past rows first: each sequence adds to a part of the pixels, and new rows to all of them."""
        for head in range(first_head, first_head + heads):
            at = head * pixels
            past = Line(weights.pixel(0, at), weights.pitch, form.capacity, atom)
            for first, count in line_pixels(low.target, form.capacity, pixels):
                yield pointwise_task(
                    low.target, past.at(first), new.at(at + first), count, kernels_of(caches[0], head)
                )
            for token, cache in enumerate(caches[1:], 1):
                yield pointwise_task(low.target, past.at(token), new.at(at + token), 1, kernels_of(cache, head),
                                     rows=form.shared, line=form.tokens)  # fmt: skip
        yield from _new_values(low, op, result, first_head, heads, addend=new)

    def tasks(first_head: int, heads: int) -> Iterator[Task]:
        if form.masks:
            yield from sequences(first_head, heads)
            return
        yield from (_new_values if form.tokens > 1 else _new_value)(low, op, new, first_head, heads)
        for head in range(first_head, first_head + heads if form.capacity else 0):
            at = head * pixels
            past = Line(weights.pixel(0, at), weights.pitch, form.capacity, atom)
            kernels = kernels_of(caches[0], head)
            for first, count in line_pixels(low.target, form.capacity, pixels):
                addend = Residual(new.at(at + first).place, new.pitch)
                made = result.at(at + first)
                yield pointwise_task(low.target, past.at(first), made, count, kernels, addend=addend)

    _add_heads(low, step, form.kv_heads, tasks)


def _new_values(
    low: Lowering, op: Op, new: Line, first_head: int, heads: int, *, addend: Line | None = None
) -> Iterator[Task]:
    """Several tokens: their values become kernels, then products with their shares are written to `new`."""
    form, atom, shares = op.get(CachedAttention), low.target.atom_bytes, low.tensor(op.inputs[0])
    values, pixels = low.tensor(op.inputs[-1]), form.shared * form.tokens
    product = Product(
        heads, 1, form.tokens, form.size, pixels, "channels", "channels", True, "channels", 1.0
    )  # fmt: skip
    fake = Op("Product", op.name, op.inputs, op.outputs, form=product)
    tasks: list[Task] = []
    source = Cube(values.at(first_head * form.size), values.pitch)
    make = channel_kernels if low.target.turns_lanes else channel_tiles
    kernels = list(make(low, fake, source, form.tokens, tasks))
    yield from tasks
    for number, place in enumerate(kernels):
        at = (first_head + number) * pixels
        fresh = Line(shares.pixel(form.capacity, at), shares.pitch, form.tokens, atom)
        for first, count in line_pixels(low.target, form.tokens, pixels):
            added = None if addend is None else Residual(addend.at(at + first).place, addend.pitch)
            yield pointwise_task(low.target, fresh.at(first), new.at(at + first), count, place, addend=added)


def _new_value(low: Lowering, op: Op, new: Line, first_head: int, heads: int) -> Iterator[Task]:
    """One token: its share times its value, written to `new`."""
    form, atom, shares = op.get(CachedAttention), low.target.atom_bytes, low.tensor(op.inputs[0])
    place = low.tensor(op.inputs[-1]).at()
    first = np.zeros((form.size, form.fresh))
    first[:, 0] = 1
    at, count = first_head * form.shared, heads * form.shared
    source = Line(shares.pixel(form.capacity, at), shares.pitch, form.fresh, atom)
    yield pointwise_task(low.target, source, new.at(at), count, matrix_place(low, f"{op.name}_spread", first))
    for head in range(first_head, first_head + heads):
        value = Cube(moved(place, head * form.size * 2 // atom, atom), 1)
        line = new.at(head * form.shared)
        finish = Finish(1.0, None, flying=True)
        finish.operand(EwOperation.MUL, None, relu=False)
        cube = Cube(line.place, line.pitch)
        made = elementwise_task(
            low.target.fp16, (form.size, 1, form.shared), cube, cube, finish.stages, value, per_channel=True
        )
        yield Task(made)
