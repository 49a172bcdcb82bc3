"""The spool and its receivers: nothing is lost or doubled, whoever is down."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from openrknn.watch.errors import SinkError, WatchError
from openrknn.watch.events import Delivery, Event, Spool
from openrknn.watch.events.file_sink import FileEvents
from openrknn.watch.events.webhook import Webhook, signature


class Recorder:
    """A receiver that fails when it is told to."""

    name = "recorder"

    def __init__(self) -> None:
        self.got: list[str] = []
        self.snapshots: list[bytes | None] = []
        self.error: SinkError | None = None
        self.arrived = threading.Event()

    def deliver(self, event: Event, snapshot: bytes | None) -> None:
        if self.error is not None:
            raise self.error
        self.got.append(event.id)
        self.snapshots.append(snapshot)
        self.arrived.set()

    def close(self) -> None:
        pass


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _append(spool: Spool, count: int) -> list[str]:
    return [event.id for event in spool.append([({"kind": "enter", "camera": "yard"}, None)] * count)]


def test_numbers_only_grow_over_restarts(tmp_path: Path) -> None:
    with Spool(tmp_path, ["recorder"], keep=0) as spool:
        first = _append(spool, 3)
        for event in spool.pending("recorder"):
            spool.take("recorder", event.number)
        _append(spool, 1)  # the delivered ones are dropped now
        assert len(spool.latest()) == 1
    with Spool(tmp_path, ["recorder"], keep=0) as spool:
        later = _append(spool, 2)
        assert [event.number for event in spool.pending("recorder")] == [4, 5, 6]
    assert sorted(first + later) == first + later
    assert len({one.partition("-")[0] for one in first + later}) == 1


def test_a_receiver_that_is_down_gets_everything_later(tmp_path: Path) -> None:
    clock, sink = Clock(), Recorder()
    with Spool(tmp_path, [sink.name]) as spool:
        delivery = Delivery(sink, spool, clock=clock)
        assert delivery.step() is None
        sink.error = SinkError("down")
        ids = _append(spool, 3)
        pauses = []
        for _ in range(8):
            pauses.append(delivery.step())
            clock.now += pauses[-1] or 0
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
        assert delivery.problem == "down"
        assert spool.waiting() == {"recorder": 3}
        sink.error = None
        assert [delivery.step() for _ in range(4)] == [0, 0, 0, None]
        assert (sink.got, delivery.problem, delivery.delivered) == (ids, "", 3)


def test_what_waits_survives_the_program(tmp_path: Path) -> None:
    with Spool(tmp_path, ["recorder"]) as spool:
        ids = _append(spool, 2)
    sink = Recorder()
    with Spool(tmp_path, ["recorder"]) as spool:
        assert Delivery(sink, spool).flush()
    assert sink.got == ids


def test_an_event_that_is_refused_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = Recorder()
    with Spool(tmp_path, [sink.name]) as spool:
        delivery = Delivery(sink, spool)
        _append(spool, 1)
        sink.error = SinkError("422", is_refused=True)
        assert delivery.step() == 0
        assert (delivery.refused, spool.waiting()) == (1, {"recorder": 0})
    assert "event-refused" in caplog.text


def test_a_full_spool_gives_up_the_oldest_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Spool(tmp_path, ["recorder"], keep=5, most=10) as spool:
        ids = [_append(spool, 1)[0] for _ in range(25)]
        assert [event.id for event in spool.pending("recorder")] == ids[-10:]
        assert spool.given_up() == {"recorder": 15}
    assert sum("spool-full" in one.getMessage() for one in caplog.records) == 1


def test_a_new_receiver_begins_with_the_next_event_and_an_old_one_holds_nothing_back(tmp_path: Path) -> None:
    with Spool(tmp_path, ["old"], keep=0) as spool:
        _append(spool, 3)
    with Spool(tmp_path, ["new"], keep=0) as spool:
        assert spool.pending("new") == []
        assert _append(spool, 1) == [event.id for event in spool.pending("new")]
        assert len(spool.latest()) == 1


def test_snapshots_are_bounded(tmp_path: Path) -> None:
    with Spool(tmp_path, most_snapshots=2) as spool:
        for number in range(4):
            spool.append([({"kind": "enter"}, b"%d" % number)])
        assert [spool.snapshot(number) for number in range(1, 5)] == [None, None, b"2", b"3"]
        assert [event.body["has_snapshot"] for event in spool.latest()] == [True] * 4


def test_two_programs_cannot_share_a_spool(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        _append(spool, 1)
        with pytest.raises(WatchError, match="another program uses it"):
            Spool(tmp_path)


def test_a_spool_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    with pytest.raises(WatchError, match="cannot be opened"):
        Spool(place)


def test_the_thread_delivers_and_stops(tmp_path: Path) -> None:
    sink = Recorder()
    with Spool(tmp_path, [sink.name]) as spool:
        delivery = Delivery(sink, spool)
        delivery.start()
        ids = _append(spool, 1)
        assert sink.arrived.wait(60)
        ids += _append(spool, 5)
        assert delivery.stop()
    assert sink.got == ids


# -- the file -------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_lines_that_are_there_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events.jsonl"
    with Spool(tmp_path / "spool") as spool:
        events = spool.append([({"kind": "enter"}, None)] * 3)
    sink = FileEvents(path)
    for event in events[:2]:
        sink.deliver(event, None)
    sink.close()
    again = FileEvents(path)  # the program ended before it could say that it had written the second
    for event in events[1:]:
        again.deliver(event, None)
    again.close()
    assert _lines(path) == [event.id for event in events]


def test_half_a_line_is_repaired_and_a_moved_file_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Spool(tmp_path / "spool") as spool:
        events = spool.append([({"kind": "enter"}, b"jpeg")] * 3)
    sink = FileEvents(path, tmp_path / "snapshots")
    sink.deliver(events[0], b"jpeg")
    sink.close()
    with path.open("ab") as file:
        file.write(b'{"id": "half')
    sink.deliver(events[1], None)
    assert _lines(path) == [event.id for event in events[:2]]
    path.rename(tmp_path / "old.jsonl")
    sink.deliver(events[2], None)
    assert _lines(path) == [events[2].id]
    assert (tmp_path / "snapshots" / f"{events[0].id}.jpg").read_bytes() == b"jpeg"
    sink.close()


def test_a_folder_that_cannot_be_written_is_a_reason_to_wait(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    with pytest.raises(SinkError, match=r"events\.jsonl"):
        FileEvents(tmp_path / "events.jsonl").deliver(Event(1, "a-1", {"id": "a-1"}), None)


# -- the webhook ----------------------------------------------------------------------------------------------------


@contextmanager
def _receiver(status: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook?key=1", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


EVENT = Event(7, "abc-0000000007", {"id": "abc-0000000007", "kind": "enter"})


def test_a_webhook_is_signed_and_has_the_id() -> None:
    with _receiver(204) as (url, got):
        Webhook(url, "secret").deliver(EVENT, b"jpeg")
    headers, body = got[0]
    words: dict[str, Any] = json.loads(body)
    assert headers["X-OpenRKNN-Event"] == words["id"] == EVENT.id
    assert base64.b64decode(words["snapshot_jpeg"]) == b"jpeg"
    assert headers["X-OpenRKNN-Signature"] == signature(body, "secret")


@pytest.mark.parametrize(("status", "is_refused"), [(500, False), (404, False), (301, False), (422, True)])
def test_answers_of_a_webhook(status: int, is_refused: bool) -> None:
    with _receiver(status) as (url, _), pytest.raises(SinkError, match=str(status)) as caught:
        Webhook(url).deliver(EVENT, None)
    assert caught.value.is_refused is is_refused


def test_a_webhook_that_is_not_there_is_tried_again() -> None:
    with _receiver(204) as (url, _):
        pass
    with pytest.raises(SinkError) as caught:
        Webhook(url).deliver(EVENT, None)
    assert not caught.value.is_refused


def test_a_name_has_no_password_in_it() -> None:
    assert Webhook("https://me:secret@example.org:8443/hook?token=x").name == "webhook:https://example.org:8443/hook"
    logging.getLogger(__name__).debug("the name goes into logs and metrics")
