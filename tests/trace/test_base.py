"""Jobs whose addresses count from a base (PC.TASK_DMA_BASE_ADDR), recorded on the emulated device and looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openrknn.cli.main import main
from openrknn.fakekernel.device import Device
from openrknn.trace.archive import Trace, TraceWriter
from openrknn.trace.recorder import Recorder
from openrknn.trace.records import SubmitRecord
from openrknn.trace.replay import Replayer
from tests.fakekernel.board import product
from tests.fakekernel.client import Client


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """A trace of one product with a base and of one without; the base, and where the first one's result is."""
    path = tmp_path_factory.mktemp("traces") / "base.trace"
    with (
        TraceWriter(path, chip="rk3588") as writer,
        Device("rk3588", hook=Recorder(writer)) as device,
        Client(device.folder) as client,
    ):
        npu = client.open("/dev/dri/card1")
        first, second = product(npu), product(npu, 1)
        base = first.count_from_base()
        first.submit(task_base_addr=base)
        second.submit()
        assert (first.result, second.result) == (first.wanted, second.wanted)
        return path, base, first.c.address


def test_a_replay_adds_the_base(recorded: tuple[Path, int, int]) -> None:
    path, base, result = recorded
    with Trace(path) as trace:
        replayer, jobs = Replayer(trace), list(trace.jobs())
        assert [submit.base for submit, _ in jobs] == [base, 0]
        for submit, finish in jobs:
            job = replayer.load(submit)
            assert sorted(job.roles.values()).count("output") == 1
            assert replayer.run(job, finish) == []
        outputs = [state.address for state in jobs[0][0].buffers if _is_output(replayer, jobs[0][0], state.serial)]
        assert outputs == [result]


def _is_output(replayer: Replayer, submit: SubmitRecord, serial: int) -> bool:
    return replayer.load(submit).roles[serial] == "output"


def test_places_are_shown_as_the_device_has_them(
    recorded: tuple[Path, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _, result = recorded
    assert main(["trace", "tasks", str(path), "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert tasks[0]["writes"] == [f"{result:#x} output"]
    assert main(["trace", "replay", str(path)]) == 0
