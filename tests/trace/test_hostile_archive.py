"""Traces of other people: nothing is inflated beyond the size that belongs to it, and damage has a name."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from openrknn.errors import FormatError, RknnError
from openrknn.trace.archive import Trace, TraceWriter
from openrknn.trace.records import BufferState

MEGABYTES = 64 << 20


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in {"trace.json": b'{"version": 1}', "events.jsonl": b"", **members}.items():
            file.writestr(name.replace("__", "/"), data)
    return path


def lying(path: Path, size: int) -> None:
    """Every file of the archive says that it has `size` bytes."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.find(mark)
        while at >= 0:
            struct.pack_into("<I", data, at + offset, min(size, struct.unpack_from("<I", data, at + offset)[0]))
            at = data.find(mark, at + 4)
    path.write_bytes(data)


@pytest.mark.parametrize("lies", [False, True])
def test_contents_are_not_inflated_beyond_their_size(tmp_path: Path, lies: bool) -> None:
    path = archive(tmp_path / "trace.zip", blobs__x=bytes(MEGABYTES))
    if lies:
        lying(path, 100)
    with Trace(path) as trace:
        tracemalloc.start()
        with pytest.raises(FormatError):
            trace.contents(BufferState(1, 0, 100, "x"))
        assert tracemalloc.get_traced_memory()[1] < MEGABYTES // 8
        tracemalloc.stop()


def test_a_head_is_not_inflated_beyond_any_sense(tmp_path: Path) -> None:
    path = archive(tmp_path / "trace.zip", **{"trace.json": b" " * MEGABYTES})
    tracemalloc.start()
    with pytest.raises(FormatError, match="at most"):
        Trace(path)
    assert tracemalloc.get_traced_memory()[1] < MEGABYTES // 8
    tracemalloc.stop()


@pytest.mark.parametrize(
    "events",
    [
        b"[]", b"7", b'"x"', b"{}", b'{"event": "nothing"}', b"[" * 100_000, b"\xff",
        b'{"event": "open", "buffers": 3}', b'{"event": "submit", "lists": 1}',
    ],
)  # fmt: skip
def test_events_that_are_none_are_named(tmp_path: Path, events: bytes) -> None:
    with pytest.raises(RknnError):
        Trace(archive(tmp_path / "trace.zip", **{"events.jsonl": events}))


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.zip"
    with TraceWriter(path, chip="rk3588") as writer:
        name = writer.blob(bytes(range(256)) * 40)
    data, rng, outcomes = path.read_bytes(), random.Random(2), set()
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        path.write_bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken))))])
        try:
            with Trace(path) as trace:
                trace.contents(BufferState(1, 0, 256 * 40, name))
            outcomes.add("read")
        except RknnError as error:
            outcomes.add(type(error).__name__)
    assert outcomes >= {"read", "FormatError", "NotRknnError"}
