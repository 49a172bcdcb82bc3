"""Traces: written, read back, looked at, and run again on the software NPU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.cli.main import main
from openrknn.errors import BadTextError, FormatError, NotRknnError
from openrknn.trace.archive import Trace, TraceWriter
from openrknn.trace.records import BufferState, CallRecord, CloseRecord, FinishRecord, OpenRecord, SubmitRecord
from openrknn.trace.replay import Replayer
from openrknn.uapi import rknpu
from tests.container.places import golden
from tests.npu.loaded import Loaded, load


def states(loaded: Loaded, tasks: np.ndarray, writer: TraceWriter) -> tuple[BufferState, ...]:
    buffers = [(1, loaded.weight.address, loaded.weight.data), (2, loaded.internal.address, loaded.internal.data)]
    buffers.append((3, 0x9000_0000, tasks))
    return tuple(
        BufferState(serial, address, data.nbytes, writer.blob(data.tobytes())) for serial, address, data in buffers
    )


def record(path: Path, *, wrong: bool = False, name: str = "residual_rk3588_i8") -> Loaded:
    """A trace of one job, as the emulated device would record it; `wrong` changes one byte of the result."""
    loaded = load(golden(name))
    (tasks,) = loaded.tasks()
    raw = b"".join(
        rknpu.TASK.pack({"op_idx": task.operator, "regcfg_amount": task.amount, "regcmd_addr": task.address})
        for task in tasks
    )
    records = np.frombuffer(raw.ljust(4096, b"\0"), np.uint8)
    with TraceWriter(path, chip="rk3588") as writer:
        writer.add(OpenRecord(1, "/dev/dri/card1", 42))
        writer.add(CallRecord(1, "MEM_CREATE", {"size": 4096}, {"size": 4096, "handle": 1}, 0, 1000))
        writer.add(SubmitRecord(7, 1, "rknpu", {0: (0, raw.hex())}, states(loaded, records, writer)))
        loaded.program().run()
        if wrong:
            output = loaded.model.graphs[0].tensors[loaded.model.graphs[0].outputs[0]]
            loaded.internal.data[output.offset] ^= 1
        writer.add(FinishRecord(7, "", "", len(tasks), 1234, 5_000_000, states(loaded, records, writer)))
        writer.add(CloseRecord(1))
    return loaded


def test_what_is_written_is_read(tmp_path: Path) -> None:
    loaded = record(tmp_path / "a.trace")
    with Trace(tmp_path / "a.trace") as trace:
        assert trace.chip == "rk3588"
        kinds = [type(event).__name__ for event in trace.events]
        assert kinds == ["OpenRecord", "CallRecord", "SubmitRecord", "FinishRecord", "CloseRecord"]
        ((submit, finish),) = trace.jobs()
        assert finish is not None
        assert trace.contents(finish.buffers[1]) == loaded.internal.data.tobytes()
        assert trace.contents(submit.buffers[0]) == loaded.weight.data.tobytes()


def test_buffers_get_their_roles(tmp_path: Path) -> None:
    record(tmp_path / "a.trace")
    with Trace(tmp_path / "a.trace") as trace:
        ((submit, _),) = trace.jobs()
        job = Replayer(trace).load(submit)
    assert job.roles == {1: "weights and instructions", 2: "working memory", 3: "tasks"}


def test_a_replay_gives_the_same_bytes(tmp_path: Path) -> None:
    record(tmp_path / "a.trace")
    with Trace(tmp_path / "a.trace") as trace:
        ((submit, finish),) = trace.jobs()
        replayer = Replayer(trace)
        assert replayer.run(replayer.load(submit), finish) == []


def test_a_wrong_byte_is_found_with_its_task(tmp_path: Path) -> None:
    loaded = record(tmp_path / "a.trace", wrong=True)
    output = loaded.model.graphs[0].tensors[loaded.model.graphs[0].outputs[0]]
    with Trace(tmp_path / "a.trace") as trace:
        ((submit, finish),) = trace.jobs()
        replayer = Replayer(trace)
        (difference,) = replayer.run(replayer.load(submit), finish)
    assert difference.offset == output.offset
    assert difference.bytes_that_differ == 1
    assert difference.recorded == difference.replayed ^ 1
    assert difference.task is not None


@pytest.mark.parametrize("what", ["show", "jobs", "gems", "regs", "replay"])
def test_the_command(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a.trace")
    assert main(["trace", what, str(tmp_path / "a.trace")]) == 0
    text = capsys.readouterr().out
    expected = {
        "show": "MEM_CREATE",
        "jobs": "1,234",
        "gems": "weights and instructions",
        "regs": "CNA.CONV_CON1",
        "replay": "as recorded",
    }
    assert expected[what] in text
    assert main(["trace", what, str(tmp_path / "a.trace"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_replay_and_diff_tell_by_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a.trace")
    record(tmp_path / "b.trace", wrong=True)
    assert main(["trace", "replay", str(tmp_path / "b.trace")]) == 1
    assert re.search(r"written by task \d+ \([DP]PU.DST_BASE_ADDR, element 0\)", capsys.readouterr().out)
    assert main(["trace", "diff", str(tmp_path / "a.trace"), str(tmp_path / "b.trace")]) == 0
    assert main(["trace", "diff", str(tmp_path / "a.trace")]) == 2
    assert main(["trace", "regs", str(tmp_path / "a.trace"), "--job", "9"]) == 2


def test_damaged_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(b"not a trace")
    with pytest.raises(NotRknnError):
        Trace(path)
    assert main(["trace", "show", str(path)]) == 2
    with TraceWriter(path) as writer:
        writer._lines.append("{broken")
    with pytest.raises(BadTextError):
        Trace(path)
    with TraceWriter(path) as writer:
        writer.add(SubmitRecord(1, 1, "rknpu", {}, (BufferState(1, 0, 16, "missing"),)))
    with Trace(path) as trace:
        ((submit, _),) = trace.jobs()
        with pytest.raises(FormatError, match="missing"):
            trace.contents(submit.buffers[0])
    assert isinstance(openrknn.__version__, str)


def test_the_contents_of_buffers_can_be_saved(tmp_path: Path) -> None:
    record(tmp_path / "a.trace")
    assert main(["trace", "gems", str(tmp_path / "a.trace"), "-o", str(tmp_path / "saved")]) == 0
    with Trace(tmp_path / "a.trace") as trace:
        ((submit, _),) = trace.jobs()
        for state in submit.buffers:
            assert (tmp_path / "saved" / f"job1_buffer{state.serial}.bin").read_bytes() == trace.contents(state)
