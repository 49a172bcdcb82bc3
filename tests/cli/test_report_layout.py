"""The graph drawing: nothing overlaps, everything flows down, and lines go around the boxes that they pass."""

import itertools
import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.pages.model import layers
from openrknn.pages.model.layout import Box, Picture, lay_out

Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    count = draw(st.integers(1, 24))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=50))


def drawn(count: int, edges: Edges, sizes: tuple[tuple[float, float], ...] = ((176, 46), (150, 34))) -> Picture:
    return lay_out([sizes[number % len(sizes)] for number in range(count)], edges)


def centre(box: Box) -> float:
    return box.x + box.width / 2


def vertical_pieces(path: str) -> list[tuple[float, float, float]]:
    """(x, from y, to y) of the straight pieces of a path."""
    pieces = []
    x = y = 0.0
    for letter, numbers in re.findall(r"([MVC])([^MVC]*)", path):
        values = [float(value) for value in numbers.split()]
        if letter == "V":
            pieces.append((x, y, values[0]))
            y = values[0]
        else:
            x, y = values[-2:]
    return pieces


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_boxes_do_not_overlap_and_lie_in_the_picture(graph: tuple[int, Edges]) -> None:
    picture = drawn(*graph)
    for one, other in itertools.combinations(picture.boxes, 2):
        apart_x = one.x + one.width <= other.x + 0.01 or other.x + other.width <= one.x + 0.01
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y
    for box in picture.boxes:
        assert -0.01 <= box.x <= box.x + box.width <= picture.width + 0.01
        assert 0 <= box.y <= box.y + box.height <= picture.height


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_each_forward_edge_is_drawn_once_and_flows_down(graph: tuple[int, Edges]) -> None:
    count, edges = graph
    picture = drawn(count, edges)
    assert [(edge.source, edge.target) for edge in picture.edges] == sorted({(a, b) for a, b in edges if a < b})
    for edge in picture.edges:
        source, target = picture.boxes[edge.source], picture.boxes[edge.target]
        assert source.y + source.height < target.y


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_lines_pass_beside_the_boxes_of_the_rows_that_they_cross(graph: tuple[int, Edges]) -> None:
    picture = drawn(*graph)
    for edge in picture.edges:
        for x, top, bottom in vertical_pieces(edge.path):
            for box in picture.boxes:
                beside = x <= box.x or x >= box.x + box.width
                assert beside or bottom <= box.y + 0.5 or top >= box.y + box.height - 0.5


def test_a_chain_is_one_straight_column() -> None:
    picture = drawn(40, [(number, number + 1) for number in range(39)])
    assert len({centre(box) for box in picture.boxes}) == 1
    assert all("C" not in edge.path for edge in picture.edges)


def test_a_skip_connection_bends_and_the_main_path_does_not() -> None:
    chain = [(number, number + 1) for number in range(12)]
    picture = drawn(13, [*chain, (1, 11)])
    assert len({round(centre(box), 2) for box in picture.boxes}) == 1
    skip = next(edge for edge in picture.edges if (edge.source, edge.target) == (1, 11))
    assert skip.path.count("C") == 2


def test_branches_of_the_same_length_stand_left_and_right_of_the_fork() -> None:
    picture = drawn(4, [(0, 1), (0, 2), (1, 3), (2, 3)], sizes=((100, 40),))
    left, right = centre(picture.boxes[1]), centre(picture.boxes[2])
    assert centre(picture.boxes[0]) == centre(picture.boxes[3]) == (left + right) / 2


def test_an_input_stands_just_above_its_reader() -> None:
    """A second input that is needed late does not draw a line along the whole picture."""
    picture = drawn(7, [(0, 2), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6)], sizes=((100, 40),))
    assert picture.boxes[1].y == picture.boxes[4].y


def test_edges_backwards_and_to_nowhere_are_left_out() -> None:
    assert drawn(2, [(1, 0), (0, 0), (0, 5), (-1, 1)]).edges == ()
    assert drawn(0, []) == Picture(0.0, 0.0, (), ())


def test_readers_of_one_source_share_their_line() -> None:
    graph = layers.build(8, [*[(number, number + 1) for number in range(7)], (0, 5), (0, 7)])
    assert graph.routes[0, 5] == graph.routes[0, 7][: len(graph.routes[0, 5])]


@pytest.mark.parametrize(("count", "skips"), [(1000, 0), (1000, 250), (300, 90)])
def test_large_graphs_take_less_than_a_second(count: int, skips: int) -> None:
    chance = random.Random(7)
    edges = [(number, number + 1) for number in range(count - 1)]
    starts = [chance.randrange(count - 12) for _ in range(skips)]
    edges += [(start, start + chance.randrange(2, 12)) for start in starts]
    edges += [(count // 10, count // 2), (count // 5, count - 1)]
    began = time.process_time()
    drawn(count, edges)
    assert time.process_time() - began < 1


def test_lines_without_end_do_not_fill_the_memory() -> None:
    """A hostile file: every operator's result is read again at the very end."""
    count = 3000
    edges = [(number, number + 1) for number in range(count - 1)] + [(number, count - 1) for number in range(count)]
    graph = layers.build(count, edges)
    assert len(graph.above) < 30_000
    assert len(graph.routes) == 2 * count - 3
