from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.errors import UnsupportedError
from openrknn.layout.features import FeatureLayout, ImageRows
from openrknn.layout.operands import (
    Operands,
    Use,
    pack_byte_operands,
    pack_operands,
    unpack_byte_operands,
    unpack_operands,
)
from openrknn.layout.weights import (
    Groups,
    WeightTiles,
    join_zero_points,
    pack_image_weights,
    pack_weights,
    split_zero_points,
    unpack_image_weights,
    unpack_weights,
)

DTYPES = st.sampled_from([np.int8, np.int16, np.float16, np.int32])
SMALL = st.integers(1, 6)


def numbered(*shape: int, dtype: Any = np.int32) -> npt.NDArray[Any]:
    """Every element differs from every other, and none is 0."""
    return (np.arange(np.prod(shape)) + 1).reshape(shape).astype(dtype)


# ---------------------------------------------------------------------------------------------- features


@st.composite
def feature_layouts(draw: st.DrawFn) -> FeatureLayout:
    batches, channels, height, width = draw(SMALL), draw(st.integers(1, 40)), draw(SMALL), draw(SMALL)
    atom = draw(st.sampled_from([1, 4, 8, 16, 32]))
    line = width + draw(st.integers(0, 3))
    return FeatureLayout(
        batches=batches,
        channels=channels,
        height=height,
        width=width,
        atom_channels=atom,
        surfaces=-(-channels // atom) + draw(st.integers(0, 1)),
        line_pitch=line,
        surface_pitch=height * line + draw(st.integers(0, 5)),
    )


@given(feature_layouts(), DTYPES)
def test_feature_round_trip(layout: FeatureLayout, dtype: Any) -> None:
    values = numbered(*layout.shape, dtype=dtype)
    memory = layout.pack(values, fill=-7)
    assert memory.dtype == dtype
    assert memory.size == layout.elements
    np.testing.assert_array_equal(layout.unpack(memory), values)
    np.testing.assert_array_equal(layout.pack(layout.unpack(memory), fill=-7), memory)


@given(feature_layouts(), st.data())
def test_feature_address_is_the_formula(layout: FeatureLayout, data: st.DataObject) -> None:
    n, c, y, x = (data.draw(st.integers(0, size - 1)) for size in layout.shape)
    values = numbered(*layout.shape)
    atom = layout.atom_channels
    surface = n * layout.surfaces + c // atom
    place = (surface * layout.surface_pitch + y * layout.line_pitch + x) * atom + c % atom
    assert layout.pack(values)[place] == values[n, c, y, x]


def test_feature_from_native() -> None:
    layout = FeatureLayout.from_native((1, 2, 7, 5, 16), channels=20, pixel_alignment=4)
    assert layout == FeatureLayout.dense((1, 20, 7, 5), 16, pixel_alignment=4)
    assert (layout.surface_pitch, layout.elements) == (36, 2 * 36 * 16)
    assert FeatureLayout.from_native((1, 1, 1, 1, 16)).surface_pitch == 1
    with pytest.raises(UnsupportedError, match="five"):
        FeatureLayout.from_native((1, 8, 64))


def test_features_stay_inside_their_buffer() -> None:
    layout = FeatureLayout.dense((1, 16, 2, 2), 16)
    with pytest.raises(ValueError, match="does not hold"):
        layout.unpack(np.zeros(63, np.int8))
    with pytest.raises(ValueError, match="layout holds"):
        layout.pack(np.zeros((1, 16, 2, 3), np.int8))
    with pytest.raises(ValueError, match="pitches"):
        FeatureLayout(1, 16, 2, 2, 16, 1, -2, 4)
    with pytest.raises(ValueError, match="do not hold"):
        FeatureLayout.dense((1, 17, 2, 2), 16, surfaces=1)


@given(st.tuples(SMALL, SMALL, st.integers(1, 40), st.sampled_from([1, 3, 4])), st.sampled_from([0, 1, 8, 16]), DTYPES)
def test_image_round_trip(shape: tuple[int, int, int, int], alignment: int, dtype: Any) -> None:
    rows = ImageRows.aligned(shape, alignment)
    values = numbered(*shape, dtype=dtype)
    memory = rows.pack(values, fill=-7)
    assert memory.size == shape[0] * shape[1] * rows.row_pixels * shape[3]
    np.testing.assert_array_equal(rows.unpack(memory), values)
    np.testing.assert_array_equal(rows.pack(rows.unpack(memory), fill=-7), memory)


def test_image_rows() -> None:
    rows = ImageRows.aligned((1, 2, 24, 3), 16)
    assert rows.row_pixels == 32
    memory = rows.pack(numbered(1, 2, 24, 3))
    assert memory[(1 * 32 + 5) * 3 + 2] == (24 + 5) * 3 + 2 + 1
    with pytest.raises(ValueError, match="does not hold"):
        rows.unpack(np.zeros(3))
    with pytest.raises(ValueError, match="at least as long"):
        ImageRows(1, 2, 24, 3, 20)


# ---------------------------------------------------------------------------------------------- weights


@st.composite
def weight_tiles(draw: st.DrawFn) -> WeightTiles:
    def runs(group: int) -> tuple[Groups, ...]:
        whole, short = draw(st.integers(0, 3)), draw(st.integers(0, group - 1))
        found = [run for run in (Groups(whole, group), Groups(1, short)) if run.amount and run.size]
        return tuple(found) or (Groups(1, group),)

    return WeightTiles(runs(draw(st.sampled_from([2, 8, 16]))), runs(draw(st.sampled_from([4, 16]))), draw(SMALL), 2)


@given(weight_tiles(), DTYPES)
def test_weight_round_trip(tiles: WeightTiles, dtype: Any) -> None:
    memory = numbered(tiles.elements, dtype=dtype)
    weights = unpack_weights(memory, tiles)
    assert weights.shape == tiles.shape
    np.testing.assert_array_equal(pack_weights(weights, tiles), memory)


@given(weight_tiles())
def test_weight_order_is_the_rule(tiles: WeightTiles) -> None:
    """The nested loops of the documentation, one element at a time."""
    memory = numbered(tiles.elements)
    expected = np.zeros(tiles.shape, np.int32)
    stored = iter(memory)
    outputs = [run.size for run in tiles.outputs for _ in range(run.amount)]
    inputs = [run.size for run in tiles.inputs for _ in range(run.amount)]
    for o_group, o_size in enumerate(outputs):
        for i_group, i_size in enumerate(inputs):
            for ky in range(tiles.height):
                for kx in range(tiles.width):
                    for o in range(o_size):
                        for i in range(i_size):
                            place = sum(outputs[:o_group]) + o, sum(inputs[:i_group]) + i, ky, kx
                            expected[place] = next(stored)
    np.testing.assert_array_equal(unpack_weights(memory, tiles), expected)


def test_weight_padding() -> None:
    tiles = WeightTiles.of_rk3588((3, 2, 1, 1), 1)
    assert tiles.shape == (4, 16, 1, 1)
    memory = pack_weights(numbered(3, 2, 1, 1, dtype=np.int8), tiles, padding=[10, 20, 30])
    rows = memory.reshape(4, 16)
    assert rows[1, :3].tolist() == [3, 4, 20]
    assert rows[2, 15] == 30
    assert not rows[3].any()
    with pytest.raises(ValueError, match="do not fit"):
        pack_weights(numbered(5, 2, 1, 1), tiles)


@pytest.mark.parametrize(
    ("native", "shape"),
    [
        ((1, 1, 3, 3, 16, 16), (16, 16, 3, 3)),
        ((2, 1, 1, 1, 32, 32, 2, 1, 1, 1, 32, 16), (64, 48, 1, 1)),
        ((4, 2, 1, 1, 16, 32, 4, 1, 1, 1, 16, 16, 1, 2, 1, 1, 8, 32, 1, 1, 1, 1, 8, 16), (72, 80, 1, 1)),
        ((1, 0, 3, 3, 1, 64, 1, 1, 3, 3, 1, 16), (1, 16, 3, 3)),
        ((1, 1, 5, 5, 1, 64, 1, 1, 5, 5, 1, 32), (1, 96, 5, 5)),
    ],
)
def test_native_numbers(native: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert WeightTiles.from_native(native).shape == shape


@pytest.mark.parametrize(
    "native",
    [
        (),
        (1, 2, 3),
        (1, 1, 3, 3, 16, -16),
        (1, 1, 3, 3, 16, 16, 1, 1, 5, 5, 8, 16),
        (1, 1, 3, 3, 16, 16, 1, 1, 3, 3, 8, 8),
    ],
)
def test_native_numbers_that_make_no_sense(native: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError):
        WeightTiles.from_native(native)


@pytest.mark.parametrize("native", [(2**31 - 1, 2**31 - 1, 3, 3, 16, 16), (2**31 - 1, 2**31 - 1, 0, 3, 16, 16)])
def test_huge_numbers_cost_nothing(native: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"fewer|nothing"):
        unpack_weights(np.zeros(100, np.int8), WeightTiles.from_native(native))


def test_rk3588_rules() -> None:
    assert WeightTiles.of_rk3588((70, 40, 3, 3), 1) == WeightTiles.from_native(
        (2, 1, 3, 3, 32, 32, 2, 1, 3, 3, 32, 16, 1, 1, 3, 3, 6, 32, 1, 1, 3, 3, 6, 16)
    )
    assert WeightTiles.of_rk3588((16, 3, 3, 3), 2) == WeightTiles.from_native((1, 1, 3, 3, 16, 8))
    assert WeightTiles.of_rk3588_depthwise(48, 3, 3, 1).shape == (1, 64, 3, 3)
    assert WeightTiles.of_rk3588_depthwise(96, 3, 3, 1).inputs == (Groups(1, 64), Groups(1, 32))


@given(st.sampled_from([1, 2, 8]), st.integers(1, 9), st.binary(min_size=0, max_size=50))
def test_inline_zero_points(run: int, blocks: int, tail: bytes) -> None:
    weights, negated = numbered(run * blocks, dtype=np.int8), -numbered(run * blocks, dtype=np.int8)
    memory = join_zero_points(weights, negated, run)
    longer = np.concatenate([memory, np.frombuffer(tail, np.int8)])
    found = split_zero_points(longer, run, run * blocks)
    np.testing.assert_array_equal(found[0], weights)
    np.testing.assert_array_equal(found[1], negated)


@given(st.integers(1, 3), st.sampled_from([16, 32]), st.integers(1, 4), st.integers(1, 8))
def test_image_weight_round_trip(groups: int, group: int, height: int, width: int) -> None:
    tiles = WeightTiles((Groups(groups, group),), (Groups(1, 4),), height, width)
    weights = numbered(groups * group, 3, height, width)
    memory = pack_image_weights(weights, tiles, padding=-5)
    assert memory.size == groups * group * height * (32 if width <= 4 else 64)
    unpacked = unpack_image_weights(memory, tiles)
    np.testing.assert_array_equal(unpacked[:, :3], weights)
    assert (unpacked[:, 3] == -5).all()
    np.testing.assert_array_equal(pack_image_weights(unpacked, tiles), memory)


def test_image_weights_in_groups_of_two_sizes() -> None:
    with pytest.raises(UnsupportedError, match="whole groups"):
        unpack_image_weights(np.zeros(10000), WeightTiles((Groups(1, 16), Groups(1, 8)), (Groups(1, 4),), 5, 5))


# ---------------------------------------------------------------------------------------------- operands

INT16 = st.integers(-(2**15) + 1, 2**15 - 1)


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), INT16, INT16), min_size=1, max_size=40),
    st.sampled_from([4, 8]),
    st.sampled_from([Use.BIAS, Use.BIAS | Use.MULTIPLIER, Use.MULTIPLIER, Use.ALL]),
    st.integers(0, 64),
)
def test_operand_round_trip(channels: list[tuple[int, int, int]], group: int, use: Use, room: int) -> None:
    bias, zero_point, multiplier = (tuple(column) for column in zip(*channels, strict=True))
    operands = Operands(
        bias if Use.BIAS in use else None,
        zero_point if Use.ZERO_POINT in use else None,
        multiplier if Use.MULTIPLIER in use else None,
    )
    stream = pack_operands(operands, group, channels=room)
    assert unpack_operands(stream, len(channels), group, use) == operands
    whole = max(room, len(channels))
    assert pack_operands(unpack_operands(stream, whole, group, use), group) == stream


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-128, 127), INT16), min_size=1, max_size=40))
def test_byte_operand_round_trip(channels: list[tuple[int, int, int]]) -> None:
    operands = Operands(*(tuple(column) for column in zip(*channels, strict=True)))
    stream = pack_byte_operands(operands)
    assert len(stream) == -(-len(channels) // 8) * 56
    assert unpack_byte_operands(stream, len(channels)) == operands
    # A stream may end behind the zero points of a last half pair.
    needed = len(stream) - (24 if (len(channels) - 1) % 8 < 4 else 0)
    assert unpack_byte_operands(stream[:needed], len(channels)) == operands
    with pytest.raises(UnsupportedError, match="fewer"):
        unpack_byte_operands(stream[: needed - 1], len(channels))


def test_byte_operand_order() -> None:
    stream = bytes(
        struct.pack("<4i4h8b4i4h", *range(1, 5), *range(5, 9), *range(9, 17), *range(17, 21), *range(21, 25))
    )
    bias, zero_point, multiplier = unpack_byte_operands(stream, 8)
    assert bias == (1, 2, 3, 4, 17, 18, 19, 20)
    assert zero_point == tuple(range(-9, -17, -1))
    assert multiplier == (5, 6, 7, 8, 21, 22, 23, 24)
    with pytest.raises(ValueError, match="needed"):
        pack_byte_operands(Operands((1,), None, (1,)))


def test_operand_order() -> None:
    stream = struct.pack("<4i4h4h", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    assert unpack_operands(stream, 3, 4) == Operands((1, 2, 3), (-5, -6, -7), (9, 10, 11))
    with pytest.raises(UnsupportedError, match="fewer"):
        unpack_operands(stream, 5, 4)
    with pytest.raises(ValueError, match="channels"):
        pack_operands(Operands((1,), None, (1, 2)), 8)
