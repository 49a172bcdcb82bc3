"""Layers that work on each number, on channels, or on several values of one shape."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from openrknn.compiler.importer.formats.caffe.place import Place

_SCALE_OPERATORS = {"scale": "Mul", "bias": "Add"}


def plain(kind: str) -> partial[str]:
    """A layer that is one operator of ONNX without attributes."""
    return partial(_plain, kind=kind)


def _plain(place: Place, kind: str) -> str:
    return place.add(kind, [place.source], place.shape)


def relu(place: Place) -> str:
    """With a slope below 0 in some networks."""
    slope = place.param("relu").number("negative_slope", 0.0)
    if slope:
        return place.add("LeakyRelu", [place.source], place.shape, alpha=slope)
    return place.add("Relu", [place.source], place.shape)


def relu6(place: Place) -> str:
    """A fork's ReLU with an upper bound."""
    bounds = [place.constant("low", 0.0), place.constant("high", place.param("relu6").number("threshold", 6.0))]
    return place.add("Clip", [place.source, *bounds], place.shape)


def clip(place: Place) -> str:
    """Between two numbers."""
    fields = place.param("clip")
    bounds = [place.constant("low", fields.number("min", 0.0)), place.constant("high", fields.number("max", 0.0))]
    return place.add("Clip", [place.source, *bounds], place.shape)


def prelu(place: Place) -> str:
    """A slope per channel, or one for all."""
    channels = 1 if place.param("prelu").flag("channel_shared", False) else place.shape[1]
    slopes = place.array(0, (channels,), "slopes").reshape(channels, *[1] * (len(place.shape) - 2))
    return place.add("PRelu", [place.source, place.constant("slopes", slopes)], place.shape)


def elu(place: Place) -> str:
    """alpha (e^x - 1) below 0."""
    return place.add("Elu", [place.source], place.shape, alpha=place.param("elu").number("alpha", 1.0))


def swish(place: Place) -> str:
    """x sigmoid(beta x)."""
    beta = place.param("swish").number("beta", 1.0)
    value = place.source if beta == 1 else place.with_number("Mul", place.source, beta, "scaled")
    gate = place.add("Sigmoid", [value], place.shape, "gate")
    return place.add("Mul", [place.source, gate], place.shape)


def mish(place: Place) -> str:
    """x tanh(log(1 + e^x))."""
    plus = place.add("Softplus", [place.source], place.shape, "plus")
    return place.add("Mul", [place.source, place.add("Tanh", [plus], place.shape, "gate")], place.shape)


def bnll(place: Place) -> str:
    """log(1 + e^x)."""
    return place.add("Softplus", [place.source], place.shape)


def threshold(place: Place) -> str:
    """1 above the threshold, else 0."""
    limit = place.constant("threshold", place.param("threshold").number("threshold", 0.0))
    above = place.add("Greater", [place.source, limit], place.shape, "above")
    return place.add("Cast", [above], place.shape, to=1)


def _chain(place: Place, steps: list[tuple[str, float | None]]) -> str:
    """Operators one after the other, each with a number or alone; the last one makes the result."""
    value = place.source
    if not steps:
        return place.add("Identity", [value], place.shape)
    for at, (kind, number) in enumerate(steps):
        suffix = "" if at == len(steps) - 1 else f"step{at}"
        if number is None:
            value = place.add(kind, [value], place.shape, suffix)
        else:
            value = place.with_number(kind, value, number, suffix)
    return value


def _affine(shift: float, factor: float) -> list[tuple[str, float | None]]:
    steps: list[tuple[str, float | None]] = [("Mul", factor)] if factor != 1 else []
    return [*steps, *([("Add", shift)] if shift else [])]


def power(place: Place) -> str:
    """(shift + scale x)^power."""
    fields = place.param("power")
    steps = _affine(fields.number("shift", 0.0), fields.number("scale", 1.0))
    exponent = fields.number("power", 1.0)
    return _chain(place, [*steps, ("Pow", exponent)] if exponent != 1 else steps)


def _base(place: Place, name: str) -> float:
    base = place.param(name).number("base", -1.0)
    if base != -1 and base <= 0:
        raise place.wrong(f"base: {base} cannot be")
    return 1.0 if base == -1 else math.log(base)


def exponential(place: Place) -> str:
    """base^(shift + scale x); -1 means e."""
    fields, factor = place.param("exp"), _base(place, "exp")
    steps = _affine(fields.number("shift", 0.0) * factor, fields.number("scale", 1.0) * factor)
    return _chain(place, [*steps, ("Exp", None)])


def logarithm(place: Place) -> str:
    """log(shift + scale x) to a base; -1 means e."""
    fields, factor = place.param("log"), _base(place, "log")
    steps = [*_affine(fields.number("shift", 0.0), fields.number("scale", 1.0)), ("Log", None)]
    return _chain(place, [*steps, ("Mul", 1 / factor)] if factor != 1 else steps)


