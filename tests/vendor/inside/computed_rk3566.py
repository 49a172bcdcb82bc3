"""Sessions on the vendor's library for RK3566 compute what the software NPU computes."""

from __future__ import annotations

import numpy as np

from openrknn import Session
from tests.vendor.inside.board_tools import golden


def check_sessions() -> None:
    random = np.random.default_rng(1)
    for name in ("image_rk3566_i8", "conv_rk3566_i8"):
        with Session(golden(name), device="vendor") as theirs, Session(golden(name), device="software") as ours:
            shape = ours.inputs[0].shape
            pixels = random.integers(0, 256, shape, dtype=np.uint8)
            fed = pixels if shape[-1] == 3 else random.standard_normal(shape).astype(np.float32)
            expected, results = ours.run(fed), theirs.run(fed)
            assert all(np.array_equal(results[key], expected[key]) for key in expected), name
