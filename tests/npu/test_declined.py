"""Fields that a kernel does not implement make it decline the step; NumPy says what comes out then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openrknn.compute import native
from openrknn.errors import ExecutionError
from openrknn.isa.enums import ChannelReduction
from openrknn.npu.native import accelerate
from openrknn.npu.native.places import RefusedError, refuse_overlap
from openrknn.npu.task import Convolution, Pooling
from tests.npu.loaded import load

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
pytestmark = pytest.mark.skipif(not native.find(), reason="no native library")


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


def test_a_reduction_behind_a_convolution() -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    step.dpu = replace(step.dpu, reduction=ChannelReduction.ENABLE)
    assert "a reduction" in accelerate(program, loaded.memory).reasons[number]


def test_pooling_whose_surfaces_overlap() -> None:
    loaded = load(GOLDENS / "residual_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Pooling))
    step.config = replace(step.config, channels=32, target_surface_bytes=step.config.target_line_bytes)
    assert "twice" in accelerate(program, loaded.memory).reasons[number]


@pytest.mark.parametrize("field", ["kernels", "input_group", "stride_y", "height"])
def test_convolutions_of_nothing(field: str) -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    changes: dict[str, Any] = {field: 0}
    step.source = replace(step.source, **changes)
    assert "size of 0" in accelerate(program, loaded.memory).reasons[number]


@pytest.mark.parametrize(
    ("shape", "steps", "overlaps"),
    [
        ((4, 3, 2), (96, 32, 16), False),
        ((4, 3, 2), (32, 128, 16), False),  # surfaces inside lines
        ((4, 3, 2), (95, 32, 16), True),
        ((4, 3, 2), (96, 32, 0), True),
        ((1, 3, 2), (0, 32, 16), False),
        ((4, 3, 2), (-96, 32, 16), False),
    ],
)
def test_walks_that_come_to_a_place_twice(shape: tuple[int, ...], steps: tuple[int, ...], overlaps: bool) -> None:
    if not overlaps:
        refuse_overlap(shape, steps)
        return
    with pytest.raises(RefusedError):
        refuse_overlap(shape, steps)


def test_registers_that_contradict_each_other_are_an_error_with_a_name() -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    step.source = replace(step.source, spread_y=0)
    accelerate(program, loaded.memory)
    with pytest.raises(ExecutionError, match="contradict each other") as caught:
        step.run()
    assert (caught.value.task, caught.value.operator) == (step.task, str(step.operator))
    assert program.steps[number].native is None
