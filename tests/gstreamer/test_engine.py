"""The engine of the GStreamer element, spoken to as the element does."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.gstreamer.buffers import Mappings, part_of
from openrknn.gstreamer.engine import Engine
from openrknn.gstreamer.wire import FIELDS, FORMATS, LARGEST_PACKET, STRUCTS, WIRE_VERSION, Kind, Operation
from openrknn.video import FrameError, PixelFormat, VideoFrame
from tests.gstreamer import fake_engine
from tests.gstreamer.models import LABELS, SIDE, write_classifier, write_detector
from tools.gstreamer_header import protocol_header

_RED = (81, 90, 240)
"""In limited range BT.601."""


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number = 0

    def send(
        self, operation: int, payload: bytes, descriptors: Sequence[int] = (), version: int = WIRE_VERSION
    ) -> None:
        self.number += 1
        head = STRUCTS["request"].pack(version, operation, self.number, len(payload), len(descriptors))
        socket.send_fds(self.connection, [head, payload], list(descriptors))

    def reply(self) -> tuple[int, bytes]:
        packet, descriptors, *_ = socket.recv_fds(self.connection, LARGEST_PACKET, 1)
        code, in_descriptor, number, size = STRUCTS["reply"].unpack_from(packet)
        assert number == self.number
        if not in_descriptor:
            assert not descriptors
            assert len(packet) - STRUCTS["reply"].size == size
            return code, packet[STRUCTS["reply"].size :]
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            data = file.read()
        assert len(data) == size
        return code, data

    def ask(self, operation: int, payload: bytes, descriptors: Sequence[int] = ()) -> tuple[int, bytes]:
        self.send(operation, payload, descriptors)
        return self.reply()

    def open(self, **options: object) -> tuple[int, str]:
        code, text = self.ask(Operation.OPEN, b"".join(f"{name}={value}\0".encode() for name, value in options.items()))
        return code, text.decode()


@pytest.fixture
def client() -> Iterator[_Client]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=Engine(there).serve)
    thread.start()
    try:
        yield _Client(here)
    finally:
        here.close()
        thread.join()
        there.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openrknn.gstreamer.engine.open_pipeline", fake_engine._Fake)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_detector(folder / "squares.rknn")
    write_classifier(folder / "colour.rknn")
    return folder


def _memory(data: bytes) -> int:
    descriptor = os.memfd_create("frame")
    os.write(descriptor, data)
    return descriptor


def _frame(form: PixelFormat, planes: Sequence[tuple[int, int, int]], regions: Sequence[tuple[int, ...]] = ()) -> bytes:
    head = STRUCTS["frame"].pack(FORMATS.index(form), SIDE, SIDE, 0, 0, len(planes), len(regions), 0)
    parts = [STRUCTS["plane"].pack(*plane) for plane in planes] + [STRUCTS["region"].pack(*one) for one in regions]
    return head + b"".join(parts)


def _nv12(*, left: int, top: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A red square of 8x8 on black, 64x64."""
    image = np.full((SIDE * 3 // 2, SIDE), 128, np.uint8)
    image[:SIDE] = 16
    image[top : top + 8, left : left + 8] = _RED[0]
    chroma = image[SIDE:].reshape(SIDE // 2, SIDE // 2, 2)
    chroma[top // 2 : top // 2 + 4, left // 2 : left // 2 + 4] = _RED[1:]
    return image


def _records(data: bytes) -> list[dict[str, Any]]:
    names = [name.removesuffix("_bytes") for _, name in FIELDS["record"]]
    found, at = [], 0
    while at < len(data):
        record: dict[str, Any] = dict(zip(names, STRUCTS["record"].unpack_from(data, at), strict=True))
        start = at + STRUCTS["record"].size
        for name in ("label", "text"):
            size = record[name]
            record[name] = data[start : start + size].decode()
            start += size
        mask = record["mask_width"] * record["mask_height"]
        start += record["keypoints"] * 12 + record["corners"] * 8
        record["mask"] = np.frombuffer(data[start : start + mask], np.uint8)
        assert record["bytes"] % 4 == 0
        at += record["bytes"]
        found.append(record)
    assert at == len(data)
    return found


def test_the_header_is_that_of_the_tables() -> None:
    path = Path(__file__).resolve().parents[2] / "native/gstreamer/protocol.h"
    assert path.read_text("utf-8") == protocol_header()


def test_boxes_of_nv12_in_a_descriptor(client: _Client, models: Path) -> None:
    assert client.open(model=models / "squares.rknn", labels=models / "squares.txt")[0] == 0
    memory = _memory(bytes(100) + _nv12(left=32, top=16).tobytes())
    payload = _frame(PixelFormat.NV12, [(100, SIDE, 0), (100 + SIDE * SIDE, SIDE, 0)])
    for _ in range(2):  # the second time the buffer is known
        code, data = client.ask(Operation.FRAME, payload, [memory])
        assert code == 0, data
        (record,) = _records(data)
        assert (record["kind"], record["region"], record["label"]) == (Kind.OBJECT, -1, LABELS[0])
        assert [record[name] for name in ("left", "top", "right", "bottom")] == [28, 12, 44, 28]
    os.close(memory)


def test_a_second_model_looks_at_regions(client: _Client, models: Path) -> None:
    assert client.open(model=models / "colour.rknn", labels=models / "colour.txt")[0] == 0
    memory = _memory(_nv12(left=32, top=16).tobytes())
    planes = [(0, SIDE, 0), (SIDE * SIDE, SIDE, 0)]
    regions = [(32, 16, 8, 8), (200, 200, 8, 8), (0, 40, 9, 100)]
    code, data = client.ask(Operation.FRAME, _frame(PixelFormat.NV12, planes, regions), [memory])
    os.close(memory)
    assert code == 0, data
    best = {record["region"]: record for record in reversed(_records(data))}
    assert sorted(best) == [0, 2]  # the second is outside of the frame
    assert best[0]["label"] == "red"
    assert best[0]["score"] > 0.9 > best[2]["score"]
    assert [best[2][name] for name in ("left", "top", "right", "bottom")] == [0, 40, 9, 64]


@pytest.mark.usefixtures("fake")
def test_results_larger_than_a_packet_are_in_a_descriptor(client: _Client) -> None:
    assert client.open(model="areas")[0] == 0
    width, height = 640, 480
    memory = _memory(bytes(width * height))
    head = STRUCTS["frame"].pack(FORMATS.index(PixelFormat.GRAY), width, height, 0, 0, 1, 0, 0)
    code, data = client.ask(Operation.FRAME, head + STRUCTS["plane"].pack(0, width, 0), [memory])
    os.close(memory)
    assert code == 0
    assert len(data) > LARGEST_PACKET
    (record,) = _records(data)
    assert record["mask"].reshape(height, width)[:, 0].tolist() == [row // 32 for row in range(height)]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("model", "field", "value"), [("pose", "keypoints", 17), ("turned", "corners", 4)])
def test_points(client: _Client, model: str, field: str, value: int) -> None:
    client.open(model=model)
    memory = _memory(bytes(SIDE * SIDE))
    code, data = client.ask(Operation.FRAME, _frame(PixelFormat.GRAY, [(0, SIDE, 0)]), [memory])
    os.close(memory)
    assert code == 0
    assert _records(data)[0][field] == value


def test_models_that_cannot_be_opened(client: _Client, models: Path, tmp_path: Path) -> None:
    code, text = client.open(model=tmp_path / "none.rknn")
    assert code == -1
    assert "none.rknn: No such file or directory" in text
    code, text = client.open(model=models / "squares.txt")
    assert code == -1
    assert "squares.txt: not a .rknn file" in text
    code, text = client.open(model=models / "squares.rknn", labels=models / "colour.txt")
    assert code == -1
    assert "3 names for 2 classes" in text
    assert "no option 'colour'" in client.open(model="x", colour="red")[1]
    assert client.open(model=models / "squares.rknn")[0] == 0  # it goes on


def _refused(client: _Client, payload: bytes, descriptors: Sequence[int], words: str) -> None:
    code, text = client.ask(Operation.FRAME, payload, descriptors)
    assert code == -1
    assert words in text.decode()


@pytest.mark.usefixtures("fake")
def test_frames_that_are_wrong(client: _Client) -> None:
    memory = _memory(bytes(SIDE * SIDE))
    whole = _frame(PixelFormat.GRAY, [(0, SIDE, 0)])
    _refused(client, whole, [memory], "a frame came before the model")
    client.open(model="box")
    _refused(client, whole[:-1], [memory], "cut short")
    _refused(client, b"", [memory], "cut short")
    _refused(client, _frame(PixelFormat.GRAY, [(0, SIDE, 1)]), [memory], "descriptor 1")
    _refused(client, _frame(PixelFormat.GRAY, [(1, SIDE, 0)]), [memory], "ends at byte 4097")
    _refused(client, _frame(PixelFormat.GRAY, [(0, SIDE - 1, 0)]), [memory], "the stride is 63")
    _refused(client, _frame(PixelFormat.NV12, [(0, SIDE, 0)]), [memory], "2 planes")
    strange = STRUCTS["frame"].pack(99, SIDE, SIDE, 0, 0, 1, 0, 0) + STRUCTS["plane"].pack(0, SIDE, 0)
    _refused(client, strange, [memory], "unknown format 99")
    assert client.ask(Operation.FRAME, whole, [memory])[0] == 0
    os.close(memory)


def test_requests_that_are_wrong(client: _Client) -> None:
    assert "no operation 77" in client.ask(77, b"")[1].decode()
    client.send(Operation.OPEN, b"", version=1)
    client.number = 0  # what it has not understood has no number
    code, text = client.reply()
    assert code == -1
    assert "built by another version" in text.decode()


def test_buffers_are_mapped_once() -> None:
    mappings = Mappings()
    memory = _memory(bytes(4096))
    again = os.dup(memory)
    assert mappings.memory(memory) is mappings.memory(again)
    other = _memory(bytes(4096))
    assert mappings.memory(memory) is not mappings.memory(other)
    for descriptor in (memory, again, other):
        os.close(descriptor)


@pytest.mark.parametrize("form", list(PixelFormat))
def test_a_part_of_a_frame(form: PixelFormat) -> None:
    numbers = np.random.default_rng(7).integers(0, 256, 40000, np.uint8)
    frame = VideoFrame.of_bytes(form, 41, 31, numbers)
    found = part_of(frame, (11, 7, 20, 100))
    assert found is not None
    part, (left, top, width, height) = found
    assert (left, top) == (11 // (2 if form.is_yuv else 1) * (2 if form.is_yuv else 1), part_top(form))
    assert (left + width, top + height) == (31, 31)
    for plane, layout in enumerate(form.planes):
        rows = frame.rows(plane)[top // layout.vertical :, left // layout.horizontal * layout.sample_bytes :]
        assert np.array_equal(part.rows(plane), rows[:, : layout.row_bytes(width)][: layout.rows(height)])
    assert part_of(frame, (41, 0, 5, 5)) is None


def part_top(form: PixelFormat) -> int:
    """Where a region that begins in row 7 begins."""
    return 6 if any(layout.vertical > 1 for layout in form.planes) else 7


def test_a_frame_outside_of_its_buffer_is_an_error() -> None:
    with pytest.raises(FrameError):
        VideoFrame.of_bytes(PixelFormat.NV12, 64, 64, np.zeros(100, np.uint8))
