"""Zones and lines of a camera: what tracked objects do there, as events.

Objects count by one point of their box: the middle of its lower edge, where people and cars stand, or its centre.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.watch.geometry import Point, crosses, is_inside
from openrknn.watch.settings import Line, Zone
from openrknn.watch.tracking import Track

__all__ = ["Happening", "Monitor"]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Happening:
    """What an object did: the part of an event that zones know."""

    kind: str
    """enter, leave, loiter or cross."""
    place: str
    """The zone's or line's name."""
    track: int
    label: str
    box: tuple[float, float, float, float]
    score: float
    time: float
    seconds: float = 0.0
    """leave and loiter: how long it was inside."""
    direction: str = ""
    """cross: in (to the right of the line, as seen from its first point) or out."""
    reason: str = ""
    """leave: outside, lost (out of sight) or stopped (the program ended)."""


@dataclass(slots=True)
class _Visit:
    """An object in a zone."""

    since: float
    is_reported: bool = False
    """`enter` was reported."""
    has_loitered: bool = False
    outside: float | None = None
    """Since when it is outside, if it is."""
    last: Track | None = None


@dataclass(slots=True)
class Monitor:
    """All zones and lines of one camera, for the tracks of one model."""

    zones: Sequence[Zone]
    lines: Sequence[Line]
    labels: Sequence[str] | None
    width: int = 0
    height: int = 0
    _visits: dict[tuple[str, int], _Visit] = field(default_factory=dict)
    _points: dict[int, dict[str, Point]] = field(default_factory=dict)
    _shapes: dict[str, tuple[Point, ...]] = field(default_factory=dict)

    def resize(self, width: int, height: int) -> None:
        """The size of the frames; fractions of it become pixels."""
        if (width, height) == (self.width, self.height):
            return
        self.width, self.height = width, height
        for one in (*self.zones, *self.lines):
            self._shapes[one.name] = one.pixels(width, height)

    def shapes(self) -> Mapping[str, tuple[Point, ...]]:
        """Name -> points in pixels, for drawing."""
        return self._shapes

    def update(self, tracks: Iterable[Track], alive: set[int], now: float) -> list[Happening]:
        """One frame: tracks that are in it, and the numbers of those that exist at all."""
        found: list[Happening] = self._end_lost(alive, now)
        for track in tracks:
            for zone in self.zones:
                if zone.concerns(self.label_of(track)):
                    found += [one for one in self._in_zone(zone, track, now) if one.kind in zone.report]
            for line in self.lines:
                if line.concerns(self.label_of(track)):
                    found += self._over_line(line, track, now)
            self._points[track.number] = {anchor: _point(track, anchor) for anchor in ("bottom", "center")}
        return found

    def label_of(self, track: Track) -> str:
        """The name of its class."""
        names = self.labels
        return names[track.label] if names is not None and 0 <= track.label < len(names) else f"class {track.label}"

    def _in_zone(self, zone: Zone, track: Track, now: float) -> list[Happening]:
        key = (zone.name, track.number)
        visit = self._visits.get(key)
        is_in = is_inside(_point(track, zone.anchor), self._shapes[zone.name])
        found: list[Happening] = []
        if not is_in:
            if visit is None:
                return found
            visit.outside = now if visit.outside is None else visit.outside
            if not visit.is_reported:
                del self._visits[key]
            elif now - visit.outside >= zone.leave_seconds - _ROUNDING:
                del self._visits[key]
                seconds = visit.outside - visit.since
                found.append(self._happened("leave", zone.name, track, now, seconds=seconds, reason="outside"))
            return found
        if visit is None:
            visit = self._visits[key] = _Visit(now)
        visit.outside, visit.last = None, track
        inside = now - visit.since
        if not visit.is_reported and inside >= zone.enter_seconds - _ROUNDING:
            visit.is_reported = True
            found.append(self._happened("enter", zone.name, track, now))
        if zone.loiter_seconds and not visit.has_loitered and inside >= zone.loiter_seconds - _ROUNDING:
            visit.has_loitered = True
            found.append(self._happened("loiter", zone.name, track, now, seconds=inside))
        return found

    def _over_line(self, line: Line, track: Track, now: float) -> list[Happening]:
        before = self._points.get(track.number)
        if before is None:
            return []
        start, end = self._shapes[line.name]
        way = crosses(before[line.anchor], _point(track, line.anchor), start, end)
        if not way:
            return []
        direction = "in" if way > 0 else "out"
        if line.direction not in ("both", direction):
            return []
        return [self._happened("cross", line.name, track, now, direction=direction)]

    def _end_lost(self, alive: set[int], now: float) -> list[Happening]:
        for number in [number for number in self._points if number not in alive]:
            del self._points[number]
        return self._end([key for key in self._visits if key[1] not in alive], now, "lost")

    def stop(self, now: float, reason: str = "stopped") -> list[Happening]:
        """Every visit ends; no object is known any more."""
        self._points.clear()
        return self._end(list(self._visits), now, reason)

    def _end(self, keys: list[tuple[str, int]], now: float, reason: str) -> list[Happening]:
        found = []
        reports = {zone.name: zone.report for zone in self.zones}
        for key in keys:
            visit = self._visits.pop(key)
            if visit.is_reported and visit.last is not None and "leave" in reports[key[0]]:
                seconds = max((visit.outside or visit.last.seen) - visit.since, 0.0)
                found.append(self._happened("leave", key[0], visit.last, now, seconds=seconds, reason=reason))
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        """Zone -> label -> how many objects are inside."""
        found: dict[str, dict[str, int]] = {zone.name: {} for zone in self.zones}
        for (name, _), visit in self._visits.items():
            if visit.is_reported and visit.last is not None:
                label = self.label_of(visit.last)
                found[name][label] = found[name].get(label, 0) + 1
        return found

    def _happened(self, kind: str, place: str, track: Track, now: float, **more: Any) -> Happening:
        left, top, right, bottom = map(float, track.box)
        box = (round(left, 1), round(top, 1), round(right, 1), round(bottom, 1))
        score = round(track.score, 4)
        return Happening(kind, place, track.number, self.label_of(track), box, score, now, **more)


def _point(track: Track, anchor: str) -> Point:
    left, top, right, bottom = map(float, track.box)
    return ((left + right) / 2, bottom if anchor == "bottom" else (top + bottom) / 2)

