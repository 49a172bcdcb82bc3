"""A layer normalisation as TensorFlow Lite spells it: a product with the power of -0.5, one row."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from openrknn.compiler import compile_onnx
from openrknn.runtime.session import Session


def test_large_numbers_are_normalised() -> None:
    """Witness: NumPy. Squares of these numbers are beyond fp16; as one operator they never exist."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 64] x) => (float[1, 64] y) {
            m = ReduceMean <axes = [1], keepdims = 1> (x)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [1], keepdims = 1> (q)
            e = Add (v, eps)
            r = Pow (e, power)
            n = Mul (d, r)
            s = Mul (n, gamma)
            y = Add (s, beta)
        }""")
    rng = np.random.default_rng(0)
    gamma, beta = rng.uniform(0.5, 1.5, (2, 64)).astype(np.float32)
    constants = {"eps": np.float32(1e-5), "power": np.float32(-0.5), "gamma": gamma, "beta": beta}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    x = (rng.standard_normal((1, 64)) * 400).astype(np.float16).astype(np.float32)
    made = compile_onnx(model)
    with Session(made, "software") as session:
        found = session.run({"x": x})["y"]
    centred = x - x.mean()
    wanted = centred / np.sqrt((centred**2).mean() + 1e-5) * gamma + beta
    assert 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum()) > 50
