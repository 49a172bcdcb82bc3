"""Far away a sigmoid is 1 or 0 and a tanh 1 or -1: the gates of recurrent nets live there."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from openrknn.compiler import compile_onnx
from openrknn.runtime.session import Session


@pytest.mark.parametrize(("operator", "limits"), [("Sigmoid", (0.0, 1.0)), ("Tanh", (-1.0, 1.0))])
def test_limits_are_reached(operator: str, limits: tuple[float, float]) -> None:
    """Witness: the functions themselves, which fp16 rounds to these limits from 8.4 and 4.6 on."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        f"net (float[1,16,4,4] x) => (float[1,16,4,4] y) {{ y = {operator} (x) }}"
    )
    x = np.linspace(-30, 30, 256).astype(np.float16).astype(np.float32).reshape(1, 16, 4, 4)
    with Session(compile_onnx(model), "software") as session:
        found = session.run({"x": x})["y"]
    wanted = np.tanh(x) if operator == "Tanh" else 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found, wanted, atol=3e-4)
    far = np.abs(x) > 12
    assert set(found[far & (x > 0)].tolist()) == {limits[1]}
    np.testing.assert_allclose(found[far & (x < 0)], limits[0], atol=2e-5)


@pytest.mark.parametrize(
    ("operator", "line"),
    [("HardSwish", (3.0, 60.0)), ("HardSigmoid <alpha: float = 0.1666667, beta: float = 0.5>", (-2.9, 2.9)),
     ("Abs", (1.0, 14.0))],
)  # fmt: skip
def test_straight_parts_have_the_slope_of_the_function(operator: str, line: tuple[float, float]) -> None:
    """A slope that is off by 1/4000 in each of twenty layers turned 30 dB into 14. Witness: ONNX's definitions."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        f"net (float[1,16,32,8] x) => (float[1,16,32,8] y) {{ y = {operator} (x) }}"
    )
    x = np.linspace(*line, 4096).astype(np.float16).astype(np.float32).reshape(1, 16, 32, 8)
    with Session(compile_onnx(model), "software") as session:
        found = session.run({"x": x})["y"]
    wanted = {"HardSwish": x, "Abs": np.abs(x)}.get(operator, 0.1666667 * x + 0.5)
    slope = np.polyfit(wanted.ravel().astype(np.float64), found.ravel().astype(np.float64), 1)[0]
    assert abs(slope - 1) < 1e-4


def test_corners_of_hard_functions_are_exact() -> None:
    """At -3 and 3, where the table has entries."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "net (float[1,16,4,4] x) => (float[1,16,4,4] y) { y = HardSwish (x) }"
    )
    x = (np.where(np.arange(256) % 2, 3, -3) + np.arange(-128, 128) / 2048).astype(np.float16).astype(np.float32)
    x = x.reshape(1, 16, 4, 4)
    with Session(compile_onnx(model), "software") as session:
        found = session.run({"x": x})["y"]
    wanted = x.astype(np.float64) * np.clip(x.astype(np.float64) + 3, 0, 6) / 6
    np.testing.assert_allclose(found, wanted, rtol=5e-4, atol=1.5e-4)
