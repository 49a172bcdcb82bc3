"""Darknet's activations as ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from openrknn.compiler.importer.formats.assembly import Assembly
from openrknn.compiler.importer.formats.darknet.cfg import Section

_ONE = {"relu": "Relu", "logistic": "Sigmoid", "tanh": "Tanh", "selu": "Selu"}
_LEAKY = {"leaky": 0.1, "relie": 0.01, "revleaky": 0.1}
_Make = Callable[[Assembly, str, str], str]


def activate(build: Assembly, source: str, output: str, section: Section, kind: str) -> str:
    """The activation of a layer; `output` names the result."""
    shape = build.shapes[source]
    if kind == "linear":
        return source
    if kind in _ONE:
        return build.add(_ONE[kind], [source], output, shape)
    if kind in _LEAKY:
        return build.add("LeakyRelu", [source], output, shape, alpha=_LEAKY[kind])
    if kind in _MADE:
        return _MADE[kind](build, source, output)
    raise section.wrong(
        f"the activation {kind!r} is not one that the compiler has; there are linear, "
        f"{', '.join(sorted({*_ONE, *_LEAKY, *_MADE}))}"
    )


def _scalar(build: Assembly, output: str, value: float) -> str:
    return build.constant(f"{output}.number", value)


def _clipped(build: Assembly, source: str, output: str, low: float, high: float) -> str:
    bounds = [_scalar(build, output, low), _scalar(build, output, high)]
    return build.add("Clip", [source, *bounds], output, build.shapes[source])


def _swish(build: Assembly, source: str, output: str) -> str:
    shape = build.shapes[source]
    return build.add("Mul", [source, build.add("Sigmoid", [source], f"{output}.gate", shape)], output, shape)


def _mish(build: Assembly, source: str, output: str) -> str:
    shape = build.shapes[source]
    gate = build.add("Tanh", [build.add("Softplus", [source], f"{output}.plus", shape)], f"{output}.gate", shape)
    return build.add("Mul", [source, gate], output, shape)


def _hard_mish(build: Assembly, source: str, output: str) -> str:
    """x above 0, x + x^2 / 2 from -2 to 0, 0 below: Relu(x) + y (1 + y / 2) with y = x between -2 and 0."""
    shape = build.shapes[source]
    low = _clipped(build, source, f"{output}.low", -2.0, 0.0)
    half = build.add("Mul", [low, _scalar(build, output, 0.5)], f"{output}.half", shape)
    bent = build.add("Add", [half, _scalar(build, output, 1.0)], f"{output}.bent", shape)
    below = build.add("Mul", [low, bent], f"{output}.below", shape)
    return build.add("Add", [build.add("Relu", [source], f"{output}.above", shape), below], output, shape)


def _gelu(build: Assembly, source: str, output: str) -> str:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    shape = build.shapes[source]
    cube = build.add("Pow", [source, _scalar(build, output, 3.0)], f"{output}.cube", shape)
    bent = build.add("Mul", [cube, _scalar(build, output, 0.044715)], f"{output}.bent", shape)
    inner = build.add("Add", [source, bent], f"{output}.inner", shape)
    scaled = build.add("Mul", [inner, _scalar(build, output, math.sqrt(2 / math.pi))], f"{output}.scaled", shape)
    tanh = build.add("Tanh", [scaled], f"{output}.tanh", shape)
    gate = build.add("Add", [tanh, _scalar(build, output, 1.0)], f"{output}.gate", shape)
    whole = build.add("Mul", [source, gate], f"{output}.twice", shape)
    return build.add("Mul", [whole, _scalar(build, output, 0.5)], output, shape)


def _loggy(build: Assembly, source: str, output: str) -> str:
    """2 sigmoid(x) - 1, which is tanh(x / 2)."""
    shape = build.shapes[source]
    half = build.add("Mul", [source, _scalar(build, output, 0.5)], f"{output}.half", shape)
    return build.add("Tanh", [half], output, shape)


def _ramp(build: Assembly, source: str, output: str) -> str:
    shape = build.shapes[source]
    slow = build.add("Mul", [source, _scalar(build, output, 0.1)], f"{output}.slow", shape)
    return build.add("Add", [build.add("Relu", [source], f"{output}.above", shape), slow], output, shape)


_MADE: dict[str, _Make] = {
    "swish": _swish,
    "silu": _swish,
    "mish": _mish,
    "hard_mish": _hard_mish,
    "gelu": _gelu,
    "loggy": _loggy,
    "ramp": _ramp,
    "relu6": lambda build, source, output: _clipped(build, source, output, 0.0, 6.0),
    "hardtan": lambda build, source, output: _clipped(build, source, output, -1.0, 1.0),
    "elu": lambda build, source, output: build.add("Elu", [source], output, build.shapes[source]),
}
