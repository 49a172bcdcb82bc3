"""fp16 and fp32 in memory, with what is no number: the DPU on native kernels as with NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.compute import native
from openrknn.isa import Precision
from openrknn.npu.task import Flying
from tests.npu.accelerate_cases import OPERAND, SOURCE, Case, float_flights

SINGLES_AND_HALVES = (Precision.FP32, Precision.FP32, Precision.FP16)


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


@st.composite
def flights(draw: st.DrawFn) -> Case:
    """Of numbers among which there are infinite ones, and NaN of both signs with any payload."""
    case = draw(float_flights(read=SINGLES_AND_HALVES, written=SINGLES_AND_HALVES))
    assert isinstance(case.step, Flying)
    is_single = case.step.dpu.precision is Precision.FP32
    exponent, sign = (0x7F80_0000, 0x8000_0000) if is_single else (0x7C00, 0x8000)
    noise = np.random.default_rng(draw(st.integers(0, 99)))
    for address in (SOURCE, OPERAND):
        bits: npt.NDArray[Any] = case.memory.at(address, 1, "numbers").data.view(np.uint32 if is_single else np.uint16)
        chosen = noise.integers(0, 60, bits.size)
        bits[chosen < 2] |= exponent  # NaN, unless its fraction is 0
        bits[chosen == 1] &= exponent | sign  # infinite
    return case


@settings(max_examples=120, deadline=None)
@given(flights())
def test_flights(case: Case) -> None:
    case.check()
