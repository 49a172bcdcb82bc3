"""A voice of Piper's shape with weights by chance: the graph that Piper exports, operator by operator, and its config.

    python -m tools.vits medium VOICE.onnx [--speakers 4]

It says nothing that anybody would understand; it costs what a real voice costs, and every number of it can be compared.
Written after the paper (VITS, 2021) and the operators of a real export; no PyTorch is needed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["SIZES", "Size", "config_of", "make_voice", "write_voice"]

_PHONEMES = (
    "_^$ !'(),-.:;?abcdefhijklmnopqrstuvwxyz"
    "æçðøħŋœǀǁǂǃɐɑɒɓɔɕɖɗɘəɚɛɜɞɟɠɡɢɣɤɥɦɧɨɪɫɬɭɮɯɰɱɲɳɴɵɶɸɹɺɻɽɾʀʁʂʃʄʈʉ"
    "ʊʋʌʍʎʏʐʑʒʔʕʘʙʛʜʝʟʡʢʲˈˌːˑ˞βθχᵻⱱ01"
    '23456789̧̪̯̩̃ʰˤε↓#"↑̺̻'
)
"""Piper's, in the order of their numbers."""
_WINDOW = 4
_BINS = 10
_TAIL = 5.0


@dataclass(frozen=True)
class Size:
    """What Piper calls quality."""

    name: str
    rate: int
    hidden: int
    filter: int
    layers: int = 6
    heads: int = 2
    initial: int = 256
    rates: tuple[int, ...] = (8, 8, 4)
    kernels: tuple[int, ...] = (16, 16, 8)
    blocks: tuple[tuple[int, tuple[int, ...]], ...] = ((3, (1, 2)), (5, (2, 6)), (7, (3, 12)))
    couplings: int = 4
    symbols: int = 256
    speakers: int = 1
    speaker_width: int = 512
    stochastic: bool = True

    @property
    def hop(self) -> int:
        """Samples of a frame."""
        return prod(self.rates)


SIZES = {
    "medium": Size("medium", 22050, 192, 768),
    "low": Size("low", 16000, 96, 384),
    "tiny": Size(
        "tiny", 16000, 16, 32, 2, 2, 32, (4, 4), (8, 8), ((3, (1, 2)), (5, (2, 3))), 2, speaker_width=8
    ),
}  # fmt: skip