def batch_norm(place: Place) -> str:
    """Means and variances are stored times a factor, which is the third array."""
    channels = place.shape[1]
    fields = place.param("batch_norm")
    mean, variance = place.array(0, (channels,), "means"), place.array(1, (channels,), "variances")
    stored = float(place.array(2, (1,), "factor")[0]) if len(place.blobs) > 2 else 1.0
    factor = 1 / stored if stored else 0.0
    constants = [
        place.constant(name, array)
        for name, array in (
            ("scale", np.ones(channels)), ("shift", np.zeros(channels)), ("mean", mean * factor),
            ("variance", variance * factor),
        )
    ]  # fmt: skip
    return place.add("BatchNormalization", [place.source, *constants], place.shape,
                     epsilon=fields.number("eps", 1e-5))  # fmt: skip


def scale(place: Place) -> str:
    """Times a stored array, and plus another one; or times a second value."""
    fields = place.param("scale")
    if not fields.flag("bias_term", False):
        return _spread(place, "scale", 0)
    made = _spread(place, "scale", 0, "scaled")
    axis = place.axis(fields.whole("axis", 1))
    is_given = len(place.sources) > 1
    sizes = place.build.shapes[place.sources[1]] if is_given else _natural(place, axis, fields.whole("num_axes", 1))
    array = place.array(0 if is_given else 1, sizes, "biases")
    shift = place.constant("shift", array.reshape(*sizes, *[1] * (len(place.shape) - axis - len(sizes))))
    return place.add("Add", [made, shift], place.shape)


def bias(place: Place) -> str:
    """Plus a stored array, or a second value."""
    return _spread(place, "bias", 0)


def _natural(place: Place, axis: int, count: int) -> tuple[int, ...]:
    """The stored array's dimensions: num_axes of the value's own from `axis` on."""
    return place.shape[axis:] if count == -1 else place.shape[axis : axis + count]


def _sizes(place: Place, axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if tuple(place.shape[axis : axis + len(shape)]) != tuple(shape):
        raise place.wrong(f"{list(shape)} does not fit {list(place.shape)} from axis {axis} on")
    return tuple(shape)


def _spread(place: Place, name: str, number: int, suffix: str = "") -> str:
    """The value with a smaller one, whose first dimension is at `axis`."""
    fields = place.param(name)
    axis = place.axis(fields.whole("axis", 1))
    rank = len(place.shape)
    if len(place.sources) > 1:
        shape = place.build.shapes[place.sources[1]]
        sizes = _sizes(place, axis, shape)
        other = place.sources[1]
        if axis + len(sizes) < rank:
            other = place.reshape(other, [*sizes, *[1] * (rank - axis - len(sizes))], "spread")
    else:
        sizes = _natural(place, axis, fields.whole("num_axes", 1))
        array = place.array(number, sizes, "factors" if name == "scale" else "biases")
        other = place.constant(name, array.reshape(*sizes, *[1] * (rank - axis - len(sizes))))
    return place.add(_SCALE_OPERATORS[name], [place.source, other], place.shape, suffix)


def axpy(place: Place) -> str:
    """SENet's: a x + y, with a number per channel for a."""
    if len(place.sources) != 3:
        raise place.wrong("it needs three values")
    first, second, third = place.sources
    shape = place.build.shapes[second]
    factors = place.build.shapes[first]
    if factors[:2] != shape[:2] or math.prod(factors[2:]) != 1 or place.build.shapes[third] != shape:
        raise place.wrong(f"{list(factors)}, {list(shape)} and {list(place.build.shapes[third])} do not fit")
    gate = first if len(factors) == len(shape) else place.reshape(first, [*factors[:2], 1, 1], "gate")
    product = place.add("Mul", [second, gate], shape, "product")
    return place.add("Add", [product, third], shape)


def eltwise(place: Place) -> str:
    """Sums with factors, products and maxima of values of one shape."""
    fields = place.param("eltwise")
    word = fields.word("operation", "SUM")
    operation = {"0": "PROD", "1": "SUM", "2": "MAX"}.get(word, word)
    kind = {"PROD": "Mul", "SUM": "Add", "MAX": "Max", "MIN": "Min"}.get(operation)
    if kind is None:
        raise place.wrong(f"operation: {operation} is not one of the forms that the compiler has")
    wrong = [name for name in place.sources if place.build.shapes[name] != place.shape]
    if wrong:
        raise place.wrong(f"{list(place.build.shapes[wrong[0]])} and {list(place.shape)} differ")
    values = list(place.sources)
    factors = fields.numbers("coeff") if operation == "SUM" else []
    if factors and len(factors) != len(values):
        raise place.wrong(f"{len(factors)} factors (coeff) for {len(values)} values")
    total = values[0]
    if factors and factors[0] != 1:
        total = place.with_number("Mul", total, factors[0], "part0")
    for at, value in enumerate(values[1:], 1):
        suffix = "" if at == len(values) - 1 else f"sum{at}"
        factor = factors[at] if factors else 1.0
        step, other = kind, value
        if factor == -1:
            step = "Sub"
        elif factor != 1:
            other = place.with_number("Mul", value, factor, f"part{at}")
        total = place.add(step, [total, other], place.shape, suffix)
    return total if len(values) > 1 else place.add("Identity", [total], place.shape)
