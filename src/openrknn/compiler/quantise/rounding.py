"""Adaptive rounding: weights are rounded up or down so that their errors cancel on the calibration data.

For one output channel with weights w and inputs x the error of rounded weights q is (q - w) H (q - w) with H the mean
of x x^T. Weights are rounded one after the other; what rounding one of them loses is made up for by those that are not
rounded yet (the optimal brain surgeon's rule, as GPTQ applies it). With H = R R^T, R upper triangular, the error is
|R^T (q - w)|^2, and term k of it knows only the weights up to k:

    q[k] = round(w[k] - sum over i < k of (q[i] - w[i]) R[i, k] / R[k, k])

Each weight goes to one of its two neighbours: what these data do not show stays as it was. The inputs are rounded too,
which adds scale^2 / 12 to the diagonal. Large kernels are done in parts of whole channels, no more weights at once than
a quarter of the windows that were seen: fewer windows would be learnt by heart. What is better is measured: inputs that
were not used for rounding decide for each channel whether it stays rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph, Op, StoredWeights
from openrknn.compiler.quantise.equalise import origin
from openrknn.compiler.quantise.groups import moves
from openrknn.compiler.quantise.threads import one_thread
from openrknn.compiler.quantise.weights import quantize_weights

_LARGEST = 256
"""Weights of one output that are rounded together."""
_AT_ONCE = 32
"""Weights of one output between two products of matrices."""
_PATCHES = 1024
"""Windows of the input that are looked at, of all calibration inputs together."""
_FEWEST, _MOST, _RUNS = 4, 16, 4_000_000_000
"""Inputs at least and at most, and multiplications of the float model between the two."""
_TESTED = 4
"""Every fourth input is one to measure with."""
_WINDOWS = 4
"""For each weight that is rounded together with others."""
_WORK = 1_500_000_000
"""Multiplications for all convolutions together: a second or two."""
_TINY = 1e-12
_DAMPING = 0.01
"""Of the mean of the diagonal: inputs that hardly vary here can do so in use."""


@dataclass(slots=True)
class Moments:
    """Means of x x^T over windows of one convolution's input, in blocks of whole channels."""

    blocks: list[Array] = field(default_factory=list)
    """[parts, size, size]; depthwise: one for each channel."""
    count: int = 0

    def add(self, patches: Array) -> None:
        """`patches` is [blocks, windows, size]."""
        found = np.matmul(patches.transpose(0, 2, 1), patches)
        if self.blocks:
            self.blocks[0] += found
        else:
            self.blocks = [found]
        self.count += patches.shape[1]


def candidates(graph: Graph) -> list[Op]:
    """Convolutions whose weights this module rounds: int8, dense or depthwise, without other readers."""
    used: dict[str, int] = {}
    for op in graph.ops:
        for name in op.inputs[1:3]:
            used[name] = used.get(name, 0) + 1
    return [
        op for op in graph.ops
        if op.type == "Conv" and not moves(op) and len(op.inputs) > 2 and not op.get(Conv).edges
        and all(name in graph.constants and used[name] == 1 for name in op.inputs[1:3])
        and op.inputs[1] not in graph.stored and op.output not in graph.floats and op.inputs[0] not in graph.floats
        and (op.get(Conv).group == 1 or graph.constants[op.inputs[1]].shape[1] == 1)
        and not op.get(Conv).pad_value and graph.constants[op.inputs[1]].ndim == 4
    ]  # fmt: skip


