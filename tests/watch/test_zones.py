from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.watch.geometry import crosses, is_inside, is_simple
from openrknn.watch.settings import Line, Zone
from openrknn.watch.tracking import Track
from openrknn.watch.tracking.kalman import BoxFilter
from openrknn.watch.zones import Monitor

LEFT = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))


def _track(x: float, y: float = 50, number: int = 1, label: int = 0) -> Track:
    box = np.array([x - 5, y - 20, x + 5, y])
    return Track(number, label, BoxFilter(box), box, 0.9, 0.0, 0.0, is_confirmed=True)


def _monitor(zones: tuple[Zone, ...] = (), lines: tuple[Line, ...] = ()) -> Monitor:
    monitor = Monitor(zones, lines, ("person", "car"))
    monitor.resize(100, 100)
    return monitor


def _told(monitor: Monitor, x: float | None, now: float, **more: Any) -> list[str]:
    tracks = [] if x is None else [_track(x, **more)]
    return [one.kind + one.direction for one in monitor.update(tracks, {1}, now)]


def test_enter_loiter_and_leave_take_their_time() -> None:
    zone = Zone("door", LEFT, enter_seconds=1, leave_seconds=2, loiter_seconds=5)
    monitor = _monitor((zone,))
    told = [_told(monitor, 20, now) for now in (0.0, 0.5, 1.0, 4.0, 5.0, 9.0)]
    assert told == [[], [], ["enter"], [], ["loiter"], []]
    assert monitor.counts() == {"door": {"person": 1}}
    assert [_told(monitor, 80, now) for now in (10.0, 11.9)] == [[], []]
    assert _told(monitor, 20, 11.95) == []  # back in time: it never left
    assert [_told(monitor, 80, now) for now in (12.0, 14.0, 15.0)] == [[], ["leave"], []]
    assert monitor.counts() == {"door": {}}


def test_who_is_inside_for_a_moment_only_has_not_entered() -> None:
    monitor = _monitor((Zone("door", LEFT, enter_seconds=1),))
    assert [_told(monitor, x, now) for x, now in ((20, 0.0), (80, 0.5), (20, 0.9), (20, 1.5))] == [[], [], [], []]


def test_who_is_out_of_sight_has_left() -> None:
    monitor = _monitor((Zone("door", LEFT),))
    assert _told(monitor, 20, 0.0) == ["enter"]
    assert _told(monitor, None, 1.0) == []
    (event,) = monitor.update([], set(), 3.0)
    assert (event.kind, event.reason, event.track) == ("leave", "lost", 1)
    assert monitor.stop(4.0) == []


def test_the_end_closes_every_visit() -> None:
    monitor = _monitor((Zone("door", LEFT), Zone("quiet", LEFT, report=("enter",))))
    _told(monitor, 20, 0.0)
    assert [(one.kind, one.place, one.reason) for one in monitor.stop(5.0)] == [("leave", "door", "stopped")]


def test_zones_are_for_their_classes() -> None:
    monitor = _monitor((Zone("door", LEFT, classes=("person",)),))
    assert _told(monitor, 20, 0.0, label=1) == []
    assert _told(monitor, 20, 1.0) == ["enter"]


def test_a_line_is_crossed_in_two_directions() -> None:
    line = Line("gate", ((50.0, 100.0), (50.0, 0.0)))  # from below to above: its right is the right
    monitor = _monitor(lines=(line,))
    assert [_told(monitor, x, float(x)) for x in (40, 45, 55, 60, 40)] == [[], [], ["crossin"], [], ["crossout"]]
    only = _monitor(lines=(Line("gate", line.points, direction="out"),))
    assert [_told(only, x, float(x)) for x in (40, 60, 40)] == [[], [], ["crossout"]]


def test_a_line_ends_where_it_ends() -> None:
    monitor = _monitor(lines=(Line("gate", ((50.0, 30.0), (50.0, 0.0))),))
    assert [_told(monitor, x, float(x)) for x in (40, 60)] == [[], []]  # below it


def test_the_anchor_is_the_bottom_or_the_centre() -> None:
    below = ((0.0, 0.45), (1.0, 0.45), (1.0, 1.0), (0.0, 1.0))
    assert _told(_monitor((Zone("a", below),)), 50, 0.0) == ["enter"]
    assert _told(_monitor((Zone("a", below, anchor="center"),)), 50, 0.0) == []
    assert _told(_monitor((Zone("a", below, anchor="center"),)), 50, 0.0, y=60) == ["enter"]


@pytest.mark.parametrize(
    ("point", "inside"), [((5, 5), True), ((0, 0), True), ((10, 5), False), ((5, 10), False), ((-1, 5), False)]
)
def test_left_and_upper_edges_belong_to_a_polygon(point: tuple[float, float], inside: bool) -> None:
    assert is_inside(point, ((0, 0), (10, 0), (10, 10), (0, 10))) is inside


def test_a_step_onto_a_line_and_off_it_crosses_it_once() -> None:
    start, end = (50.0, 100.0), (50.0, 0.0)
    steps = [((40.0, 50.0), (50.0, 50.0)), ((50.0, 50.0), (60.0, 50.0))]
    assert sum(abs(crosses(*step, start, end)) for step in steps) == 1
    back = [((40.0, 50.0), (50.0, 50.0)), ((50.0, 50.0), (40.0, 50.0))]
    assert sum(crosses(*step, start, end) for step in back) == 0


def test_polygons_whose_edges_cross_are_noticed() -> None:
    assert is_simple(((0, 0), (10, 0), (10, 10), (0, 10)))
    assert not is_simple(((0, 0), (10, 10), (10, 0), (0, 10)))
