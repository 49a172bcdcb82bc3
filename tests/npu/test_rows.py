"""Rows of a product or of an element-wise step that native kernels compute as one row."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.compute import native
from openrknn.nativelib import structures
from openrknn.npu import Program
from openrknn.npu.native import accelerate
from openrknn.npu.native.accelerated import _Call
from openrknn.npu.task import Convolution, Flying
from tests.npu.accelerate_cases import ATOM, Case, float_convolutions, float_flights, write_walk


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


@st.composite
def products(draw: st.DrawFn) -> tuple[Case, int]:
    """A product over some rows, and how many atoms are between the beginnings of two pixels."""
    case = draw(float_convolutions(depthwise=False, matrix=True))
    step = case.step
    assert isinstance(step, Convolution)
    assert step.reader is not None
    assert step.reader.operand is not None
    apart = draw(st.integers(1, 5))
    height, width = draw(st.integers(2, 9)), 1 if apart > 1 else draw(st.integers(1, 9))
    line = width * apart * ATOM
    step.source = replace(
        step.source, height=height, width=width, out_height=height, out_width=width, line_bytes=line,
        surface_bytes=line * height, pad_top=0, pad_left=0, stride_x=1, stride_y=1,
    )  # fmt: skip
    step.dpu = replace(step.dpu, write=write_walk(height, width, step.dpu.write.per_pixel, 1))
    walk = replace(step.reader.operand.walk, line_bytes=width * ATOM, surface_bytes=width * height * ATOM)
    step.reader = replace(
        step.reader, height=height, width=width, main=walk, operand=replace(step.reader.operand, walk=walk)
    )
    return case, apart


@settings(max_examples=60, deadline=None)
@given(products())
def test_a_product_over_rows(found: tuple[Case, int]) -> None:
    case, apart = found
    case.check()
    made = _structure(case)
    assert isinstance(made, structures.Convolution)
    assert made.out_height == 1 or apart > 4
    assert made.stride_x == (apart if made.out_height == 1 else 1)


@settings(max_examples=30, deadline=None)
@given(float_flights())
def test_an_element_wise_step_over_rows(case: Case) -> None:
    case.check()
    step, made = case.step, _structure(case)
    assert isinstance(step, Flying)
    assert isinstance(made, structures.Flying)
    assert (made.height, made.width) == (1, step.reader.height * step.reader.width)


def _structure(case: Case) -> object:
    """Of the step, for the fastest kernels."""
    prepared = accelerate(Program([case.step]), case.memory)
    part = prepared._parts[0]
    assert isinstance(part, _Call)
    return part.structures[0]
