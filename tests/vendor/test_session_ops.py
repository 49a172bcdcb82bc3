"""Functions of the user's for operators of a model, in the vendor's library as on the software NPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.vendor.custom import attributes_of_call, registered
from openrknn.vendor import Context
from tests.runtime.cases import golden, renamed
from tests.vendor.recording import Recorder


@pytest.fixture
def model() -> Model:
    """A model whose sine is an operator of the user's."""
    return dataclasses.replace(renamed(load(golden("cpu_sin_rk3588_i8")), "Sin", "cstWave"), custom_operators="cstWave")


def test_a_function_gets_real_numbers_and_gives_them_back(recorder: Recorder, context: Context, model: Model) -> None:
    seen: list[tuple[Sequence[Array], Mapping[str, Any]]] = []

    def wave(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
        seen.append((arrays, attributes))
        return arrays[0] * 2

    registered(context, model, {"cstWave": wave, "NotInThisModel": wave})
    context.run()
    ((arrays, _),) = seen
    assert arrays[0].dtype == np.float32
    assert arrays[0].tolist() == [[1, 2, 3], [4, 5, 6]]  # what the recording library passes
    assert "compute_callback code=0 sum=42" in recorder.log()


@pytest.mark.parametrize(
    ("answer", "message"),
    [([np.zeros(6)] * 2, "has 1 outputs, not 2"), (np.zeros(5), r"gave \[5\], but its output 'out' is \[2, 3\]")],
)
def test_a_wrong_answer_comes_out_of_the_run(context: Context, model: Model, answer: Any, message: str) -> None:
    registered(context, model, {"cstWave": lambda arrays, attributes: answer})
    with pytest.raises(ValueError, match=message):
        context.run()


def test_an_exception_comes_out_of_the_run(context: Context, model: Model) -> None:
    def broken(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
        raise ZeroDivisionError("in the operator")

    registered(context, model, {"cstWave": broken})
    with pytest.raises(ZeroDivisionError, match="in the operator"):
        context.run()


def test_a_missing_function_and_one_too_many(context: Context, model: Model) -> None:
    with pytest.raises(UnsupportedError, match=r"operators of its own, cstWave. .*custom_ops=\{'cstWave'"):
        registered(context, model, {})
    with pytest.raises(UnsupportedError, match="has its own Conv"):
        registered(context, model, {"Conv": lambda arrays, attributes: arrays[0]})


class Attributes:
    """What the library answers inside a call: numbers in types of its own."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __call__(self, name: str) -> Array:
        found: Array = self._values[name]
        return found


def single(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("known", "answers", "expected"),
    [
        ([{"slope": 0.1}, {"slope": 0.2}], {"slope": single(0.2)}, 1),
        ([{}, {"axis": 1}], {"axis": np.array([1])}, 1),  # {} fits every call
        ([{}, {"axis": 1}], {}, 0),
        ([{"axis": [1, 2]}, {"axis": [1, 2], "keep": 1}], {"axis": np.array([1, 2]), "keep": np.array([1])}, 1),
        ([{"mode": "linear"}, {"mode": b"cubic"}], {"mode": np.frombuffer(b"cubic\0", np.int8)}, 1),
    ],
)
def test_the_attributes_are_those_of_the_operator_that_is_called(
    known: list[dict[str, Any]], answers: dict[str, Array], expected: int
) -> None:
    assert attributes_of_call(list(known), Attributes(**answers)) == known[expected]


@pytest.mark.parametrize(
    ("known", "answers"),
    [
        ([{"slope": 0.1}, {"slope": 0.2}], {"slope": single(0.3)}),
        ([{"slope": 0.1}, {"slope": 0.2}], {}),
        ([{"a": 1}, {"b": 2}], {"a": np.array([1]), "b": np.array([2])}),
    ],
)
def test_a_call_that_fits_no_operator_or_several_is_refused(
    known: list[dict[str, Any]], answers: dict[str, Array]
) -> None:
    with pytest.raises(UnsupportedError, match="does not say which of 2 operators"):
        attributes_of_call(list(known), Attributes(**answers))