def channels_at_once(weights: Array, windows: int) -> int:
    """Input channels of one block; 0: there are too few windows for any."""
    most = min(_LARGEST, windows // _WINDOWS)
    return min(int(weights.shape[1]), most // int(np.prod(weights.shape[2:])))


def patches_of(values: Array, op: Op, weights: Array, wanted: int, each: int) -> Array:
    """[blocks of `each` channels, windows, weights of a block]: windows of the input at places spread evenly."""
    (kernel_h, kernel_w), (top, left, bottom, right) = weights.shape[2:], op.get(Conv).pads
    (down, across), (step_h, step_w) = op.get(Conv).strides, op.get(Conv).dilations
    cube = values.reshape(values.shape[1], *_plane(values))
    reach = (kernel_h - 1) * step_h + 1, (kernel_w - 1) * step_w + 1
    rows = (cube.shape[1] + top + bottom - reach[0]) // down + 1
    columns = (cube.shape[2] + left + right - reach[1]) // across + 1
    count = min(wanted, rows * columns)
    at = (np.arange(count) * (rows * columns / count)).astype(np.int64)
    y, x = at // columns * down - top, at % columns * across - left
    ys = y[:, None, None] + np.arange(kernel_h)[None, :, None] * step_h
    xs = x[:, None, None] + np.arange(kernel_w)[None, None, :] * step_w
    inside = (ys >= 0) & (ys < cube.shape[1]) & (xs >= 0) & (xs < cube.shape[2])
    taken = cube[:, np.clip(ys, 0, cube.shape[1] - 1), np.clip(xs, 0, cube.shape[2] - 1)] * inside
    if weights.shape[1] == 1 and op.get(Conv).group > 1:
        result: Array = taken.reshape(len(cube), count, -1)
        return result
    blocks = -(-len(cube) // each)
    padded = np.zeros((blocks * each, count, kernel_h * kernel_w), np.float32)
    padded[: len(cube)] = taken.reshape(len(cube), count, -1)
    return padded.reshape(blocks, each, count, -1).transpose(0, 2, 1, 3).reshape(blocks, count, -1)


def _plane(values: Array) -> tuple[int, int]:
    shape = values.shape
    return (shape[2], shape[3]) if values.ndim == 4 else (1, shape[2]) if values.ndim == 3 else (1, 1)


def round_weights(
    weights: Array, moments: Moments, noise: float, others: Moments | None = None
) -> tuple[StoredWeights, float, float]:
    """(the rounded weights, mean squared error of the outputs, the same if all were rounded to the nearest).

    `noise` is the variance of the inputs' own rounding. `others` are of inputs to measure the errors with.
    """
    plain = quantize_weights(weights)
    outputs, taps = len(weights), weights.size // len(weights)
    factor = _factor(moments, noise)
    measured = factor if others is None else _damped(others, noise)[0]
    blocks, size = factor.shape[:2]
    is_depthwise = weights.shape[1] == 1 and blocks == outputs and blocks > 1
    # In steps, one row for each weight: what a loop over the weights reads lies side by side.
    ratio = np.ascontiguousarray((weights.reshape(outputs, taps) / plain.scale[:, None]).astype(np.float32).T)
    near = np.ascontiguousarray((plain.stored.reshape(outputs, taps) - plain.zero_point[:, None]).astype(np.float32).T)
    low = np.maximum(np.floor(ratio), -128 - plain.zero_point.astype(np.float32))
    high = np.minimum(np.ceil(ratio), 127 - plain.zero_point.astype(np.float32))
    rounded = np.empty_like(ratio)
    ours, theirs = np.zeros(outputs), np.zeros(outputs)
    sweep = _swept_alone if is_depthwise else _swept
    errors = _errors if others is None else _errors_by
    for number in range(1 if is_depthwise else blocks):
        own, test = (factor, measured) if is_depthwise else (factor[number], measured[number])
        part = slice(number * size, min((number + 1) * size, taps))
        rounded[part] = sweep(ratio[part], own, low[part], high[part])
        ours += errors(rounded[part] - ratio[part], test)
        theirs += errors(near[part] - ratio[part], test)
    chosen = np.where(ours < theirs, rounded, near).T
    stored = (chosen + plain.zero_point[:, None]).astype(np.int64).reshape(weights.shape)
    power = plain.scale.astype(np.float64) ** 2
    made = StoredWeights(stored, plain.scale, plain.zero_point)
    return made, float((np.minimum(ours, theirs) * power).sum()), float((theirs * power).sum())


def _damped(moments: Moments, noise: float) -> tuple[Array, Array]:
    """(H of each block, the largest number of its diagonal)."""
    hessian = moments.blocks[0] / np.float32(max(moments.count, 1))
    diagonal = np.einsum("bii->bi", hessian)
    diagonal += (_DAMPING * diagonal.mean(1) + noise + _TINY)[:, None]
    return hessian, diagonal.max(1)[:, None, None]


def _factor(moments: Moments, noise: float) -> Array:
    """For each block R, upper triangular, with H = R R^T."""
    hessian, largest = _damped(moments, noise)
    found: Array = np.linalg.cholesky((hessian / largest)[:, ::-1, ::-1])[:, ::-1, ::-1] * np.sqrt(largest)
    return found


def _swept(ratio: Array, factor: Array, low: Array, high: Array) -> Array:
    """Whole steps between `low` and `high`, weight by weight; `ratio` and the result are [weights, outputs]."""
    count = len(ratio)
    pull = factor[:count, :count] / np.diagonal(factor)[:count]
    change, result = np.zeros_like(ratio), np.empty_like(ratio)
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        wanted = ratio[start:stop] - pull[:start, start:stop].T @ change[:start]
        for place in range(start, stop):
            target = wanted[place - start]
            if place > start:
                target = target - pull[start:place, place] @ change[start:place]
            row = np.rint(target, out=result[place])
            np.minimum(np.maximum(row, low[place], out=row), high[place], out=row)
            np.subtract(row, ratio[place], out=change[place])
    return result


def _swept_alone(ratio: Array, factor: Array, low: Array, high: Array) -> Array:
    """Rounding where each output has a matrix of its own (depthwise)."""
    change, result = np.zeros_like(ratio), np.empty_like(ratio)
    for place in range(len(ratio)):
        past = np.einsum("oi,io->o", factor[:, :place, place], change[:place])
        target = ratio[place] - past / factor[:, place, place]
        result[place] = np.clip(np.rint(target), low[place], high[place])
        change[place] = result[place] - ratio[place]
    return result


def _errors(change: Array, factor: Array) -> Array:
    """Squared error of each output, in its steps: |R^T change|^2."""
    if factor.ndim == 3:
        made: Array = np.matmul(change.T[:, None, :], factor)[:, 0].T
    else:
        made = factor[: len(change)].T @ change
    result: Array = np.einsum("io,io->o", made, made).astype(np.float64)
    return result


def _errors_by(change: Array, hessian: Array) -> Array:
    """The error by H itself."""
    if hessian.ndim == 3:
        made: Array = np.matmul(change.T[:, None, :], hessian)[:, 0].T
    else:
        made = hessian[: len(change), : len(change)] @ change
    result: Array = np.einsum("io,io->o", made, change).astype(np.float64)
    return result


def adapt(graph: Graph, model: Any, feeds: Sequence[Mapping[str, Array]]) -> dict[str, float]:
    """Round the weights of every convolution that can be; convolution -> decibels gained on these data."""
    ops = _affordable(graph, candidates(graph))
    gained: dict[str, float] = {}
    with one_thread():
        found = _moments(graph, model, feeds, ops)
        for op in ops:
            source = graph.values[op.inputs[0]].quantization
            moments, others = found.pop((op.output, True), None), found.pop((op.output, False), None)
            if moments is None or source is None:
                continue
            weights = graph.constants[op.inputs[1]]
            try:
                made, ours, nearest = round_weights(weights, moments, source.scale**2 / 12, others)
            except np.linalg.LinAlgError:  # inputs that differ by more than float32 holds
                continue
            graph.adapted[op.output] = weights, made
            gained[op.name] = 10 * float(np.log10(max(nearest, _TINY) / max(ours, _TINY)))
    return gained


def work_of(graph: Graph) -> int:
    """Multiplications of all convolutions."""
    return sum(
        graph.constants[op.inputs[1]].size * int(np.prod(graph.values[op.output].cube[1:]))
        for op in graph.ops if op.type == "Conv" and op.inputs[1] in graph.constants
    )  # fmt: skip


def samples_for(graph: Graph) -> int:
    """Calibration inputs to look at: more of small models, for they show fewer windows and take less time."""
    return max(_FEWEST, min(_MOST, _RUNS // max(work_of(graph), 1)))


def tests_of(count: int) -> set[int]:
    """Of so many inputs those that rounding does not see: they are kept to measure with."""
    return set(range(count - 1, 0, -_TESTED))


def _same(values: Array) -> Array:
    return values


def _affordable(graph: Graph, ops: list[Op]) -> list[Op]:
    """Small ones first, as long as there is time: what large ones lose is spread over many weights."""

    def work(op: Op) -> int:
        weights = graph.constants[op.inputs[1]]
        return int(weights.size * min(_LARGEST, weights.size // len(weights)))

    chosen: set[str] = set()
    left = _WORK
    for op in sorted(ops, key=work):
        left -= work(op)
        if left < 0:
            break
        chosen.add(op.output)
    return [op for op in ops if op.output in chosen]


def _is_simple(graph: Graph, name: str) -> bool:
    """Whether a value is the model's own, or follows from one of them alone."""
    while name in graph.derived:
        if name in graph.addends:
            return False
        name = graph.derived[name][0]
    return True


def _moments(
    graph: Graph, model: Any, feeds: Sequence[Mapping[str, Array]], ops: list[Op]
) -> dict[tuple[str, bool], Moments]:
    """Of each convolution (its output): those to round with, and of every fourth input those to measure with."""
    wanted = {op.inputs[0]: origin(graph, op.inputs[0]) for op in ops if _is_simple(graph, op.inputs[0])}
    runner = FloatModel(model, list(dict.fromkeys(source for source, _ in wanted.values())))
    found: dict[tuple[str, bool], Moments] = {}
    tests = tests_of(len(feeds))
    fits = len(feeds) - len(tests)
    for number, feed in enumerate(feeds):
        seen = dict(runner.run(feed))
        for op in ops:
            source, function = wanted.get(op.inputs[0], ("", _same))
            if source not in seen:
                continue
            values = np.asarray(function(seen[source]), np.float32)
            if values.shape != graph.values[op.inputs[0]].shape or not 2 <= values.ndim <= 4 or len(values) != 1:
                continue
            weights = graph.constants[op.inputs[1]]
            if weights.shape[1] * op.get(Conv).group != values.shape[1]:
                continue
            room = -(-_PATCHES // fits)
            each = channels_at_once(weights, fits * min(room, int(np.prod(graph.values[op.output].cube[1:]))))
            if each:
                patches = patches_of(values, op, weights, room, each)
                found.setdefault((op.output, number not in tests), Moments()).add(patches)
        seen.clear()  # before the next run makes as much again
    return found
