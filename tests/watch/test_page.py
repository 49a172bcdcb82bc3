"""The page: what it shows, what it keeps to itself, and how it looks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openrknn.watch import Watch
from openrknn.watch.capture import Image, open_source
from openrknn.watch.page import serve_page
from openrknn.watch.settings import Camera, Events, FileSink, Line, ModelSettings, Page, WatchSettings, Zone
from tests.browser import Browser

ZONE = Zone("left", ((0, 0), (0.5, 0), (0.5, 1), (0, 1)), leave_seconds=0)


@contextmanager
def _page(folder: Path, detector: Path, token: str | None = None) -> Iterator[tuple[Watch, str]]:
    """A page of two cameras, of which one has shown 30 frames and the other none."""
    cameras = tuple(
        Camera(name, f"test:{number}", ("squares",), zones=(ZONE,), lines=(Line("gate", ((0.5, 0), (0.5, 1))),))
        for number, name in enumerate(("yard", "street"))
    )
    settings = WatchSettings(
        cameras, (ModelSettings("squares", detector, threshold=0.5),), spool=folder / "spool", workers="in-process",
        events=Events((FileSink(folder / "events.jsonl"),)), page=Page(port=0, token=token),
    )  # fmt: skip
    now = [1000.0]

    def clock() -> float:
        return now[0]

    def source(camera: Camera, _wait: object) -> Iterator[tuple[int, Image]]:
        return open_source(camera, lambda _seconds: False, clock)

    with Watch(settings, clock=clock, source=source) as watch, serve_page(watch) as address:
        frames = watch.cameras["yard"].capture.frames()
        for _ in range(30):
            now[0] += 0.2
            next(frames)
            watch.step()
        frames.close()
        yield watch, address


def _get(address: str, token: str = "", **more: Any) -> tuple[int, bytes, dict[str, str]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(address, headers={**headers, **more.pop("headers", {})}, **more)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def test_tells_states_images_events_and_metrics(tmp_path: Path, detector: Path) -> None:
    with _page(tmp_path, detector) as (_watch, address):
        state = json.loads(_get(address + "state")[1])
        yard, street = state["cameras"]
        assert (yard["name"], yard["is_online"], yard["frames"], street["is_online"]) == ("yard", True, 30, False)
        events = json.loads(_get(address + "events")[1])["events"]
        assert {"online", "enter"} <= {event["kind"] for event in events}
        with_image = next(event for event in events if event["has_snapshot"])
        for path in ("cameras/yard.jpg?after=0", f"events/{with_image['number']}.jpg"):
            status, body, _ = _get(address + path)
            assert (status, body[:2]) == (200, b"\xff\xd8")
        text = _get(address + "metrics")[1].decode()
        assert 'openrknn_watch_captured_frames_total{camera="yard"} 30.0' in text
        assert 'openrknn_watch_online{camera="street"} 0.0' in text
        assert 'openrknn_watch_analysed_frames_total{camera="yard",model="squares"} 30.0' in text
        for path in ("cameras/nobody.jpg", "cameras/yard.gif", "events/99999.jpg", "events/x.jpg", "../passwd", "x"):
            assert _get(address + path)[0] == 404


def test_wants_its_token_for_everything_but_the_empty_page(tmp_path: Path, detector: Path) -> None:
    with _page(tmp_path, detector, "secret") as (_watch, address):
        assert b"openrknn watch" in _get(address)[1]
        for path in ("state", "events", "metrics", "cameras/yard.jpg", "cameras/yard.mjpg", "nothing"):
            status, body, headers = _get(address + path)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert b"yard" not in body
            assert _get(address + path, "wrong")[0] == 401
        assert _get(address + "state", "secret")[0] == 200
        assert _get(address + "models/squares", method="POST")[0] == 401
        assert _get(address + "models/squares", "secret", method="POST")[0] == 200


def test_a_model_is_loaded_again_and_foreign_pages_cannot_ask_for_it(tmp_path: Path, detector: Path) -> None:
    with _page(tmp_path, detector) as (watch, address):
        assert _get(address + "models/squares", method="POST")[0] == 403
        status, body, _ = _get(address + "models/squares", method="POST", headers={"X-OpenRKNN": "1"})
        assert (status, json.loads(body)["reloaded"], watch.models["squares"].reloads) == (200, True, 1)
        assert _get(address + "models/other", method="POST", headers={"X-OpenRKNN": "1"})[0] == 404
        assert _get(address + "state", headers={"Host": "evil.example"})[0] == 403


def test_looks_right_in_a_browser(tmp_path: Path, detector: Path) -> None:
    with _page(tmp_path, detector) as (_watch, address), Browser(tmp_path) as browser:
        page = browser.open(address)
        page.until("document.querySelectorAll('.camera').length === 2")
        page.until("document.querySelector('.camera .image.has img')?.naturalWidth > 0")
        page.until("document.querySelectorAll('#events li img[src]').length > 0")
        for width, dark in ((1280, False), (390, True)):
            page.resize(width, 800, dark=dark)
            assert page.ask("document.documentElement.scrollWidth <= innerWidth")
        assert page.ask("document.getElementById('status').textContent") == "1 of 2 cameras lost"
        assert page.ask("document.querySelectorAll('.camera.bad').length") == 1
        page.ask("document.querySelector('.camera button').click()")
        page.until("document.getElementById('large-image').naturalWidth > 0")
        assert page.complaints() == []
