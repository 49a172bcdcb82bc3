"""The largest or smallest channel of each pixel, on native kernels as with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.compute import native
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, OperandKinds
from openrknn.npu.task import Flying
from openrknn.task import dpu, out_cvt, rdma
from tests.npu.accelerate_cases import ATOM, EVEN, SOURCE, Case, float_memory, write_walk


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


@st.composite
def reductions(draw: st.DrawFn) -> Case:
    """Of fp16; the lanes behind the last channel hold numbers, too."""
    height, width, channels = draw(st.integers(1, 3)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    line = width * ATOM
    largest = ChannelReduction.MAXIMUM if draw(st.booleans()) else ChannelReduction(0)
    source = rdma.Config(
        width=width, height=height, channels=channels, precision=Precision.FP16, proc_precision=Precision.FP16,
        main=rdma.Walk(SOURCE, line, line * height), bias_kinds=OperandKinds(0), bias_address=0,
        norm_kinds=OperandKinds(0), norm_address=0, operand=None, combine=CombineUse(0), repeat_x=1, repeat_y=1,
        repeats=False,
    )  # fmt: skip
    config = dpu.Config(
        flying=True, precision=Precision.FP16, in_precision=Precision.FP16, channels=channels, real_channels=channels,
        pad_bits=0, reduction=ChannelReduction.ENABLE | largest, correction=None, bias=None, norm=None,
        element_wise=None,
        out=out_cvt.Config(
            Precision.FP16, scale=1, shift=0, offset=0, add_first=False, rounding=EVEN, minus_exponent=0
        ),
        write=write_walk(height, width, 1, 0),
    )  # fmt: skip
    memory = float_memory(draw(st.integers(0, 2**32 - 1)), Precision.FP16)
    values = memory.at(SOURCE, 1, "source").data.view(np.uint16)
    kind = draw(st.sampled_from(["numbers", "anything", "zeros win"]))
    if kind == "anything":
        values[:] = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 1 << 16, values.size, np.uint16)
    elif kind == "zeros win":  # of both signs: the later one stays
        is_negative = values >= 0x8000
        values[is_negative != bool(largest)] = 0 if largest else 0x8000
    return Case(Flying(0, 0, memory, dpu=config, reader=source), memory)


@settings(max_examples=60, deadline=None)
@given(reductions())
def test_reductions(case: Case) -> None:
    case.check()
