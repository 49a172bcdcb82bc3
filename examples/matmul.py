"""A bare matrix product on the NPU: no picture, no layers, two matrices in and one out.

    python examples/matmul.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn import Session

MODEL = Path(__file__).parent / "models" / "product_rk3588_fp.rknn"


def main() -> None:
    """c = a b, and how far it is from NumPy's."""
    chance = np.random.default_rng(0)
    with Session(MODEL) as session:
        a, b = (chance.normal(size=spec.shape).astype(np.float32) for spec in session.inputs)
        c = session.run({"a": a, "b": b})["c"]
        print(f"{a.shape} x {b.shape} -> {c.shape} on {session.device.name}")
    # The NPU takes float16 numbers, so that is what the exact product has to be made of.
    exact = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
    print(f"largest difference to the exact product: {np.abs(c - exact).max():.4f} of {np.abs(exact).max():.1f}")


if __name__ == "__main__":
    main()
