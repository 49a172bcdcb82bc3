"""What each operator's quantisation costs, estimated from its own error and a run in float."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.quantise.precision import choosable
from openrknn.compiler.sensitivity import Noise, estimate_noise, rank
from openrknn.compiler.verify import verify
from tests.compiler.nets import feeds, small_cnn


def test_the_sum_of_all_is_what_the_model_loses() -> None:
    """An estimate: errors at the borders count twice."""
    model, shape = small_cnn()
    compiled = compile_model(model, calibration=feeds(shape), cores=1)
    names = [op.output for op in choosable(compiled.graph)]
    told: list[int] = []
    noise = estimate_noise(compiled.graph, compiled.source, compiled.model, compiled.samples, names, told.append)
    measured = min(verdict.decibels for verdict in verify(compiled))
    assert noise.predicted(names) == pytest.approx(measured, abs=6)
    assert noise.predicted(()) > 200
    assert min(noise.decibels(name) for name in names) >= noise.predicted(names)
    assert told == list(range(1, len(names) * len(compiled.samples) + 1))


def test_the_worst_output_decides_who_is_next() -> None:
    """a hurts the first output most, b and c the second; with a gone the second one is the worst."""
    noise = Noise(
        np.array([100.0, 100.0]), {"a": np.array([9.0, 0.0]), "b": np.array([0.0, 2.0]), "c": np.array([1.0, 5.0])}
    )
    assert rank(noise, ["a", "b", "c"]) == ["a", "c", "b"]
    assert noise.decibels("a") == pytest.approx(10 * np.log10(100 / 9))
    assert noise.predicted(["b", "c"]) == pytest.approx(10 * np.log10(100 / 7))
