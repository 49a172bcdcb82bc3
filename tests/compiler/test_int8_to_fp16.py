"""Products of int8 whose results are written as fp16: what language models are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.compiler.calibration import Preprocess
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import Activation, Conv
from openrknn.compiler.ir import Graph, Op, Quantization, StoredWeights
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.pipeline import _Back
from openrknn.compiler.targets import target_of
from openrknn.compiler.write import join_models
from openrknn.container.load import load
from openrknn.container.writer import encode
from openrknn.runtime.session import Session

SCALE = 1 / 64


def product(
    chip: str, tokens: int, *, outputs: int = 96, activation: str = "", bias: bool = False, adds: bool = False
) -> tuple[Any, Any]:
    """(what the NPU gives, what the integers say), [tokens, outputs]."""
    random, inputs = np.random.default_rng(5), 64
    weights = random.integers(-127, 128, (outputs, inputs))
    scales = random.uniform(0.5, 1.0, outputs) / 127
    scales = scales.max() * np.ceil(scales / scales.max() * 16384) / 16384
    summands = random.normal(size=outputs).astype(np.float32) if bias else np.zeros(outputs, np.float32)
    x = random.normal(size=(tokens, inputs)).astype(np.float16).astype(np.float32)
    graph = Graph("step", ["x"], ["y"])
    for name, channels in {"x": inputs, "x8": inputs, "y": outputs}.items():
        graph.add_value(name, (1, channels, 1, tokens))
    graph.values["x8"].quantization = Quantization(SCALE, 0)
    matrix = graph.add_constant("w", (weights * scales[:, None]).astype(np.float32)[:, :, None, None])
    graph.stored[matrix] = StoredWeights(weights[:, :, None, None], scales, np.zeros(outputs, np.int64))
    form = Conv((1, 1), activation=Activation(activation) if activation else None)
    sources = ["x8", matrix, graph.add_constant("b", summands), *(["x"] if adds else [])]
    graph.ops = [Op("Convert", "x8", ["x"], ["x8"]), Op("Conv", "y", sources, ["y"], {}, (), form)]
    options = CompileOptions(target=chip, cores=1, fp16=True)
    back = _Back(options, target_of(options.chip).fp16, Preprocess.of(graph, None, None, "rgb"), 1)
    model = load(encode(join_models([back.build(graph, {}, 1, 1).model])))
    with Session(model, "software") as session:
        found = session.run({"x": np.ascontiguousarray(x.T[None, :, None])}, layout={"x": "nchw"})["y"]
    sums = np.clip(np.rint(x / SCALE), -128, 127) @ weights.T
    return found.reshape(outputs, tokens).T, sums * (SCALE * scales) + summands


@pytest.mark.parametrize("chip", ["rk3588", "rk3576", "rk3562"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_results_are_the_sums_in_fp16(chip: str, tokens: int) -> None:
    found, wanted = product(chip, tokens)
    np.testing.assert_allclose(found, wanted, rtol=2**-10, atol=2e-3)
    assert (found == wanted.astype(np.float16)).mean() > 0.8


def test_biases_and_odd_widths() -> None:
    found, wanted = product("rk3588", 3, outputs=48, bias=True)
    np.testing.assert_allclose(found, wanted, rtol=2**-10, atol=2e-3)


def test_functions_are_computed_in_the_same_task() -> None:
    found, sums = product("rk3588", 1, activation="silu")
    np.testing.assert_allclose(found, sums / (1 + np.exp(-sums)), rtol=5e-3, atol=0.02)


def test_nothing_in_fp16_is_added_in_the_same_task() -> None:
    with pytest.raises(UnsupportedOperatorError, match="nothing of fp16 can be added"):
        product("rk3588", 1, outputs=64, adds=True)


def test_chips_that_cannot_say_so() -> None:
    with pytest.raises(UnsupportedOperatorError, match="RK3566"):
        product("rk3566", 1)
