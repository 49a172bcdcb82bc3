"""Without native kernels: the same bytes, from the same tests' models.

The whole of tests/npu and tests/runtime passes with `OPENRKNN_KERNELS=numpy`; these run always.
"""

from __future__ import annotations

import numpy as np
import pytest

import openrknn
from openrknn import compute
from openrknn.compute import native
from tests.runtime.cases import GOLDENS, Array, answers, distances

NAMES = [
    "residual_rk3588_i8",
    "silu_rk3588_i8",
    "matmul_rk3588_i8",
    "image_rk3588_fp",
    "layer_norm_rk3588_fp",
    "conv_rk3566_i8",
    "residual_rk3576_i8",
    "conv_rk3562_fp",
]


def results(name: str, inputs: list[Array]) -> dict[str, Array]:
    with openrknn.Session(GOLDENS / f"{name}.rknn", device="software") as session:
        return {key: np.array(value) for key, value in session.run(inputs, outputs="raw").items()}


@pytest.mark.skipif(native.find() is None, reason="installed without the native library: there is nothing to compare")
@pytest.mark.parametrize("name", NAMES)
def test_a_session_on_numpy_gives_the_same_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, _ = answers(GOLDENS / f"{name}.rknn")
    monkeypatch.setenv(native.ENVIRONMENT, "auto")
    fast = results(name, inputs)
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    assert compute.active() == "numpy"
    slow = results(name, inputs)
    assert fast.keys() == slow.keys()
    for key, value in fast.items():
        assert value.tobytes() == slow[key].tobytes()


def test_numpy_alone_reaches_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    inputs, outputs = answers(GOLDENS / "residual_rk3588_i8.rknn")
    with openrknn.Session(GOLDENS / "residual_rk3588_i8.rknn", device="software") as session:
        (found,) = distances(session, inputs, outputs).values()
    assert found.within_one == 1
    assert found.equal >= 0.99
