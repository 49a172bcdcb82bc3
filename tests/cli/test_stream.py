"""`openrknn stream` as browsers, players and programs see it, and what it does without a camera or a display."""

import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openrknn.cli.common.output import Output
from openrknn.cli.stream import play
from openrknn.vision.errors import SourceError
from openrknn.vision.live.broadcast import Broadcast
from openrknn.vision.live.server import serve
from openrknn.vision.live.sockets import TidyServer
from openrknn.vision.pipeline import Pipeline
from tests.cli.run import messages, run
from tests.cli.streaming import Streaming
from tests.container.places import golden

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
Capture = pytest.CaptureFixture[str]
SMALL = golden("image_rk3588_i8")  # 16x16 pixels in, 16 classes per pixel out
SECONDS = 60
STATE = {"model": "m", "found": "2 cats"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three pictures, the second broken."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a", "b", "c"):
        picture = np.random.default_rng(ord(name)).integers(0, 256, (40, 60, 3), np.uint8)
        Image.fromarray(picture).save(folder / f"{name}.png")
    (folder / "b.png").write_bytes(b"broken")
    return folder


def get(address: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


# -- the server --------------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[Broadcast, str]]:
    with serve("127.0.0.1", 0) as both:
        yield both


def test_the_page_has_everything_in_itself(served: tuple[Broadcast, str]) -> None:
    status, headers, page = get(served[1])
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "'self'" in headers["Content-Security-Policy"]
    assert b"https://" not in page
    assert b"prefers-color-scheme: dark" in page
    assert b'name="viewport"' in page
    assert get(served[1] + "elsewhere")[0] == 404
    assert get(served[1] + "../../etc/passwd")[0] == 404


def test_a_picture_comes_with_what_is_on_it(served: tuple[Broadcast, str]) -> None:
    broadcast, address = served
    broadcast.publish(b"first", STATE)
    broadcast.publish(b"second", {**STATE, "found": "naïve\r\nX-Evil: 1"})
    status, headers, body = get(f"{address}picture?after=0")
    assert (status, body, headers["Content-Type"]) == (200, b"second", "image/jpeg")
    assert json.loads(headers["X-State"]) == {
        "model": "m", "found": "naïve\r\nX-Evil: 1", "picture": 2, "ended": False, "trouble": ""
    }  # fmt: skip
    assert "X-Evil" not in headers
    assert json.loads(get(f"{address}state")[2])["picture"] == 2
    for odd in ("1x", "-1", "99999999999999999", ""):
        assert get(f"{address}picture?after={odd}")[2] == b"second"


def test_who_has_seen_it_waits_for_the_next(served: tuple[Broadcast, str]) -> None:
    broadcast, address = served
    broadcast.publish(b"first", STATE)
    answers: list[bytes] = []
    viewer = threading.Thread(target=lambda: answers.append(get(f"{address}picture?after=1")[2]))
    viewer.start()
    broadcast.publish(b"second", STATE)
    viewer.join(SECONDS)
    assert answers == [b"second"]
    broadcast.close()
    status, headers, body = get(f"{address}picture?after=2")
    assert (status, body) == (204, b"")
    assert json.loads(headers["X-State"])["ended"]


def test_a_player_gets_a_motion_jpeg(served: tuple[Broadcast, str]) -> None:
    broadcast, address = served
    broadcast.publish(b"first", STATE)
    with urllib.request.urlopen(f"{address}stream.mjpg", timeout=SECONDS) as answer:
        assert answer.headers["Content-Type"] == "multipart/x-mixed-replace; boundary=picture"
        wanted = b"--picture\r\nContent-Type: image/jpeg\r\nContent-Length: 5\r\n\r\nfirst\r\n--picture\r\n"
        assert answer.read(len(wanted)) == wanted  # with the boundary behind it, before there is another picture
        broadcast.publish(b"second!", STATE)
        broadcast.close()
        assert answer.read() in (b"", wanted[11:].replace(b"5", b"7").replace(b"first", b"second!"))


def test_a_page_of_somebody_else_cannot_look(served: tuple[Broadcast, str]) -> None:
    """Its name may point to this machine, but it is not this machine's name."""
    served[0].publish(b"first", STATE)
    port = served[1].rsplit(":", 1)[1].strip("/")
    for host, status in (("evil.example", 403), (f"localhost:{port}", 200), (f"127.0.0.1:{port}", 200), ("[::1]", 200)):
        assert get(f"{served[1]}picture", Host=host)[0] == status


def test_the_end_comes_while_browsers_look() -> None:
    with serve("127.0.0.1", 0) as (_, address):
        port = int(address.rsplit(":", 1)[1].strip("/"))
        idle = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        idle.request("GET", "/state")
        idle.getresponse().read()  # the connection stays open
        silent = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        answers: list[Any] = []
        viewer = threading.Thread(target=lambda: answers.append(get(f"{address}picture?after=0")))
        viewer.start()
        while sum(thread.name == "openrknn-stream-viewer" for thread in threading.enumerate()) < 3:
            pass
    viewer.join(SECONDS)
    assert [answer[0] for answer in answers] == [204]
    assert silent.recv(1) == b""
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("openrknn-stream")]
    idle.close()
    silent.close()


