"""What tasks ask for, by hand."""

from __future__ import annotations

import pytest

from openrknn.chips import CHIPS
from openrknn.cost import Kind, Shape, work_of
from openrknn.cost.decoded import shape_of
from openrknn.npu.task import Convolution
from tests.npu.chip_models import GOLDENS, place

RK3588, RK3566 = CHIPS["rk3588"], CHIPS["rk3566"]


def test_the_array_takes_whole_groups() -> None:
    """33 inputs are two groups of 32; 65 kernels three groups of 32 on RK3588, five groups of 16 on RK3566."""
    shape = Shape(Kind.CONVOLUTION, pixels=10, taps=9, inputs=33, kernels=65, channels=65)
    assert work_of(shape, RK3588).array_cycles == 10 * 9 * 2 * 3
    assert work_of(shape, RK3566).array_cycles == 10 * 9 * 2 * 5


def test_two_bytes_take_twice_as_long() -> None:
    one = Shape(Kind.CONVOLUTION, pixels=10, inputs=64, kernels=64, channels=64)
    assert work_of(one._replace(weight_size=2), RK3588).array_cycles == 2 * work_of(one, RK3588).array_cycles


def test_depthwise_counts_bytes_of_channels() -> None:
    shape = Shape(Kind.DEPTHWISE, pixels=10, taps=9, inputs=96, kernels=1, channels=96)
    assert work_of(shape, RK3588).array_cycles == 10 * 9 * 2
    assert work_of(shape, RK3566).array_cycles == 10 * 9 * 3


def test_the_first_layer_of_yolov5s_on_a_board() -> None:
    """A board took 4041 us for 32 kernels of 6x6 over 320 x 320 pixels: a cycle per tap at 1 GHz, and a little more."""
    shape = Shape(Kind.PICTURE, pixels=320 * 320, taps=36, inputs=16, kernels=32, channels=32)
    assert 0.9 < work_of(shape, RK3588).array_cycles / 4041e3 < 1


def test_table_and_dpu_round_channels_up() -> None:
    work = work_of(Shape(Kind.FLYING, pixels=7, channels=33, uses_table=True), RK3588)
    assert (work.table_elements, work.dpu_elements) == (64 * 7, 48 * 7)
    assert work_of(Shape(Kind.FLYING, pixels=7, channels=33), RK3588).table_elements == 0


def test_pooling_counts_atoms_and_the_sides_of_its_window() -> None:
    work = work_of(Shape(Kind.POOLING, pixels=400, taps=10, written_bytes=256 * 400), RK3588)
    assert work.pooling_cycles == 16 * 400 * 10


def test_all_bytes_are_moved() -> None:
    work = work_of(Shape(Kind.TABLE_LOAD, feature_bytes=1, weight_bytes=2, operand_bytes=4, written_bytes=8,
                         command_bytes=16), RK3588)  # fmt: skip
    assert (work.read_bytes, work.moved_bytes, work.tasks) == (7, 31, 1)


@pytest.mark.parametrize(
    ("kind", "macs"),
    [(Kind.CONVOLUTION, 10 * 9 * 15), (Kind.PICTURE, 10 * 9 * 15), (Kind.DEPTHWISE, 10 * 9 * 3), (Kind.POOLING, 0)],
)
def test_operations_follow_from_the_sizes(kind: Kind, macs: int) -> None:
    """One owner: decoded streams and the compiler give sizes, nobody else multiplies them."""
    assert Shape(kind, pixels=10, taps=9, inputs=3, kernels=5, channels=5).macs == macs


def test_the_operations_of_a_decoded_task_are_those_of_its_step() -> None:
    steps = place(GOLDENS / "residual_rk3588_i8.rknn").program().steps
    found = [step for step in steps if isinstance(step, Convolution)]
    assert {step.source.packed_channels for step in found} == {0, 3}
    for step in found:
        padded, own = step.source.weight_channels, step.source.packed_channels or step.source.weight_channels
        assert shape_of(step).macs * padded == step.macs * own


def test_weights_of_a_few_pixels_stream() -> None:
    """Of 1x1 kernels only: others stay in the buffer for the next row."""
    product = Shape(Kind.CONVOLUTION, pixels=8, inputs=64, kernels=96, channels=96, weight_bytes=6144)
    assert work_of(product, RK3588).streamed_bytes == 6144
    assert work_of(product._replace(pixels=9), RK3588).streamed_bytes == 0
    assert work_of(product._replace(taps=9), RK3588).streamed_bytes == 0
    assert work_of(product._replace(kind=Kind.DEPTHWISE), RK3588).streamed_bytes == 0
