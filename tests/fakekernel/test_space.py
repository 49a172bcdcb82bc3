"""Device addresses: where buffers go, and that nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openrknn.fakekernel.space import PAGE, SPACE_END, AddressSpace, counted_from, on_bus, pages

END = 1 << 20


def test_from_the_top_aligned_to_the_size() -> None:
    space = AddressSpace(0, END, highest_first=True)
    assert space.allocate(PAGE) == END - PAGE
    assert space.allocate(3 * PAGE) == END - 4 * PAGE
    assert space.allocate(3 * PAGE) == END - 8 * PAGE  # a multiple of four pages, as three need
    assert space.allocate(PAGE) == END - 5 * PAGE  # the gap above is used first


def test_addresses_like_those_of_a_board() -> None:
    """Sizes and relative places of a public log of a runtime on a board: 64 KiB is the largest alignment."""
    space = AddressSpace(0x1000, 1 << 32, highest_first=True)
    for size, step in ((0x2000, 0x2000), (0x4000, 0x4000), (0x1000, 0x1000), (0x42000, 0x10000), (0x20000, 0x10000)):
        address = space.allocate(size)
        assert address is not None
        assert address % step == 0


def test_from_the_bottom_page_by_page() -> None:
    space = AddressSpace(0, END, highest_first=False)
    assert [space.allocate(size) for size in (PAGE, 3 * PAGE, PAGE)] == [0, PAGE, 4 * PAGE]
    space.free(PAGE, 3 * PAGE)
    assert space.allocate(4 * PAGE) == 5 * PAGE  # the gap is too small
    assert space.allocate(2 * PAGE) == PAGE


def test_full_is_none() -> None:
    space = AddressSpace(0, 4 * PAGE, highest_first=True)
    assert space.allocate(4 * PAGE) == 0
    assert space.allocate(PAGE) is None


@given(st.booleans(), st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=60))
def test_no_overlap_and_nothing_is_lost(highest_first: bool, steps: list[tuple[int, int]]) -> None:
    space = AddressSpace(0, END, highest_first=highest_first)
    held: list[tuple[int, int]] = []
    for count, action in steps:
        if action and held:
            space.free(*held.pop(count % len(held)))
        size = count * PAGE
        address = space.allocate(size)
        if address is not None:
            assert all(address + size <= start or start + length <= address for start, length in held)
            held.append((address, size))
    for entry in held:
        space.free(*entry)
    assert space.free_bytes == END
    assert space.allocate(END) == 0


def test_whole_pages() -> None:
    assert [pages(size) for size in (0, 1, PAGE, PAGE + 1)] == [0, PAGE, PAGE, 2 * PAGE]


def test_what_lies_below_a_base_comes_after_all_the_others() -> None:
    """Sums of addresses wrap around: an output below the image of an RV1106 is reached from it."""
    base = 0x8000
    assert counted_from(base, base, PAGE) == 0
    assert counted_from(base, base + PAGE, PAGE) == PAGE
    assert counted_from(base, base - PAGE, PAGE) == SPACE_END - PAGE
    assert counted_from(base, base - PAGE, 2 * PAGE) == -PAGE  # the base is inside
    assert counted_from(0, PAGE) == PAGE
    for address in (base, base + PAGE, base - PAGE, 0):
        assert on_bus(base, counted_from(base, address)) == address