def test_a_connection_that_is_just_being_closed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is no longer counted, and still has the socket to close."""
    closing, may_close = threading.Event(), threading.Event()
    close = TidyServer.shutdown_request

    def slowly(self: TidyServer, request: Any) -> None:
        closing.set()
        may_close.wait(SECONDS)
        close(self, request)

    monkeypatch.setattr(TidyServer, "shutdown_request", slowly)
    with serve("127.0.0.1", 0) as (_, address):
        get(f"{address}state")
        assert closing.wait(SECONDS)
        (viewer,) = [thread for thread in threading.enumerate() if thread.name == "openrknn-stream-viewer"]
        join = viewer.join

        def wait(_: float) -> None:
            may_close.set()
            join(SECONDS)

        monkeypatch.setattr(viewer, "join", wait)
    try:
        assert may_close.is_set(), "nobody waited for it"
        assert not viewer.is_alive()
    finally:
        may_close.set()
        join(SECONDS)


def test_too_many_browsers_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openrknn.vision.live.sockets._MOST_CONNECTIONS", 2)
    with serve("127.0.0.1", 0) as (_, address):
        place = ("127.0.0.1", int(address.rsplit(":", 1)[1].strip("/")))
        many = [socket.create_connection(place, timeout=SECONDS) for _ in range(3)]
        assert many[2].recv(1) == b""
        for one in many:
            one.close()


def test_a_port_that_is_taken(capsys: Capture, photos: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = run(capsys, "stream", SMALL, photos, "--port", other.getsockname()[1])
    assert result.code == 2
    assert "choose another --port" in result.err


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_folder_from_outside(photos: Path) -> None:
    with Streaming(SMALL, photos, "--port", "0", "--workers", "2") as stream:
        seen, number = [], 0
        while True:
            _, headers, body = get(f"{stream.address}picture?after={number}")
            state = json.loads(headers["X-State"])
            if body:
                number = state["picture"]
                assert body.startswith(b"\xff\xd8")
                seen.append(state)
            if state["ended"]:
                break
    assert "b.png" in stream.err
    assert "skipped" in stream.err
    assert "2 pictures" in stream.out
    assert "the page stays up until Ctrl-C" in stream.out
    last = seen[-1]
    assert (last["name"], last["device"], last["picture"]) == ("c.png", "software:rk3588", 2)
    assert last["latency_ms"] >= last["run_ms"] > 0
    assert last["age_ms"] > 0
    assert 0 <= last["npu_percent"] <= 100
    assert last["cpu_percent"] >= 0
    assert last["rows"][0]["name"].startswith("class ")


@pytest.mark.parametrize("words", [["--count", "5", "--repeat"], ["--exit"]])
def test_it_ends_by_itself(words: list[str], photos: Path, capsys: Capture) -> None:
    result = run(capsys, "stream", SMALL, photos, "--port", "0", "--json", *words)
    assert result.code == 0
    report = json.loads(result.out)
    # a b c, and again a b: the broken one counts, but is not shown.
    assert report["pictures"] == (2 if "--exit" in words else 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["PHOTO", "--port", "70000"], "not a port"),
        (["PHOTO", "--fps", "0"], "not a number of seconds"),
        (["missing.jpg"], "no such file"),
        (["opencv:0", "--repeat"], "openrknn[video]"),
        (["PHOTO", "--task", "detect"], "try the command or task 'segment'"),
        (["PHOTO", "--host", "256.256.256.256"], "--host"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: list[str], message: str, photos: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    words = [str(photos / "a.png") if word == "PHOTO" else word for word in words]
    result = run(capsys, "stream", SMALL, "--port", "0", *words)
    assert result.code == 2
    assert message in result.err
    assert messages(result.err) == 1


class Camera:
    """OpenCV's capture: two pictures, then the cable is out; a new one works again."""

    opened = 0

    def __init__(self, place: object) -> None:
        Camera.opened += 1
        self.left = 2

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def read(self) -> tuple[bool, Any]:
        self.left -= 1
        return self.left >= 0, np.full((24, 32, 3), (0, 0, 255), np.uint8)

    def release(self) -> None:
        """Nothing to give back."""


