"""Cameras, models and events together, with a clock that is told the time: exact, and as fast as it goes."""

from __future__ import annotations

import json
import os
import select
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from openrknn.errors import RknnError
from openrknn.watch import Watch, WatchError
from openrknn.watch.capture import Image, open_source
from openrknn.watch.demo import write_detector
from openrknn.watch.engine import CameraView
from openrknn.watch.models import SharedModel, open_host
from openrknn.watch.scene import parse_scene
from openrknn.watch.settings import Camera, Events, FileSink, Line, ModelSettings, WatchSettings, Zone
from openrknn.watch.tracking import TrackerSettings
from tests.watch.truth import Rules, expected, reported

RATE = 2.0
RULES = Rules(lost=3.0, loiter=4.0)
ZONES = (Zone("left", ((0, 0), (0.5, 0), (0.5, 1), (0, 1)), leave_seconds=0, loiter_seconds=RULES.loiter),)
LINES = (Line("middle", ((0.5, 0), (0.5, 1))),)


def _camera(number: int, models: tuple[str, ...] = ("squares",)) -> Camera:
    tracking = TrackerSettings(lost_seconds=RULES.lost)
    source = f"test:{number}?fps={RATE}"
    return Camera(f"cam{number}", source, models, rate=RATE, zones=ZONES, lines=LINES, tracking=tracking)


class Theatre:
    """Cameras that show a frame when they are told to."""

    def __init__(self, folder: Path, detector: Path, cameras: Sequence[Camera], **more: Any) -> None:
        self.now = 1000.0
        self.seen: dict[str, list[tuple[float, int, int]]] = {camera.name: [] for camera in cameras}
        self.scenes = {camera.name: parse_scene(camera.source) for camera in cameras}
        settings = WatchSettings(
            tuple(cameras), (ModelSettings("squares", detector, threshold=0.5),), spool=folder / "spool",
            workers="in-process", slots=1, events=Events((FileSink(folder / "events.jsonl"),), snapshots=False), **more,
        )  # fmt: skip
        self.watch = Watch(settings, clock=self._clock, source=self._source, observe=self._observe)
        self.streams = {name: view.capture.frames() for name, view in self.watch.cameras.items()}

    def _clock(self) -> float:
        return self.now

    def _source(self, camera: Camera, _wait: object) -> Iterator[tuple[int, Image]]:
        return open_source(camera, lambda _seconds: False, self._clock)

    def _observe(self, feed: Any, frame: Any, _happenings: object) -> None:
        number = self.scenes[feed.camera.name].number_of(frame.pixels)
        self.seen[feed.camera.name].append((frame.time, frame.number, number))

    def play(self, frames: int, *, without: Sequence[str] = (), analyse: bool = True) -> None:
        """So many frames of each camera."""
        for _ in range(frames):
            self.now += 1 / RATE
            for name, stream in self.streams.items():
                if name not in without:
                    next(stream)
            while analyse and self.watch.step():
                pass
            self.watch.tick()

    def end(self) -> list[dict[str, Any]]:
        """All events, from the file."""
        for stream in self.streams.values():
            stream.close()
        events: list[dict[str, Any]] = []
        self.watch.close()
        path = self.watch.settings.events.files[0].path
        if path.exists():
            events = [json.loads(line) for line in path.read_text().splitlines()]
        return events

    def check(self) -> None:
        """Exactly the events that the true positions say."""
        events = self.end()
        for name, scene in self.scenes.items():
            want = expected(self.seen[name], scene, RULES, self.now)
            assert reported(events, name) == want
        assert len(events) > 2 * len(self.scenes)
        ids = [event["id"] for event in events]
        assert ids == sorted(set(ids))


def test_sixteen_cameras_report_exactly_what_happens(tmp_path: Path, detector: Path) -> None:
    theatre = Theatre(tmp_path, detector, [_camera(number) for number in range(16)])
    theatre.play(30)
    assert sum(len(rows) for rows in theatre.seen.values()) == 16 * 30
    theatre.check()


def test_a_camera_that_was_away_and_a_new_model_change_nothing_else(tmp_path: Path, detector: Path) -> None:
    own = Path(shutil.copy(detector, tmp_path / "squares.rknn"))
    theatre = Theatre(tmp_path, own, [_camera(number) for number in range(3)])
    theatre.play(30)
    theatre.watch.cameras["cam0"].capture.lose("somebody pulled the plug")
    theatre.play(20, without=["cam0"])
    write_detector(own, steep=44.0, check=False)
    assert theatre.watch.models["squares"].refresh()
    assert not theatre.watch.models["squares"].refresh()
    theatre.play(30)
    theatre.check()


