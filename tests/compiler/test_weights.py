"""Weights of very uneven channels."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.quantise.weights import quantize_weights, relative_scales
from openrknn.runtime.session import Session
from tests.compiler.nets import Net, feeds


def test_scales_are_what_the_npu_multiplies_with() -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0, 1, (40, 8, 3, 3)) * 10.0 ** random.uniform(-6, 0, (40, 1, 1, 1))
    made = quantize_weights(weights)
    multipliers = relative_scales(made.scale)
    np.testing.assert_allclose(multipliers / 16384 * made.scale.max(), made.scale, rtol=1e-12)
    assert np.all(np.abs(made.real - weights).max(axis=(1, 2, 3)) <= 0.51 * made.scale)
    natural = (np.maximum(weights.max((1, 2, 3)), 0) - np.minimum(weights.min((1, 2, 3)), 0)) / 255
    assert np.all(made.scale >= natural * (1 - 1e-6))
    assert np.all(made.scale <= natural + made.scale.max() / 16384 * (1 + 1e-6))


@pytest.mark.parametrize("group", [1, 32])
def test_the_bias_of_a_nearly_dead_channel_survives(group: int) -> None:
    """Its weights are a millionth of the others': a multiplier of at least 1 made its bias many times too large."""
    net = Net()
    weight = net.random.normal(0, 1, (32, 32 // group, 3, 3))
    weight[5] *= 1e-6
    bias = net.random.normal(0, 1, 32)
    bias[5] = 1.5
    out = net.add("Conv", "x", net.constant(weight), net.constant(bias), kernel_shape=[3, 3], group=group)
    shape = (1, 32, 8, 8)
    data = feeds(shape)
    compiled = compile_model(net.model({"x": shape}, [out]), calibration=data)
    target = compiled.graph.values[out].quantization
    assert target is not None
    with Session(compiled.model, "software") as session:
        found = session.run(data[0], layout="nchw")[out]
    np.testing.assert_allclose(found[0, 5], 1.5, atol=target.scale)


@pytest.mark.parametrize("group", [1, 32])
def test_weights_below_the_normal_numbers_of_fp16_keep_their_digits(group: int) -> None:
    """A batch norm behind large numbers, folded: weights of 7e-6 had 7 bits (52 dB). Witness: the sums in float64."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(32, 32 // group, 1, 1)) * 7e-6
    weights[-1] *= 1e-9  # a dead kernel, which nothing saves
    bias = random.normal(size=32) * 0.05
    x = (random.normal(size=(1, 32, 8, 4)) * 3000).astype(np.float16).astype(np.float32)
    net = Net()
    out = net.add("Conv", "x", net.constant(weights), net.constant(bias), kernel_shape=[1, 1], group=group)
    model = net.model({"x": x.shape}, [out])
    rows = weights[:, :, 0, 0] if group == 1 else np.diag(weights[:, 0, 0, 0])
    wanted = np.einsum("oi,bihw->bohw", rows, x.astype(np.float64)) + bias[None, :, None, None]
    with Session(compile_model(model, check=False).model, "software") as session:
        (found,) = session.run(x, layout="nchw").values()
    error = np.square(found - wanted).sum() / np.square(wanted).sum()
    assert -10 * np.log10(error) > 64


def test_taps_in_the_padding_are_not_corrected() -> None:
    """Every window lies beside the map of one column: the result is 0, whatever rounding did to the weights."""
    net = Net()
    random = np.random.default_rng(0)
    weight = net.constant(random.normal(0, 0.1, (4, 8, 2, 2)).astype(np.float32))
    out = net.add("Conv", "x", weight, group=2, pads=[0, 2, 0, 2], strides=[1, 3], kernel_shape=[2, 2])
    data = [random.uniform(0, 1, (1, 16, 16, 1)).astype(np.float32) for _ in range(2)]
    made = compile_model(net.model({"x": (1, 16, 16, 1)}, [out]), calibration=data, check=False)
    with Session(made.model, "software") as session:
        assert not session.run(data[0], layout="nchw")[out].any()


@pytest.mark.parametrize(("kind", "options"), [
    ("Conv", {"pads": [3, 0, 3, 0], "dilations": [3, 1]}), ("ConvTranspose", {"strides": [3, 3]}),
])  # fmt: skip
def test_the_correction_leaves_the_mean_of_each_output(kind: str, options: dict[str, list[int]]) -> None:
    net = Net()
    random = np.random.default_rng(1)
    weight = random.normal(0, 0.1, (16, 16, 3, 3)).astype(np.float32)
    out = net.add(kind, "x", net.constant(weight), kernel_shape=[3, 3], **options)
    model, data = net.model({"x": (1, 16, 6, 6)}, [out]), [np.ones((1, 16, 6, 6), np.float32)]
    wanted = dict(FloatModel(model, [out]).run({"x": data[0]}))[out].mean((0, 2, 3))
    errors = {}
    for correct in (False, True):
        made = compile_model(model, calibration=data, bias_correction=correct, adaptive_rounding=False, check=False)
        with Session(made.model, "software") as session:
            errors[correct] = np.square(session.run(data[0], layout="nchw")[out].mean((0, 2, 3)) - wanted).mean()
    assert errors[True] < errors[False], errors
