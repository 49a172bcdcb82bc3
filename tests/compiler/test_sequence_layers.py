"""What sequence models are made of runs on the NPU; ONNX in float is the witness of every number here."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.api import Compiled
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net, feeds

ENDS = {"Reshape", "Transpose"}
"""The CPU arranges what goes in and what comes out."""


def inner(made: Compiled) -> list[str]:
    """What the CPU does between two tasks of the NPU."""
    kinds = [step.type if step.is_cpu else "" for step in made.lowering.program.steps]
    first = kinds.index("")
    last = len(kinds) - kinds[::-1].index("")
    assert set(kinds[:first] + kinds[last:]) <= ENDS
    return [kind for kind in kinds[first:last] if kind]


def decibels(made: Compiled, shape: tuple[int, ...]) -> float:
    return min(verdict.decibels for verdict in verify(made, [{"x": value} for value in feeds(shape, 1)]))


def rotary(tokens: int, heads: int, depth: int, turned: int, *, pairs: bool, fill: int) -> onnx.ModelProto:
    """Attention whose queries and keys are turned by their position: a part of each head, by halves or by pairs."""
    net, width = Net(), heads * depth
    sizes = net.constant([1, tokens, heads, depth], np.int64)
    angle = np.arange(tokens)[:, None] * 0.7 ** np.arange(turned // 2)[None]
    angle = np.repeat(angle, 2, 1) if pairs else np.tile(angle, (1, 2))
    factors = [net.constant(function(angle).astype(np.float32)[None, None]) for function in (np.cos, np.sin)]

    def part(source: str, start: int, stop: int, step: int = 1) -> str:
        return net.add("Slice", source, *(net.constant([entry], np.int64) for entry in (start, stop, 3, step)))

    def head() -> str:
        whole = net.add("MatMul", "x", net.weights(width, width))
        return net.add("Transpose", net.add("Reshape", whole, sizes), perm=[0, 2, 1, 3])

    def rotated(source: str) -> str:
        left, right = part(source, 0, turned), part(source, turned, depth)
        if pairs:
            one, two = part(left, 1, turned, 2), part(left, 0, turned, 2)
            axis = net.constant([4], np.int64)
            both = [net.add("Unsqueeze", entry, axis) for entry in (net.add("Neg", one), two)]
            shape = net.constant([1, heads, tokens, turned], np.int64)
            other = net.add("Reshape", net.add("Concat", *both, axis=-1), shape)
        else:
            one, two = part(left, turned // 2, turned), part(left, 0, turned // 2)
            other = net.add("Concat", net.add("Neg", one), two, axis=-1)
        mixed = net.add("Add", net.add("Mul", left, factors[0]), net.add("Mul", other, factors[1]))
        return net.add("Concat", mixed, right, axis=-1) if turned < depth else mixed

    def filled(source: str) -> str:
        return net.add("Pad", source, net.constant([0] * 7 + [fill], np.int64)) if fill else source

    q, k, v = filled(rotated(head())), filled(rotated(head())), filled(head())
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    found = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    found = part(found, 0, depth) if fill else found
    joined = net.add("Transpose", found, perm=[0, 2, 1, 3])
    rows = net.add("Reshape", joined, net.constant([1, tokens, width], np.int64))
    return net.model({"x": (1, tokens, width)}, [net.add("MatMul", rows, net.weights(width, width))])


@pytest.mark.parametrize(
    ("depth", "turned", "pairs", "fill"), [(36, 32, True, 4), (32, 32, False, 0), (24, 16, False, 0)],
    ids=["pairs of a part, filled up", "halves", "halves of a part"],
)  # fmt: skip
def test_rotary_embedding_is_projections_and_products(depth: int, turned: int, pairs: bool, fill: int) -> None:
    model = rotary(21, 4, depth, turned, pairs=pairs, fill=fill)
    made = compile_model(model, cores=1, check=False)
    assert inner(made) == []
    assert decibels(made, (1, 21, 4 * depth)) > 50


def step(heads: int, depth: int, capacity: int) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """One token through attention over a cache that is an input in the NPU's own layout."""
    net, width = Net(), heads * depth
    shapes: dict[str, tuple[int, ...]] = {
        "x": (1, width, 1, 1), "mask": (1, capacity, 1, 1), "keys": (1, width, 1, capacity),
        "values": (1, width, 1, capacity), "cos": (1, depth, 1, 1), "sin": (1, depth, 1, 1),
    }  # fmt: skip

    def shaped(source: str, *shape: int) -> str:
        return net.add("Reshape", source, net.constant(shape, np.int64))

    def part(source: str, start: int, stop: int) -> str:
        return net.add("Slice", source, *(net.constant([entry], np.int64) for entry in (start, stop, 3)))

    def turned(source: str) -> str:
        other = net.add("Concat", net.add("Neg", part(source, depth // 2, depth)), part(source, 0, depth // 2), axis=-1)
        factors = [shaped(name, 1, 1, 1, depth) for name in ("cos", "sin")]
        return net.add("Add", net.add("Mul", source, factors[0]), net.add("Mul", other, factors[1]))

    x = net.add("LayerNormalization", shaped("x", 1, 1, width), net.constant(np.ones(width)), axis=-1)
    q, k, v = (shaped(net.add("MatMul", x, net.weights(width, width)), 1, heads, 1, depth) for _ in range(3))
    q, k = turned(q), turned(k)
    before = net.add("MatMul", q, shaped("keys", 1, heads, depth, capacity))
    before = net.add("Add", before, shaped("mask", 1, 1, 1, capacity))
    own = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    share = net.add("Softmax", net.add("Concat", before, own, axis=3), axis=-1)
    kept = net.add("Transpose", shaped("values", 1, heads, depth, capacity), perm=[0, 1, 3, 2])
    past = net.add("MatMul", part(share, 0, capacity), kept)
    found = net.add("Add", past, net.add("Mul", v, part(share, capacity, capacity + 1)))
    out = net.add("MatMul", shaped(found, 1, 1, width), net.weights(width, width))
    outputs = [shaped(name, 1, width, 1, 1) for name in (k, v, out)]
    return net.model(shapes, outputs), shapes


def test_a_decoders_step_is_one_submit() -> None:
    """Rows of the cache, masks and positions come in; new rows go out: nothing is left to the CPU."""
    model, shapes = step(4, 16, 48)
    made = compile_model(model, cores=1, check=False)
    assert [entry.type for entry in made.lowering.program.steps if entry.is_cpu] == []
    random = np.random.default_rng(3)
    given = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    given["mask"] = np.where(np.arange(48) < 20, 0, -30000).astype(np.float32).reshape(1, 48, 1, 1)
    assert min(verdict.decibels for verdict in verify(made, [given])) > 50


def line(net: Net, source: str, inputs: int, outputs: int, kernel: int, **attributes: object) -> str:
    """A convolution over time."""
    weight, bias = net.weights(outputs, inputs, kernel), net.constant(net.random.normal(0, 0.1, outputs))
    return net.add("Conv", source, weight, bias, kernel_shape=[kernel], **attributes)


def norm_over_time(kind: str) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """As PyTorch exports GroupNorm and InstanceNorm1d, over a length that has no factors, behind a Tanh or not."""
    net, channels, length = Net(), 32, 997
    x = line(net, "x", 8, channels, 3, pads=[1, 1])
    groups = {"one group": 1, "four groups": 4, "channels": channels}[kind]
    x = net.add("Mul", net.add("Tanh", x), net.constant(0.02)) if kind == "one group" else x
    apart = net.add("Reshape", x, net.constant([1, groups, -1], np.int64)) if groups < channels else x
    unit = net.add("InstanceNormalization", apart, net.constant(np.ones(groups)), net.constant(np.zeros(groups)))
    if groups < channels:
        unit = net.add("Reshape", unit, net.constant([1, channels, length], np.int64))
    scaled = net.add("Add", net.add("Mul", unit, net.weights(channels, 1)), net.weights(channels, 1))
    shape = (1, 8, length)
    return net.model({"x": shape}, [line(net, scaled, channels, 16, 3)]), shape


@pytest.mark.parametrize("kind", ["one group", "four groups", "channels"])
def test_norms_over_time_are_one_submit(kind: str) -> None:
    model, shape = norm_over_time(kind)
    made = compile_model(model, cores=1, check=False)
    assert inner(made) == []
    assert decibels(made, shape) > 50


def test_wide_borders_of_dilated_convolutions_lie_beside_the_line() -> None:
    """HiFi-GAN's blocks: a kernel of 11 with dilation 5 needs 25 zeros on both sides, more than a register counts."""
    net, shape = Net(), (1, 16, 300)
    x = net.add("LeakyRelu", line(net, "x", 16, 16, 3, pads=[1, 1]), alpha=0.1)
    out = line(net, x, 16, 16, 11, pads=[25, 25], dilations=[5])
    made = compile_model(net.model({"x": shape}, [out]), cores=1, check=False)
    assert inner(made) == []
    assert decibels(made, shape) > 50


def test_tables_of_relative_positions_are_projections() -> None:
    """VITS: queries times a table that is filled up with zeros to all distances; its zeros are not multiplied."""
    net, heads, depth, length, window = Net(), 2, 16, 20, 3
    shape = (1, heads * depth, length)
    sizes = net.constant([1, heads, depth, length], np.int64)
    q = net.add("Transpose", net.add("Reshape", line(net, "x", shape[1], shape[1], 1), sizes), perm=[0, 1, 3, 2])
    table = np.zeros((1, 1, depth, 2 * length - 1), np.float32)
    table[..., length - 1 - window : length + window] = net.random.normal(0, 0.3, (depth, 2 * window + 1))
    near = net.add("MatMul", q, net.constant(table))
    out = net.add("MatMul", near, net.constant(table[0].transpose(0, 2, 1)))
    made = compile_model(net.model({"x": shape}, [net.add("Relu", out)]), cores=1, check=False)
    assert "MatMul" not in {entry.type for entry in made.lowering.program.steps if entry.is_cpu}
    widest = max(entry.macs for entry in made.lowering.program.steps)
    assert widest <= (heads * depth) ** 2 * length, "the zeros are multiplied, too"
    assert decibels(made, shape) > 50


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "more"), [(16, 8, 4, 0), (11, 5, 3, 1), (20, 10, 5, 0), (33, 16, 9, 3)],
    ids=["HiFi-GAN", "odd", "two phases", "two phases of eight"],
)  # fmt: skip
def test_signals_are_upsampled_by_any_stride(kernel: int, stride: int, pad: int, more: int) -> None:
    net, shape = Net(), (1, 16, 23)
    weight = net.constant(net.random.normal(0, 0.2, (16, 8, kernel)))
    bias = net.constant(net.random.normal(0, 0.1, 8))
    out = net.add("ConvTranspose", line(net, "x", 16, 16, 1), weight, bias, kernel_shape=[kernel], strides=[stride],
                  pads=[pad, pad], output_padding=[more])  # fmt: skip
    made = compile_model(net.model({"x": shape}, [net.add("LeakyRelu", out, alpha=0.1)]), cores=1, check=False)
    assert inner(made) == []
    assert decibels(made, shape) > 50
