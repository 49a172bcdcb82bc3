"""What a scene's true positions say about events: independent of detector, tracker and zones.

For a camera with one zone, the left half of the image, and one line, its middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openrknn.watch.scene import LABELS, Scene

__all__ = ["Rules", "expected", "reported"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds."""

    lost: float
    loiter: float


@dataclass(slots=True)
class _Object:
    label: str
    is_confirmed: bool
    seen: float
    since: float | None = None
    has_loitered: bool = False
    was_inside: bool | None = None


def expected(
    rows: Sequence[tuple[float, int, int]], scene: Scene, rules: Rules, ending: float
) -> Counter[tuple[str, str, str, Any]]:
    """Events of one camera, from (time, frame, scene number) of the analysed frames.

    A key is kind, place, label and the frame; "lost" for who was out of sight, "end" for who was there at the end.
    """
    found: Counter[tuple[str, str, str, Any]] = Counter()
    objects: dict[tuple[int, int], _Object] = {}
    edge = 0.5 * scene.width
    for at, (now, frame, number) in enumerate(rows):
        shapes = {shape.visit: shape for shape in scene.shapes(number)}
        for key in [key for key, one in objects.items() if now - one.seen > rules.lost + 1e-9]:
            if objects.pop(key).since is not None:
                found["leave", "left", "any", "lost"] += 1
        for key in [key for key, one in objects.items() if not one.is_confirmed and key not in shapes]:
            del objects[key]
        for key, shape in shapes.items():
            middle = (shape.box[0] + shape.box[2]) / 2
            one = objects.get(key)
            if one is None:
                one = objects[key] = _Object(LABELS[shape.label], at == 0, now)
            else:
                one.is_confirmed, one.seen = True, now
            if one.is_confirmed:
                found.update(_moved(one, middle < edge, frame, now, rules))
                one.was_inside = middle < edge
    for one in objects.values():
        if one.since is not None:
            found["leave", "left", "any", "lost" if ending - one.seen > 2 * rules.lost else "end"] += 1
    return +found


def _moved(
    one: _Object, is_inside: bool, frame: int, now: float, rules: Rules
) -> Iterable[tuple[str, str, str, int]]:
    if is_inside and one.since is None:
        one.since, one.has_loitered = now, False
        yield "enter", "left", one.label, frame
    if one.was_inside is not None and one.was_inside != is_inside:
        yield "cross", "middle", one.label, frame
    if one.since is None:
        return
    if not is_inside:
        one.since = None
        yield "leave", "left", one.label, frame
    elif not one.has_loitered and now - one.since >= rules.loiter - 1e-9:
        one.has_loitered = True
        yield "loiter", "left", one.label, frame


def reported(events: Iterable[dict[str, Any]], camera: str) -> Counter[tuple[str, str, str, Any]]:
    """Events of one camera, as they were delivered, in the same form."""
    found: Counter[tuple[str, str, str, Any]] = Counter()
    for event in events:
        if event["camera"] != camera or event["kind"] in ("online", "offline"):
            continue
        place = str(event.get("zone") or event.get("line"))
        when = {"lost": "lost", "stopped": "end"}.get(event.get("reason", ""))
        label = event["label"] if when is None else "any"
        found[event["kind"], place, label, event.get("frame") if when is None else when] += 1
    return found
