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
