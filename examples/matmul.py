"""A bare matrix product on the NPU: no picture, no layers, no model. Two matrices in and one out.

    python examples/matmul.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn import Matmul, Session

MODEL = Path(__file__).parent / "models" / "product_rk3588_fp.rknn"


def main() -> None:
    """c = a b in int8, in float16, and as a model; each beside the exact product."""
    chance = np.random.default_rng(0)
    a, b = chance.integers(-128, 128, (32, 256), np.int8), chance.integers(-128, 128, (256, 64), np.int8)
    with Matmul(32, 256, 64, "int8") as multiply:
        c = multiply(a, b)  # int32
        print("int8: equal to the exact product:", np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64)))

    x, y = (chance.normal(size=shape).astype(np.float16) for shape in ((32, 256), (256, 64)))
    with Matmul(32, 256, 64, "fp16") as multiply:
        compare("float16", multiply(x, y), x, y)

    # The same as a model, which is what a converter makes of a network that is nothing but a product.
    with Session(MODEL) as session:
        a, b = (chance.normal(size=spec.shape).astype(np.float32) for spec in session.inputs)
        c = session.run({"a": a, "b": b})["c"]
        print(f"{a.shape} x {b.shape} -> {c.shape} on {session.device.name}")
        compare("model", c, a.astype(np.float16), b.astype(np.float16))


def compare(name: str, c: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """How far c is from what the float16 numbers give."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    far, largest = np.abs(c - exact).max(), np.abs(exact).max()
    print(f"{name}: largest difference to the exact product: {far:.4f} of {largest:.1f}")


if __name__ == "__main__":
    main()