def test_too_many_frames_are_dropped_and_not_kept(tmp_path: Path, detector: Path) -> None:
    theatre = Theatre(tmp_path, detector, [_camera(0), _camera(1)])
    theatre.play(10, analyse=False)
    for _ in range(2):
        assert theatre.watch.step()
    assert not theatre.watch.step()
    assert [rows[0][1] for rows in theatre.seen.values()] == [9, 9]
    assert [view.capture.newest.dropped for view in theatre.watch.cameras.values()] == [9, 9]
    theatre.end()


def test_a_model_that_cannot_be_loaded_leaves_the_old_one(
    tmp_path: Path, detector: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = Path(shutil.copy(detector, tmp_path / "squares.rknn"))
    theatre = Theatre(tmp_path, own, [_camera(0)])
    own.write_bytes(b"not a model")
    model = theatre.watch.models["squares"]
    assert not model.refresh()
    assert "model-kept" in caplog.text
    caplog.clear()
    assert not model.refresh()  # the same bad file is not tried again
    assert caplog.text == ""
    theatre.play(5)
    assert len(theatre.seen["cam0"]) == 5
    theatre.end()


def test_a_worker_that_is_killed_is_started_again(detector: Path) -> None:
    """And the frame that it had is the only one that is lost."""
    scene = parse_scene("test:1")
    with SharedModel(ModelSettings("squares", detector, instances=1), open_host("software", "process")) as model:
        before = len(model.run(scene.frame(40)).found or ())  # type: ignore[arg-type]
        (pid,) = model.pids()
        handle = os.pidfd_open(pid)
        os.kill(pid, 9)
        assert select.select([handle], [], [], 60)[0]
        os.close(handle)
        found = _first_result(lambda: model.run(scene.frame(40)))
        assert len(found.found) == before == len(scene.shapes(40))
        assert model.restarts == 1
        assert model.pids() != (pid,)


def _first_result(run: Callable[[], Any]) -> Any:
    """After at most a few failures: who notices the death of a process first is not known."""
    for _ in range(5):
        try:
            return run()
        except RknnError:
            continue
    return run()


def test_models_that_find_no_objects_are_refused(tmp_path: Path, detector: Path) -> None:
    with pytest.raises(WatchError, match="no class 'dog'; there are person, car, cat"):
        SharedModel(ModelSettings("squares", detector, classes=("dog",)), open_host("software", "in-process"))
    with pytest.raises(WatchError, match=r"model squares: .*missing"):
        SharedModel(ModelSettings("squares", tmp_path / "missing.rknn"), open_host("software", "in-process"))


def test_only_the_wanted_classes_are_tracked(tmp_path: Path, detector: Path) -> None:
    theatre = Theatre(tmp_path, detector, [_camera(0)])
    object.__setattr__(theatre.watch.models["squares"].settings, "classes", ("cat",))
    theatre.play(70)
    labels = {event["label"] for event in theatre.end() if "label" in event}
    assert labels <= {"cat"}


def test_threads_do_the_same(tmp_path: Path, detector: Path) -> None:
    """With real threads and time, and without a word about how fast they are: the events fit the analysed frames."""
    enough, counted = threading.Event(), [0]
    seen: list[tuple[float, int, int]] = []
    scene = parse_scene("test:3?fps=200")

    def observe(_feed: object, frame: Any, _happenings: object) -> None:
        seen.append((frame.time, frame.number, scene.number_of(frame.pixels)))
        counted[0] += 1
        if counted[0] >= 60:
            enough.set()

    camera = Camera("cam", "test:3?fps=200", ("squares",), rate=200, zones=ZONES, lines=LINES)
    settings = WatchSettings(
        (camera,), (ModelSettings("squares", detector, threshold=0.5),), spool=tmp_path / "spool",
        workers="in-process", events=Events((FileSink(tmp_path / "events.jsonl"),)),
    )  # fmt: skip
    with Watch(settings, observe=observe) as watch:
        watch.start()
        assert enough.wait(120)
        view = next(iter(watch.cameras.values()))
        assert isinstance(view, CameraView)
        assert view.state()["is_online"]
    frames = [frame for _, frame, _ in seen]
    assert frames == sorted(set(frames))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert len(lines) == view.events >= 1


def test_sources_stop_when_they_are_told_to() -> None:
    def stop(_seconds: float) -> bool:
        return True

    frames: Iterator[tuple[int, Image]] = open_source(_camera(1), stop)
    assert len(list(frames)) == 1
