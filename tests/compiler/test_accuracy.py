"""A bounded part of tools/accuracy_sweep.py: fp16 for inputs of any size, without calibration.

Stands on ONNX Runtime in float, on the numbers of fp16 that the NPU gets.
"""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tests.compiler.nets import Net
from tools.accuracy.measure import Runner
from tools.accuracy.models import CASES

LEAST = 55.0
SIZES = (0.003, 1.0, 300.0)
OTHERS = {
    "rk3576": ("RMSNorm, written out", "InstanceNorm, written out", "ReduceL2, rows"),
    "rk3566": ("InstanceNorm, written out", "LayerNorm, std + eps", "variance, pixels", "GroupNorm"),
    "rk3562": ("GroupNorm", "normalize, rows", "cosine similarity"),
}


@pytest.mark.parametrize(
    ("chip", "name"),
    [("rk3588", name) for name in CASES] + [(chip, name) for chip, names in OTHERS.items() for name in names],
)
def test_numbers_of_any_size(chip: str, name: str) -> None:
    runner = Runner(CASES[name], chip)
    found = {str(size): runner.of_size(size) for size in SIZES} | {"0..255": runner.of_pictures()}
    assert not {key: value for key, value in found.items() if value is not None and value < LEAST}
    assert any(value is not None for value in found.values())


@pytest.mark.parametrize("axes", [(1,), (2, 3), (1, 2, 3)])
def test_zeros_stay_zeros(axes: tuple[int, ...]) -> None:
    """A map of zeros, or single channels of them, is divided by nothing. Stands on arithmetic."""
    net, shape = Net(), (1, 12, 5, 6)
    total = net.add("ReduceMean", net.add("Mul", "x", "x"), axes=list(axes), keepdims=1)
    out = net.add("Div", "x", net.add("Sqrt", net.add("Add", total, net.constant(1e-6))))
    compiled = compile_model(net.model({"x": shape}, [out], opset=13))
    x = np.random.default_rng(0).normal(0, 1, shape).astype(np.float16).astype(np.float32)
    x[:, 3], x[..., 2, 2] = 0, 0
    with Session(compiled.model, "software") as session:
        for array in (x, 0 * x):
            (found,) = session.run(array, layout="nchw").values()
            wanted = array / np.sqrt((array.astype(np.float64) ** 2).mean(axes, keepdims=True) + 1e-6)
            assert np.array_equal(found == 0, wanted == 0)
            assert not array.any() or measure(found, wanted).snr_db > LEAST


@pytest.mark.parametrize("name", ["InstanceNorm, written out", "GroupNorm", "MeanVarianceNormalization"])
def test_a_mean_that_is_much_larger_than_the_deviation(name: str) -> None:
    """The mean has eleven bits: subtracted once it leaves 45 to 49 dB. Stands on ONNX Runtime in float."""
    runner = Runner(CASES[name], "rk3588")
    found = runner.decibels(np.random.default_rng(0).normal(200, 10, CASES[name].shape))
    assert found is not None
    assert found > 60


def test_a_single_large_number_in_a_large_map() -> None:
    """Its square is most of the sum, and beyond fp16. Stands on float64."""
    net, shape = Net(), (1, 3, 100, 120)
    out = net.add("InstanceNormalization", "x", net.constant(np.ones(3)), net.constant(np.zeros(3)))
    x = np.random.default_rng(0).normal(0, 1, shape).astype(np.float16).astype(np.float32)
    x[0, 0, 50, 60], x[0, 1, 0, 0] = 30000, -2000
    with Session(compile_model(net.model({"x": shape}, [out]), check=False).model, "software") as session:
        (found,) = session.run(x, layout="nchw").values()
    d = x.astype(np.float64) - x.mean((2, 3), keepdims=True, dtype=np.float64)
    wanted = d / np.sqrt((d**2).mean((2, 3), keepdims=True) + 1e-5)
    assert [measure(found[0, at], wanted[0, at]).snr_db > LEAST for at in range(3)] == [True] * 3
