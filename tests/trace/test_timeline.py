"""The page of `openrknn trace timeline`."""

from __future__ import annotations

import re
from pathlib import Path

from openrknn.cli.main import main
from openrknn.trace.archive import Trace, TraceWriter
from openrknn.trace.records import BufferState, CallRecord, CloseRecord, FinishRecord, OpenRecord, SubmitRecord
from openrknn.trace.timeline import timeline_of
from tests.trace.test_trace import record

MS = 1_000_000


def small(path: Path) -> None:
    """Two cores, a buffer that a job writes, a refused question, and a name that wants to be markup."""
    with TraceWriter(path, chip="rk3588", driver="rknpu") as writer:
        before = BufferState(1, 0xFFFF_F000, 4, writer.blob(b"\0\0\0\0"))
        after = BufferState(1, 0xFFFF_F000, 4, writer.blob(b"done"))
        made = {"handle": 1, "size": 4, "dma_addr": 0xFFFF_F000}
        for event in (
            OpenRecord(1, "/dev/<script>", 42, 10 * MS),
            CallRecord(1, "MEM_CREATE", {"size": 4}, made, 0, MS, 12 * MS),
            CallRecord(1, "ACTION", {}, {}, -22, MS, 13 * MS),
            SubmitRecord(7, 1, "rknpu", {0: (0, ""), 1: (0, "")}, (before,), 14 * MS),
            FinishRecord(7, "", "", 2, 1000, 4 * MS, (after,), 20 * MS),
            CallRecord(1, "SUBMIT", {}, {}, 0, 6 * MS, 20 * MS),
            CallRecord(1, "MEM_DESTROY", {"handle": 1}, {}, 0, MS, 30 * MS),
            CloseRecord(1, 50 * MS),
        ):
            writer.add(event)


def test_lanes(tmp_path: Path) -> None:
    small(tmp_path / "a.trace")
    with Trace(tmp_path / "a.trace") as trace:
        timeline = timeline_of(trace)
    assert (timeline.start, timeline.end) == (10 * MS, 50 * MS)
    assert [lane.name for lane in timeline.cores] == ["core 0", "core 1"]
    (job,) = timeline.cores[1].spans
    assert (job.start, job.end, job.kind) == (16 * MS, 20 * MS, "job")  # it waited for two milliseconds
    assert "2.000 ms after its submit" in job.text
    (file,) = timeline.files
    assert [span.kind for span in file.spans] == ["memory", "failed", "submit", "memory"]
    (buffer,) = timeline.buffers
    assert [(span.kind, span.start, span.end) for span in buffer.spans] == [
        ("life", 12 * MS, 30 * MS),
        ("written", 16 * MS, 20 * MS),
    ]
    assert next((call.name, call.count, call.failed) for call in timeline.calls) == ("SUBMIT", 1, 0)


def test_the_page_is_one_file_and_names_stay_text(tmp_path: Path) -> None:
    small(tmp_path / "a.trace")
    assert main(["trace", "timeline", str(tmp_path / "a.trace"), "-o", str(tmp_path / "a.html")]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "/dev/&lt;script&gt;" in page
    assert page.count("<script>") == 1
    assert not re.search(r"(src|href)=", page)
    assert page.count('<i class="span-job" style') == 2  # a lane for each core
    assert 'class="verdict fair"' in page
    assert "All jobs ran; 1 of 4 ioctls returned an error" in page
    assert "NPU busy</dt><dd>10 %" in page  # 4 of 40 ms, on two cores at once
    assert 'class="span-life" style="left:5.00000%;width:45.00000%"' in page


def test_a_trace_without_times_still_makes_a_page(tmp_path: Path) -> None:
    record(tmp_path / "b.trace")
    assert main(["trace", "timeline", str(tmp_path / "b.trace")]) == 0
    assert "MEM_CREATE" in (tmp_path / "b.trace.html").read_text(encoding="utf-8")