def test_a_camera_that_is_lost_is_opened_again(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(VideoCapture=Camera))
    monkeypatch.setattr(play, "_PAUSE_SECONDS", 0.0)
    Camera.opened = 0
    camera = "opencv:rtsp://camera/live"
    result = run(capsys, "stream", SMALL, camera, "--port", "0", "--repeat", "--count", "4", "--quiet")
    assert result.code == 0
    assert Camera.opened >= 2
    assert "the stream ended; check the source; opening it again" in result.err
    once = run(capsys, "stream", SMALL, "opencv:rtsp://camera/live", "--port", "0")
    assert once.code == 2
    assert "the stream ended" in once.err


def test_trouble_reaches_the_page(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """While the camera is away, the state says why."""
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(VideoCapture=Camera))
    monkeypatch.setattr(play, "_PAUSE_SECONDS", 0.0)
    told: list[str] = []
    monkeypatch.setattr(Broadcast, "trouble", lambda self, text: told.append(text))
    run(capsys, "stream", SMALL, "opencv:rtsp://camera/live", "--port", "0", "--repeat", "--count", "3")
    assert told
    assert "rtsp://camera/live" in told[0]


def test_broken_pictures_do_not_repeat_forever(photos: Path, capsys: Capture) -> None:
    result = run(capsys, "stream", SMALL, photos / "b.png", "--port", "0", "--repeat")
    assert result.code == 0
    assert "0 pictures" in result.out


# -- --show ------------------------------------------------------------------------------------------------------------


def test_pictures_of_the_other_commands_can_be_watched(
    photos: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No display is needed: it is a page. It stays when all pictures are done, until Ctrl-C."""
    seen: list[tuple[int, bytes]] = []

    def look(output: Output) -> None:
        address = next(word for word in capsys.readouterr().err.split() if word.startswith("http://"))
        status, _, body = get(f"{address}picture")
        seen.append((status, body))

    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr("openrknn.cli.pictures.run._stay", look)
    assert run(capsys, "segment", SMALL, photos / "a.png", "--show").code == 0
    assert seen[0][0] == 200
    assert seen[0][1].startswith(b"\xff\xd8")


def test_a_stream_says_when_a_picture_was_taken(photos: Path) -> None:
    with Pipeline(SMALL) as pipeline:
        results = list(pipeline.stream([photos / "a.png"]))
        assert results[0].taken > 0
        with pytest.raises(SourceError):
            list(pipeline.stream([photos / "none.png"]))


# -- with a real OpenCV ------------------------------------------------------------------------------------------------


def test_no_camera_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """A number that no camera has: neither a traceback nor OpenCV's own words, with file descriptors looked at."""
    result = run(capfd, "segment", SMALL, "97")
    assert result.code == 2
    assert result.err.splitlines()[0] == "openrknn: 97: no such camera; `ls /dev/video*` shows which there are"
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    result = run(capfd, "segment", SMALL, "opencv:97")
    assert result.err.splitlines()[0] == "openrknn: 97: the camera cannot be opened; check the number, path or address"


def test_a_network_stream_is_a_source(photos: Path, capsys: Capture) -> None:
    """Our own motion JPEG, read by another command over the network, with a pool."""
    pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")
    with Streaming(SMALL, photos / "a.png", "--repeat", "--fps", "30", "--port", "0") as stream:
        source = f"{stream.address}stream.mjpg"
        result = run(capsys, "segment", SMALL, source, "--count", "3", "--workers", "2", "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert [entry["width"] for entry in report["pictures"]] == [480] * 3  # small pictures are enlarged to be drawn on
