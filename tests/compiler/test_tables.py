"""Tables of steep functions in int8: their digits are for the results that the model has, and for the inputs too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from openrknn.compiler import compile_model
from openrknn.distance import measure
from openrknn.runtime.session import Session

_SHAPE = (1, 8, 4, 4)
_LEAST = 34.0
"""Decibels: what int8 inputs and results leave."""
_HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '

_Array = npt.NDArray[np.float32]
_FUNCTIONS: dict[str, Callable[[_Array], _Array]] = {
    "Exp": np.exp, "Log": np.log, "Pow": lambda values: values**-0.5, "Reciprocal": np.reciprocal, "Sqrt": np.sqrt,
}  # fmt: skip


def _between(low: float, high: float) -> _Array:
    return np.random.default_rng(3).uniform(low, high, _SHAPE).astype(np.float32)


@pytest.mark.parametrize(
    ("operator", "low", "high"),
    [("Exp (x)", -10, 0), ("Reciprocal (x)", 15, 25), ("Reciprocal (x)", -20, -10), ("Reciprocal (x)", 2e-4, 6e-4),
     ("Pow (x, power)", 100, 200)],
)  # fmt: skip
def test_results_far_below_the_largest_of_the_table(operator: str, low: float, high: float) -> None:
    """exp(10), 1 / 0 and 0 ** -0.5 are in the table as well, and took all of its digits. Witness: NumPy."""
    made = f"(float[1,8,4,4] x) => (float[1,8,4,4] y) <float power = {{-0.5}}> {{ y = {operator} }}"
    x = _between(low, high)
    compiled = compile_model(onnx.parser.parse_model(_HEAD + made), "rk3588", calibration=[{"x": x}], check=False)
    with Session(compiled.model, "software") as session:
        found = session.run({"x": x}, layout="nchw")["y"]
    assert measure(found, _FUNCTIONS[operator.partition(" ")[0]](x)).snr_db > _LEAST


@pytest.mark.parametrize(("operator", "near", "far"), [("Sqrt", 1, 1000), ("Log", 1, 1000), ("Reciprocal", 2, 200)])
def test_users_of_a_function_that_are_far_apart_have_a_table_each(operator: str, near: float, far: float) -> None:
    """Numbers below 1 lay between two entries of a table that reaches to 1000. Witness: NumPy."""
    ends = "(float[1,8,4,4] x, float[1,8,4,4] z) => (float[1,8,4,4] y, float[1,8,4,4] w)"
    made = f"{ends} {{ y = {operator} (x) w = {operator} (z) }}"
    feed = {"x": _between(near / 2, near), "z": _between(far / 2, far)}
    compiled = compile_model(onnx.parser.parse_model(_HEAD + made), "rk3588", calibration=[feed], check=False)
    with Session(compiled.model, "software") as session:
        found = session.run(feed, layout="nchw")
    for name, source in (("y", "x"), ("w", "z")):
        assert measure(found[name], _FUNCTIONS[operator](feed[source])).snr_db > _LEAST
