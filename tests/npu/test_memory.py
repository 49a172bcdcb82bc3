"""Device memory: views stay inside buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.errors import AccessError
from openrknn.npu import Buffer, Memory


def buffer(address: int, size: int, name: str = "") -> Buffer:
    return Buffer(address, np.arange(size).astype(np.uint8), name)


def test_views_are_not_copies() -> None:
    memory = Memory([buffer(0x1000, 64)])
    memory.view(0x1010, 4, "test")[...] = 7
    assert memory.view(0x1010, 4, "test").tolist() == [7] * 4


@pytest.mark.parametrize("address", [0xFFF, 0x1000 + 61, 0x2000, 0, 0x1000 + 64])
def test_outside_is_an_error_with_address(address: int) -> None:
    memory = Memory([buffer(0x1000, 64, "weights")])
    with pytest.raises(AccessError) as caught:
        memory.view(address, 4, "CNA features")
    assert caught.value.address == address
    assert "CNA features" in str(caught.value)


def test_a_view_does_not_cross_buffers() -> None:
    memory = Memory([buffer(0x1000, 16, "a"), buffer(0x1010, 16, "b")])
    with pytest.raises(AccessError, match="'a'"):
        memory.view(0x100C, 8, "test")


def test_overlaps_are_refused_and_removal_works() -> None:
    first = buffer(0x1000, 32)
    memory = Memory([first])
    for address in (0x1000, 0xFF0, 0x101F):
        with pytest.raises(ValueError, match="overlaps"):
            memory.add(buffer(address, 32))
    memory.remove(first)
    memory.add(buffer(0xFF0, 32))
    assert [entry.address for entry in memory] == [0xFF0]


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 4), st.integers(-40, 40)), min_size=1, max_size=4),
)
def test_strided_views_equal_the_walk_or_are_refused(start: int, axes: list[tuple[int, int]]) -> None:
    base = 0x1000
    data = np.arange(200).astype(np.uint8)
    memory = Memory([Buffer(base, data)])
    shape, steps = [size for size, _ in axes], [step for _, step in axes]
    offsets = start + sum(
        np.arange(size).reshape([-1 if number == axis else 1 for number in range(len(axes))]) * step
        for axis, (size, step) in enumerate(axes)
    )
    assert isinstance(offsets, np.ndarray)
    if offsets.min() < 0 or offsets.max() >= 200:
        with pytest.raises(AccessError):
            memory.strided(base + start, shape, steps, "test")
    else:
        assert np.array_equal(memory.strided(base + start, shape, steps, "test"), data[offsets])
