"""Outputs that do not depend on the inputs: the comparison, and the rule `input-ignored` of `openrknn lint --run`.

Exact: three networks of the vendor's converter that compute one constant, and sound ones that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn.analysis.dependence import constant_outputs, fixed_inputs, random_arrays
from openrknn.analysis.lint import Finding, Severity
from openrknn.analysis.lint.rules import inputs
from openrknn.container.model import Model
from tests.container.places import golden

Array = npt.NDArray[Any]
SOUND = ("conv_rk3588_i8", "conv_rk3566_i8", "two_inputs_rk3588_i8", "image_rk3588_i8_batch2", "conv_rk3588_fp")


def found(model: Model) -> list[Finding]:
    return [finding for finding in openrknn.lint(model, run=True) if finding.code == "input-ignored"]


def test_what_counts_as_constant() -> None:
    noise = {"x": np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)}
    runs: dict[str, Callable[[Array], Array]] = {
        "nan": lambda x: np.full(3, np.nan, np.float32),
        "mean": lambda x: x.mean(axis=(1, 2)),
        "order only": lambda x: x[0, 0, 0] if x[0, 0, 0].tolist() == [0, 0, 0] else np.zeros(3, np.uint8),
        "white only": lambda x: np.array(x.min() == 255 or x.min() == noise["x"].max()),
    }
    assert constant_outputs(lambda feeds: {name: run(feeds["x"]) for name, run in runs.items()}, noise) == [
        "nan", "order only"
    ]  # fmt: skip


def test_no_more_runs_than_needed() -> None:
    seen: list[Array] = []

    def run(feeds: dict[str, Array]) -> dict[str, Array]:
        seen.append(feeds["x"])
        return {"y": feeds["x"]}

    assert constant_outputs(run, {"x": np.arange(4.0)}) == []
    assert len(seen) == 2


@pytest.mark.parametrize("name", SOUND)
def test_sound_models_depend_on_their_inputs(name: str) -> None:
    assert found(openrknn.load(golden(name))) == []


@pytest.mark.parametrize("name", ["shared_maximum_rk3588_i8", "lone_softmax_rv1106_i8", "infinite_rk3588_fp"])
def test_a_constant_model_is_an_error(name: str) -> None:
    model = openrknn.load(golden(f"lint/{name}"))
    (finding,) = found(model)
    assert (finding.severity, finding.where.tensor) == (Severity.ERROR, "y")
    assert "does not depend on the input" in finding.what
    assert not [one for one in openrknn.lint(model) if one.code == "input-ignored"], "nothing is run unless asked for"


def test_one_constant_output_of_two_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    model = openrknn.load(golden("two_outputs_rk3588_i8"))
    name = model.outputs[0].name
    monkeypatch.setattr(inputs, "constant_outputs", lambda run, noise: [name])
    assert [(finding.severity, finding.where.tensor) for finding in found(model)] == [(Severity.WARNING, name)]


def test_a_model_that_is_too_large_says_that_it_was_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MOST_WORK", 1)
    (finding,) = found(openrknn.load(golden("conv_rk3588_i8")))
    assert finding.severity is Severity.NOTE
    assert "not checked" in finding.what
    assert "operations asked for" in finding.what


def test_integers_of_unknown_range_are_not_varied() -> None:
    """All four inputs were zeros, and a network of token numbers counted as constant."""
    model = openrknn.load(golden("conv_rk3588_i8"))
    assert fixed_inputs(random_arrays(model)) == []
    assert fixed_inputs({"ids": np.zeros((1, 4), np.int64), "x": np.ones(3)}) == ["ids"]


def test_the_models_own_mean_and_std_are_taken_out() -> None:
    """A public RV1103 file with mean -128 and std 255: numbers of 0 to 1 were less than a step, and "one answer"."""
    model = openrknn.load(golden("gemm_rk3588_i8"))
    (plain,) = random_arrays(model).values()
    graph = model.graphs[0]
    (entry,) = graph.normalizations
    shifted = replace(entry, mean=(-128.0,) * 4, std=(255.0,) * 4)
    (fed,) = random_arrays(replace(model, graphs=(replace(graph, normalizations=(shifted,)),))).values()
    np.testing.assert_allclose((fed + 128) / 255, plain, atol=1e-5)
