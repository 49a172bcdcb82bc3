"""How near we are to the vendor's simulator, on the models in the repository.

The simulator computes in float over fake-quantised values, it is not the NPU: one step of difference is agreement. Two
bars, and a table of every case that is below them with the reason:

* int8: all elements within one step, and 99 % equal
* fp16: all elements within 2 ulp, or 1 % of the value, or 2 ulp of the largest value (where large terms cancel)
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS, answers, distances

EQUAL = 0.99


class Below(NamedTuple):
    """What a case below the bar reaches, and why not more; test_causes.py and test_simulator.py have the proofs."""

    equal: float
    within_one: float
    close: float
    cause: str


TIES = "sums of int8 numbers over 4 or 16 are often ties, and the simulator's way with ties is not the hardware's"
EXPONENT = "the hardware's exponential is a line through the bits of a float: up to 4 % off, and the simulator's is not"
INTERMEDIATE = "the simulator keeps the result of the first operator in float; the NPU stores it as int8"
REACH = "three elements of the first output are one step away, and each goes into 9 x 24 sums of the second"
OFFSET = "the input converter adds a whole number: zero point - mean / (std * scale) is rounded, by up to half a step"
STORED = "a table behind a convolution is a task of its own: the convolution is stored as int8, the simulator's is not"
ADDED_LATE = "RV1103/06's converter multiplies, then adds the zero point, which the stream has not multiplied for it"
FLOOR = "between two entries of a lookup table boards round down: half a step of 1 / 32768 lower than the function"
SUMMAND = "of a sum of two convolutions the NPU stores the first one as int8, the simulator rounds the second"
PLACES = "the file stores the places of a grid as fp16, the simulator has them in float: 0.002 of a pixel's value"
IMAGES = ("rk3562", "rk3566", "rk3576", "rv1106", "rv1106b")
EXCEPTIONS = {
    "average_pool_rk3588_i8": Below(0.82, 1, 1, TIES),
    "bilinear_rk3588_i8": Below(0.94, 1, 1, TIES),
    "cpu_grid_rk3588_fp": Below(1, 1, 0.99, PLACES),
    "cpu_many_rk3588_i8": Below(0.95, 1, 1, TIES),
    "image_rk3588_i8": Below(0.81, 0.996, 1, OFFSET),
    **{f"bilinear_{chip}_i8": Below(0.94, 1, 1, TIES) for chip in ("rk3562", "rk3576", "rv1106", "rv1106b")},
    **{f"image_{chip}_i8": Below(0.81, 0.996, 1, OFFSET) for chip in IMAGES},
    "matmul_rv1106_i8": Below(0.91, 1, 1, ADDED_LATE),
    "projection_rk3588_i8": Below(0.65, 0.98, 1, SUMMAND),
    "softmax_rk3588_fp": Below(1, 1, 0.5, EXPONENT),
    "sigmoid_rk3588_i8": Below(0.97, 1, 1, FLOOR),
    "silu_rv1106b_i8": Below(0.76, 1, 1, STORED),
    "softmax_rk3562_i8": Below(1, 1, 0.5, EXPONENT),
    "softmax_rk3576_i8": Below(1, 1, 0.5, EXPONENT),
    "softmax_rk3588_i8": Below(1, 1, 0.5, EXPONENT),
    "two_inputs_rk3588_i8": Below(0.82, 1, 1, INTERMEDIATE),
    "two_outputs_rk3588_i8": Below(0.94, 1, 1, REACH),
}
NONE = Below(EQUAL, 1, 1, "")


def cases() -> list[str]:
    """Every golden with an answer."""
    return [path.stem for folder in (GOLDENS, GOLDENS / "cpu") for path in sorted(folder.glob("*.npz"))]


def place(name: str) -> Path:
    """A golden, or one that the NPU cannot run alone."""
    path = GOLDENS / f"{name}.rknn"
    return path if path.exists() else GOLDENS / "cpu" / path.name


@pytest.mark.parametrize("name", cases())
def test_the_simulators_answer(name: str) -> None:
    path = place(name)
    inputs, outputs = answers(path)
    allowed = EXCEPTIONS.get(name, NONE)
    with Session(path) as session:
        for output, found in distances(session, inputs, outputs).items():
            print(name, output, found)
            assert found.equal >= allowed.equal, f"{output}: {found}"
            assert found.within_one >= allowed.within_one, f"{output}: {found}"
            assert found.close >= allowed.close, f"{output}: {found}"
            assert found.cosine > 0.999


def test_exceptions_are_needed() -> None:
    """An exception that a better rule has made unnecessary has to go."""
    for name in EXCEPTIONS:
        inputs, outputs = answers(place(name))
        with Session(place(name)) as session:
            found = distances(session, inputs, outputs).values()
        assert any(one.equal < EQUAL or one.within_one < 1 or one.close < 1 for one in found), name


@pytest.mark.parametrize("name", [name for name in CHIPS if name != "rk3568"])
def test_one_network_on_every_chip(name: str) -> None:
    """The toolkit gives all chips the same quantization, so what RK3588's simulator says holds for all of them."""
    inputs, outputs = answers(GOLDENS / "residual_rk3588_i8.rknn")
    with Session(GOLDENS / f"residual_{name}_i8.rknn") as session:
        assert session.device.name == f"software:{name}"
        (found,) = distances(session, inputs, outputs).values()
        assert found.equal == 1
        pixels = session.run(inputs, outputs="raw")
        floats = session.run([inputs[0].astype(np.float32)], outputs="raw")
        assert all(np.array_equal(pixels[output], floats[output]) for output in pixels)
