"""The imported model is compared with the given one: a mistake of a rewrite is in both sides of every other check."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.check import given
from openrknn.compiler.check.given import GivenModel
from openrknn.compiler.errors import CalibrationError, WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.importer import import_model
from openrknn.compiler.importer.rewrite import interpolation
from openrknn.compiler.trials import noise
from tests.compiler.nets import Net

SHAPE = (1, 6, 12, 3)


def resized(scales: tuple[float, ...], batch: int = 1) -> onnx.ModelProto:
    net = Net()
    how = {"coordinate_transformation_mode": "pytorch_half_pixel", "mode": "cubic"}
    made = net.add("Resize", "x", "", net.constant(np.array(scales, np.float32)), **how)
    return net.model({"x": (batch, *SHAPE[1:])}, [made])


def found_in(model: onnx.ModelProto) -> tuple[float, list[given.Departure]]:
    imported = import_model(model)

    variant = SimpleNamespace(source=imported.model, batch=imported.batch, given=imported.given)
    return GivenModel(variant).departures(noise(imported.graph))  # type: ignore[arg-type]


def test_a_mistake_of_a_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = interpolation.places

    def shifted(*arguments: Any) -> Any:
        return plain(*arguments) + 0.25

    model = resized((1, 1, 3, 2))
    assert compile_model(model).check.import_db > 100
    monkeypatch.setattr(interpolation, "places", shifted)
    with pytest.raises(WrongResultError, match="the imported model does not compute what the given one does: output"):
        compile_model(model)


def test_one_pixel_lies_where_onnx_says() -> None:
    """ONNX's text and ONNX Runtime: at 0. Its reference evaluator has -0.5, which cubic weights tell apart."""
    how = {"coordinate_transformation_mode": "pytorch_half_pixel", "mode": "cubic", "cubic_coeff_a": -0.75,
           "exclude_outside": 0, "antialias": 0}  # fmt: skip
    assert interpolation.matrix(3, 1, 0.5, how, (0.0, 0.0)).tolist() == [[1.0, 0.0, 0.0]]
    decibels, far = found_in(resized((1, 1, 3, 0.5)))
    assert decibels > 100
    assert not far


def test_items_of_a_batch_are_compared_together() -> None:
    decibels, far = found_in(resized((1, 1, 3, 2), batch=3))
    assert decibels > 100
    assert not far


def test_a_threshold_that_sums_cross_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floor of numbers that are whole but for rounding: the given model moves as far by itself."""
    net = Net()
    wide = net.add("Mul", "x", net.constant(np.float32(2.0**20)))
    made = net.add("Sub", wide, net.add("Floor", wide))
    model = net.model({"x": SHAPE}, [made])
    plain = FloatModel.run

    def reordered(self: Any, feed: Any) -> Any:
        is_imported = len(calls) % 2 == 0
        calls.append(1)
        changed = {name: given._nudged(values) for name, values in feed.items()} if is_imported else feed
        return plain(self, changed)

    calls: list[int] = []
    monkeypatch.setattr(FloatModel, "run", reordered)
    decibels, far = found_in(model)
    assert decibels < 60
    assert not far


def test_what_cannot_be_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise CalibrationError("an operator of next year")

    monkeypatch.setattr("openrknn.compiler.check.GivenModel", refuse)
    made = compile_model(resized((1, 1, 3, 2)))
    assert made.check.text.endswith(
        "the import was not compared with the given model: an operator of next year"
    )
    assert made.check.as_json()["import_reason"]