@dataclass
class _Net:
    """Nodes, in the order in which they are written down."""

    size: Size
    random: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        outputs = self.many(kind, 1, *inputs, **attributes)
        return outputs[0]

    def many(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        outputs = [f"v{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def weight(self, *shape: int, scale: float) -> str:
        return self.keep((self.random.standard_normal(shape) * scale).astype(np.float32))

    def keep(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def const(self, value: Any, kind: Any = np.int64) -> str:
        return self("Constant", value=numpy_helper.from_array(np.asarray(value, kind)))

    def conv(
        self, x: str, ins: int, outs: int, kernel: int = 1, *, dilation: int = 1, groups: int = 1, gain: float = 1.0,
        bias: bool = True, pad: bool = True,
    ) -> str:  # fmt: skip
        weights = [self.weight(outs, ins // groups, kernel, scale=gain / sqrt(ins // groups * kernel))]
        weights += [self.weight(outs, scale=0.05)] if bias else []
        side = (kernel - 1) * dilation // 2 if pad else 0
        return self(
            "Conv", x, *weights, dilations=[dilation], group=groups, kernel_shape=[kernel], pads=[side, side],
            strides=[1],
        )  # fmt: skip

    def slice(self, x: str, start: Any, end: Any, axis: int, step: int = 1) -> str:
        ends = [self.const([value]) if isinstance(value, int) else value for value in (start, end)]
        return self("Slice", x, *ends, self.const([axis]), self.const([step]))

    def length(self, x: str, axis: int) -> str:
        return self("Gather", self("Shape", x), self.const(axis))

    def vector(self, *values: Any) -> str:
        parts = [self.const([value]) if isinstance(value, int) else self("Unsqueeze", value, self.const([0]))
                 for value in values]  # fmt: skip
        return self("Concat", *parts, axis=0)

    def norm(self, x: str) -> str:
        """LayerNorm over channels, as opset 15 writes it."""
        x = self("Transpose", x, perm=[0, 2, 1])
        centred = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        variance = self("ReduceMean", self("Pow", centred, self.const(2.0, np.float32)), axes=[-1])
        scaled = self("Div", centred, self("Sqrt", self("Add", variance, self.const(1e-5, np.float32))))
        width = self.size.hidden
        gamma = self.keep((1 + 0.1 * self.random.standard_normal(width)).astype(np.float32))
        x = self("Add", self("Mul", scaled, gamma), self.weight(width, scale=0.1))
        return self("Transpose", x, perm=[0, 2, 1])

    def gelu(self, x: str) -> str:
        erf = self("Erf", self("Div", x, self.const(sqrt(2), np.float32)))
        return self("Mul", self("Mul", x, self("Add", erf, self.const(1.0, np.float32))), self.const(0.5, np.float32))

    def mask(self, lengths: str, longest: str) -> str:
        """[1, 1, longest] of 0 and 1."""
        steps = self("Range", self.const(0), longest, self.const(1))
        less = self("Less", self("Unsqueeze", steps, self.const([0])), self("Unsqueeze", lengths, self.const([1])))
        return self("Cast", self("Unsqueeze", less, self.const([1])), to=TensorProto.FLOAT)


def make_voice(size: Size, seed: int = 1) -> Any:
    """The model."""
    net = _Net(size, np.random.default_rng(seed))
    scale = [net("Gather", "scales", net.const(number)) for number in range(3)]
    hidden, mean, logs, mask = _encoder(net)
    speaker = ""
    if size.speakers > 1:
        row = net("Gather", net.weight(size.speakers, size.speaker_width, scale=1.0), "sid")
        speaker = net("Unsqueeze", row, net.const([-1]))
    logw = (_stochastic if size.stochastic else _plain)(net, hidden, mask, speaker, scale[2])
    frames = net("Ceil", net("Mul", net("Mul", net("Exp", logw), mask), scale[1]))
    total = net("Clip", net("ReduceSum", frames, net.const([1, 2]), keepdims=0), net.const(1.0, np.float32))
    lengths = net("Cast", total, to=TensorProto.INT64)
    frame_mask = net.mask(lengths, net("ReduceMax", lengths, keepdims=0))
    path = _path(net, frames, mask, frame_mask)
    wide = [net("Transpose", net("MatMul", path, net("Transpose", x, perm=[0, 2, 1])), perm=[0, 2, 1])
            for x in (mean, logs)]  # fmt: skip
    noise = net("Mul", net("Mul", net("RandomNormalLike", wide[0]), net("Exp", wide[1])), scale[0])
    latent = _flow(net, net("Add", wide[0], noise), frame_mask, speaker)
    sound = _decoder(net, net("Mul", latent, frame_mask), speaker)
    net.nodes.append(helper.make_node("Unsqueeze", [sound, net.const([1])], ["output"]))
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.INT64, ["batch_size", "phonemes"]),
        helper.make_tensor_value_info("input_lengths", TensorProto.INT64, ["batch_size"]),
        helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
        *([helper.make_tensor_value_info("sid", TensorProto.INT64, [1])] if size.speakers > 1 else []),
    ]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch_size", 1, "time", None])
    graph = helper.make_graph(net.nodes, "vits", inputs, [output], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], producer_name="openrknn tools.vits")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def _encoder(net: _Net) -> tuple[str, str, str, str]:
    size = net.size
    table = net.weight(size.symbols, size.hidden, scale=size.hidden**-0.5)
    x = net("Mul", net("Gather", table, "input"), net.const(sqrt(size.hidden), np.float32))
    x = net("Transpose", x, perm=[0, 2, 1])
    mask = net.mask("input_lengths", net.length(x, 2))
    pairs = net("Mul", net("Unsqueeze", mask, net.const([2])), net("Unsqueeze", mask, net.const([-1])))
    x = net("Mul", net("Mul", x, mask), mask)
    for _ in range(size.layers):
        x = net.norm(net("Add", x, _attention(net, x, pairs)))
        x = net.norm(net("Add", x, _feed(net, x, mask)))
    x = net("Mul", x, mask)
    stats = net("Mul", net.conv(x, size.hidden, 2 * size.hidden, gain=0.5), mask)
    mean, logs = net.many("Split", 2, stats, net.const([size.hidden] * 2), axis=1)
    return x, mean, logs, mask


def _attention(net: _Net, x: str, pairs: str) -> str:
    """With a learned place for each distance up to the window."""
    width, heads = net.size.hidden, net.size.heads
    deep = width // heads
    query, key, value = (net.conv(x, width, width) for _ in range(3))
    length = net.length(query, 2)
    query, key, value = (
        net("Transpose", net("Reshape", y, net.vector(1, heads, deep, length)), perm=[0, 1, 3, 2])
        for y in (query, key, value)
    )
    query = net("Div", query, net.const(sqrt(deep), np.float32))
    scores = net("MatMul", query, net("Transpose", key, perm=[0, 1, 3, 2]))
    near = net("MatMul", query, net("Transpose", _places(net, length, deep), perm=[0, 1, 3, 2]))
    scores = net("Add", scores, _absolute(net, near, length))
    is_out = net("Equal", pairs, net.const(0.0, np.float32))
    share = net("Softmax", net("Where", is_out, net.const(-1e4, np.float32), scores), axis=-1)
    result = net("MatMul", share, value)
    result = net("Add", result, net("MatMul", _relative(net, share, length), _places(net, length, deep)))
    result = net("Reshape", net("Transpose", result, perm=[0, 1, 3, 2]), net.vector(1, width, length))
    return net.conv(result, width, width)


def _places(net: _Net, length: str, deep: int) -> str:
    """[1, 1, 2 length - 1, deep]: the table, with zeros beyond the window."""
    table = net.weight(1, 2 * _WINDOW + 1, deep, scale=deep**-0.5)
    side = net("Sub", length, net.const(_WINDOW + 1))
    padded = net("Pad", table, net.vector(0, side, 0, 0, side, 0))
    return net("Unsqueeze", padded, net.const([0]))


def _absolute(net: _Net, x: str, length: str) -> str:
    """[1, heads, length, 2 length - 1] by distance -> [1, heads, length, length] by place: the skewing trick."""
    heads = net.size.heads
    double = net("Mul", length, net.const(2))
    x = net("Pad", x, net.const([0, 0, 0, 0, 0, 0, 0, 1]))
    flat = net("Reshape", x, net.vector(1, heads, net("Mul", length, double)))
    flat = net("Pad", flat, net.vector(0, 0, 0, 0, 0, net("Sub", length, net.const(1))))
    rows = net("Add", length, net.const(1))
    x = net("Reshape", flat, net.vector(1, heads, rows, net("Sub", double, net.const(1))))
    x = net.slice(x, 0, net.vector(length), 2)
    return net.slice(x, net.vector(net("Sub", length, net.const(1))), 2**63 - 1, 3)


def _relative(net: _Net, x: str, length: str) -> str:
    """The way back."""
    heads = net.size.heads
    less = net("Sub", length, net.const(1))
    x = net("Pad", x, net.vector(0, 0, 0, 0, 0, 0, 0, less))
    both = net("Add", net("Mul", length, length), net("Mul", length, less))
    flat = net("Pad", net("Reshape", x, net.vector(1, heads, both)), net.vector(0, 0, length, 0, 0, 0))
    x = net("Reshape", flat, net.vector(1, heads, length, net("Mul", length, net.const(2))))
    return net.slice(x, 1, 2**63 - 1, 3)


def _feed(net: _Net, x: str, mask: str) -> str:
    width, inner = net.size.hidden, net.size.filter
    pads = net.const([0, 0, 1, 0, 0, 1])
    x = net("Relu", net.conv(net("Pad", net("Mul", x, mask), pads), width, inner, 3, pad=False))
    x = net.conv(net("Pad", net("Mul", x, mask), pads), inner, width, 3, pad=False)
    return net("Mul", x, mask)


def _separable(net: _Net, x: str, mask: str) -> str:
    width = net.size.hidden
    for number in range(3):
        y = net.conv(net("Mul", x, mask), width, width, 3, dilation=3**number, groups=width)
        y = net.gelu(net.norm(y))
        y = net.gelu(net.norm(net.conv(y, width, width)))
        x = net("Add", x, y)
    return net("Mul", x, mask)


def _given(net: _Net, hidden: str, mask: str, speaker: str) -> str:
    width = net.size.hidden
    x = net.conv(hidden, width, width)
    if speaker:
        x = net("Add", x, net.conv(speaker, net.size.speaker_width, width))
    x = _separable(net, x, mask)
    return net("Mul", net.conv(x, width, width), mask)


def _stochastic(net: _Net, hidden: str, mask: str, speaker: str, noise_scale: str) -> str:
    """Logarithms of the durations: noise through inverse flows of splines."""
    given = _given(net, hidden, mask, speaker)
    shape = net("ConstantOfShape", net.vector(1, 2, net.length(given, 2)))
    z = net("Mul", net("RandomNormalLike", shape, dtype=TensorProto.FLOAT), noise_scale)
    for _ in range(3):
        z = net.slice(z, -1, -(2**63) + 1, 1, -1)
        z0, z1 = net.many("Split", 2, z, net.const([1, 1]), axis=1)
        h = net("Add", net.conv(z0, 1, net.size.hidden), given)
        h = net("Mul", net.conv(_separable(net, h, mask), net.size.hidden, 3 * _BINS - 1, gain=0.3), mask)
        z = net("Mul", net("Concat", z0, _spline(net, z1, net("Transpose", h, perm=[0, 2, 1])), axis=1), mask)
    z = net.slice(z, -1, -(2**63) + 1, 1, -1)
    shift = net.keep(np.array([[-1.0], [0.1]], np.float32))
    z = net("Mul", net("Mul", net("Sub", z, shift), net("Exp", net("Neg", net.weight(2, 1, scale=0.1)))), mask)
    return net.many("Split", 2, z, net.const([1, 1]), axis=1)[0]


def _spline(net: _Net, x: str, h: str) -> str:
    """The inverse of a monotonic rational quadratic spline, [1, 1, T] by [1, T, 29]; linear outside of its box."""

    def number(value: float) -> str:
        return net.const(value, np.float32)

    root = number(sqrt(net.size.hidden))
    parts = net.many("Split", 3, h, net.const([_BINS, _BINS, _BINS - 1]), axis=2)

    def knots(raw: str) -> tuple[str, str]:
        share = net("Softmax", net("Div", raw, root), axis=-1)
        share = net("Add", net("Mul", share, number(1 - 1e-3 * _BINS)), number(1e-3))
        ends = net("Pad", net("CumSum", share, net.const(2)), net.const([0, 0, 1, 0, 0, 0]))
        ends = net("Sub", net("Mul", ends, number(2 * _TAIL)), number(_TAIL))
        return ends, net("Sub", net.slice(ends, 1, 2**63 - 1, 2), net.slice(ends, 0, -1, 2))

    (xs, widths), (ys, heights) = knots(parts[0]), knots(parts[1])
    edge = float(np.log(np.exp(1 - 1e-3) - 1))
    slopes = net("Pad", parts[2], net.const([0, 0, 1, 0, 0, 1]), number(edge))
    slopes = net("Add", net("Softplus", slopes), number(1e-3))
    inside = net("Transpose", net("Clip", x, number(-_TAIL), number(_TAIL)), perm=[0, 2, 1])
    above = net("Cast", net("GreaterOrEqual", inside, ys), to=TensorProto.INT64)
    place = net("Sub", net("ReduceSum", above, net.const([2]), keepdims=1), net.const(1))
    place = net("Min", place, net.const(_BINS - 1))

    def at(values: str) -> str:
        return net("GatherElements", values, place, axis=2)

    x0, wide, y0, high = at(xs), at(widths), at(ys), at(heights)
    delta, left, right = net("Div", high, wide), at(slopes), at(net.slice(slopes, 1, 2**63 - 1, 2))
    from_knot = net("Sub", inside, y0)
    bend = net("Sub", net("Add", left, right), net("Mul", delta, number(2)))
    a = net("Add", net("Mul", from_knot, bend), net("Mul", high, net("Sub", delta, left)))
    b = net("Sub", net("Mul", high, left), net("Mul", from_knot, bend))
    c = net("Neg", net("Mul", delta, from_knot))
    under = net("Sub", net("Mul", b, b), net("Mul", net("Mul", a, c), number(4)))
    bottom = net("Sub", net("Neg", b), net("Sqrt", net("Max", under, number(0))))
    result = net("Add", net("Mul", net("Div", net("Mul", c, number(2)), bottom), wide), x0)
    is_in = net("LessOrEqual", net("Abs", x), number(_TAIL))
    return net("Where", is_in, net("Transpose", result, perm=[0, 2, 1]), x)


def _plain(net: _Net, hidden: str, mask: str, speaker: str, noise_scale: str) -> str:
    """Without chance: two convolutions."""
    del noise_scale
    x = net("Relu", _given(net, hidden, mask, speaker))
    x = net.norm(net("Relu", net.conv(net("Mul", x, mask), net.size.hidden, net.size.hidden, 3)))
    return net("Mul", net.conv(net("Mul", x, mask), net.size.hidden, 1, gain=0.5), mask)


def _path(net: _Net, frames: str, mask: str, frame_mask: str) -> str:
    """[1, frames, phonemes] of 0 and 1: which phoneme a frame belongs to."""
    pairs = net("Mul", net("Unsqueeze", mask, net.const([2])), net("Unsqueeze", frame_mask, net.const([-1])))
    ends = net("Reshape", net("CumSum", frames, net.const(-1)), net.vector(net.length(pairs, 3)))
    steps = net("Range", net.const(0), net.length(pairs, 2), net.const(1))
    steps = net("Cast", net("Unsqueeze", steps, net.const([0])), to=TensorProto.FLOAT)
    reached = net("Cast", net("Less", steps, net("Unsqueeze", ends, net.const([1]))), to=TensorProto.FLOAT)
    reached = net("Reshape", reached, net.vector(1, net.length(pairs, 3), net.length(pairs, 2)))
    before = net.slice(net("Pad", reached, net.const([0, 1, 0, 0, 0, 0])), 0, -1, 1)
    path = net("Transpose", net("Unsqueeze", net("Sub", reached, before), net.const([1])), perm=[0, 1, 3, 2])
    return net("Squeeze", net("Mul", path, pairs), net.const([1]))


def _flow(net: _Net, x: str, mask: str, speaker: str) -> str:
    width = net.size.hidden
    for _ in range(net.size.couplings):
        x = net.slice(x, -1, -(2**63) + 1, 1, -1)
        x0, x1 = net.many("Split", 2, x, net.const([width // 2] * 2), axis=1)
        h = _wavenet(net, net("Mul", net.conv(x0, width // 2, width), mask), mask, speaker)
        mean = net("Mul", net.conv(h, width, width // 2, gain=0.5), mask)
        zeros = net("ConstantOfShape", net("Shape", mean))
        x1 = net("Mul", net("Mul", net("Sub", x1, mean), net("Exp", net("Neg", zeros))), mask)
        x = net("Concat", x0, x1, axis=1)
    return x


def _wavenet(net: _Net, x: str, mask: str, speaker: str) -> str:
    width, layers = net.size.hidden, 4
    result = net("ConstantOfShape", net("Shape", x))
    given = net.conv(speaker, net.size.speaker_width, 2 * width * layers) if speaker else ""
    for number in range(layers):
        both = net.conv(x, width, 2 * width, 5)
        part = (
            net.slice(given, 2 * width * number, 2 * width * (number + 1), 1)
            if given else net("ConstantOfShape", net("Shape", both))
        )  # fmt: skip
        both = net("Add", both, part)
        gated = net("Mul", net("Tanh", net.slice(both, 0, width, 1)),
                    net("Sigmoid", net.slice(both, width, 2**63 - 1, 1)))  # fmt: skip
        is_last = number == layers - 1
        added = net.conv(gated, width, width if is_last else 2 * width)
        if not is_last:
            x = net("Mul", net("Add", x, net.slice(added, 0, width, 1)), mask)
            added = net.slice(added, width, 2**63 - 1, 1)
        result = net("Add", result, added)
    return net("Mul", result, mask)


def _decoder(net: _Net, z: str, speaker: str) -> str:
    """HiFi-GAN."""
    size = net.size
    width = size.initial
    x = net.conv(z, size.hidden, width, 7)
    if speaker:
        x = net("Add", x, net.conv(speaker, size.speaker_width, width))
    for rate, kernel in zip(size.rates, size.kernels, strict=True):
        weights = net.weight(width, width // 2, kernel, scale=1.2 / sqrt(width * kernel / rate))
        width //= 2
        side = (kernel - rate) // 2
        x = net(
            "ConvTranspose", net("LeakyRelu", x, alpha=0.1), weights, net.weight(width, scale=0.05), dilations=[1],
            group=1, kernel_shape=[kernel], pads=[side, side], strides=[rate],
        )  # fmt: skip
        total = ""
        for span, dilations in size.blocks:
            y = x
            for dilation in dilations:
                y = net("Add", net.conv(net("LeakyRelu", y, alpha=0.1), width, width, span, dilation=dilation), y)
            total = net("Add", total, y) if total else y
        x = net("Div", total, net.const(float(len(size.blocks)), np.float32))
    return net("Tanh", net.conv(net("LeakyRelu", x, alpha=0.01), width, 1, 7, bias=False, gain=0.3))


def config_of(size: Size, voice: str = "en-us", phoneme_type: str = "espeak") -> dict[str, Any]:
    """What lies beside it as `VOICE.onnx.json`."""
    return {
        "audio": {"sample_rate": size.rate, **({"quality": size.name} if size.name != "tiny" else {})},
        "espeak": {"voice": voice},
        "phoneme_type": phoneme_type,
        "inference": {"noise_scale": 0.667, "length_scale": 1, "noise_w": 0.8},
        "phoneme_map": {},
        "phoneme_id_map": {letter: [number] for number, letter in enumerate(_PHONEMES)},
        "num_symbols": size.symbols,
        "num_speakers": size.speakers,
        "speaker_id_map": {f"p{number}": number for number in range(size.speakers)} if size.speakers > 1 else {},
        "hop_length": size.hop,
        "piper_version": "1.0.0",
        "language": {"code": "en_US"},
    }


def write_voice(path: str | Path, size: Size, seed: int = 1, **config: Any) -> Path:
    """The model and its config beside it."""
    path = Path(path)
    onnx.save(make_voice(size, seed), str(path))
    text = json.dumps(config_of(size, **config), indent=1, ensure_ascii=False)
    Path(f"{path}.json").write_text(text, encoding="utf-8")
    return path


def main() -> None:
    """Write one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("path")
    parser.add_argument("--speakers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write_voice(arguments.path, replace(SIZES[arguments.size], speakers=arguments.speakers), arguments.seed)


if __name__ == "__main__":
    main()
