"""When the first run of parts is called wrong: not where the float model itself is noise. Evidence: the float model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.partition import Parted, PartitionOptions
from openrknn.partition.probe import is_far, noise_of, rounded_otherwise
from tests.compiler.nets import Net

SHAPE = (1, 16, 16, 16)


def test_what_rounding_moves_in_float_is_no_error_of_the_npu() -> None:
    """Half of the numbers hang on the last bits of the inputs, as the pitch of silent frames does."""
    chance = np.random.default_rng(0)
    right = {"y": chance.normal(0, 1, 1000)}
    loose = np.arange(1000) < 500
    others = [{"y": right["y"] + loose * chance.normal(0, 0.5, 1000)} for _ in range(3)]
    noise = noise_of(right, others, 10)
    found = {"y": right["y"] + loose * chance.normal(0, 1, 1000)}
    assert is_far(found, right)
    assert not is_far(found, right, noise)
    wrong = {"y": found["y"] + ~loose * 3}
    assert is_far(wrong, right, noise)
    assert is_far({"y": np.where(loose, right["y"], np.nan)}, right, noise)


def test_a_well_behaved_model_excuses_nothing() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(0, 1, 4096).astype(np.float32)
    right = {"y": x * 3}
    others = [{"y": rounded_otherwise({"x": x}, seed)["x"] * 3} for seed in range(3)]
    noise = noise_of(right, others, 10_000)
    assert noise["y"].max() < 0.06 * np.abs(right["y"]).max()
    assert is_far({"y": right["y"] * 0.5}, right, noise)
    assert is_far({"y": np.zeros(4096)}, right, noise)
    whole: dict[str, Any] = {"n": np.array([3]), "x": np.float32(2), "s": np.array(["a"])}
    assert all(np.array_equal(rounded_otherwise(whole, 0)[name], whole[name]) for name in whole)


def sensitive(factor: float) -> tuple[Any, str]:
    """The difference of two convolutions with nearly the same weights, times `factor`: rounding is all that is left."""
    net = Net()
    weight = np.random.default_rng(2).normal(0, 0.2, (16, 16, 3, 3)).astype(np.float32)
    first = net.add("Conv", "x", net.constant(weight), pads=[1, 1, 1, 1])
    second = net.add("Conv", net.add("Relu", net.add("Neg", "x")), net.constant(weight), pads=[1, 1, 1, 1])
    third = net.add("Conv", net.add("Relu", "x"), net.constant(weight), pads=[1, 1, 1, 1])
    zero = net.add("Sub", net.add("Add", first, second), third)
    return net, net.add("Mul", zero, net.constant(np.full(1, factor, np.float32)))


def test_a_false_alarm_does_not_give_the_npu_up(monkeypatch: pytest.MonkeyPatch) -> None:
    net, out = sensitive(1e6)
    model = net.model({"x": SHAPE}, [out])
    options = PartitionOptions(prefer="npu", cache=False)
    chance = np.random.default_rng(3)
    with Parted(model, options) as parted:
        for _ in range(4):
            parted.run({"x": chance.normal(0, 1, SHAPE).astype(np.float32)})
        assert "npu" in [part.kind for part in parted.plans[0].parts]
