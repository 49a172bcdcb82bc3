"""Where traces diverge: what programs asked, not where they kept it."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from openrknn.errors import OutputError
from openrknn.trace.archive import Trace, TraceError, TraceWriter
from openrknn.trace.difference import first_divergence
from openrknn.trace.records import CallRecord


def written(path: Path, *calls: CallRecord) -> Path:
    with TraceWriter(path, chip="rk3588") as writer:
        for call in calls:
            writer.add(call)
    return path


def submit(pointer: int, address: int) -> CallRecord:
    values = {"jobs": pointer, "job_count": 1, "jobs[0].tasks": pointer + 64, "jobs[0].tasks[0].regcmd": address}
    return CallRecord(1, "SUBMIT", values, values, 0, 5)


def sync(kernel: int) -> CallRecord:
    return CallRecord(1, "MEM_SYNC", {"obj_addr": kernel, "flags": 1}, {}, 0, 5)


def test_pointers_do_not_count_and_what_they_point_to_does(tmp_path: Path) -> None:
    """FINDINGS 21: `trace diff` stopped at the first address in a program's memory."""
    first = written(tmp_path / "a", submit(0x7F00_0000, 0x1000), sync(0xFFFF_0001), sync(0xFFFF_0002))
    same = written(tmp_path / "b", submit(0x5500_0000, 0x1000), sync(0xFFFF_0008), sync(0xFFFF_0009))
    other = written(tmp_path / "c", submit(0x5500_0000, 0x2000))
    swapped = written(tmp_path / "d", submit(0x7F00_0000, 0x1000), sync(0xFFFF_0001), sync(0xFFFF_0001))
    shorter = written(tmp_path / "e", submit(0x7F00_0000, 0x1000))
    with Trace(first) as trace:
        for path, number in ((same, None), (other, 1), (swapped, 3), (shorter, 2)):
            with Trace(path) as second:
                found = first_divergence(trace, second)
                assert (found and found.number) == number


def test_a_full_disk_is_an_error_with_a_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`exec --trace` on a full disk ended in a traceback. Nothing stays there."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = TraceWriter(tmp_path / "a.trace")
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, old[1]))
    try:
        with pytest.raises(TraceError, match=r"a\.trace: File too large; no trace was written"):
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_a_regular_file() -> None:
    with pytest.raises(OutputError, match="/dev/full: this is a device node; give a file name"):
        TraceWriter("/dev/full")
