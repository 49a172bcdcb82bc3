"""Names for buffers and tensors, and the example of the tutorial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openrknn import isa
from openrknn.cli.main import main
from openrknn.container.load import load
from openrknn.trace.archive import Trace
from openrknn.trace.names import Names, names_from_log, names_from_model
from openrknn.trace.records import CallRecord
from openrknn.trace.replay import LoadedJob, Replayer, task_references
from tests.trace.example import FOLDER, MODEL, record
from tests.witness.witness import Witness

TRACE, LOG = FOLDER / "tiny.trace", FOLDER / "tiny.log"
OLD_LOG = (
    "RKNN    : allocated memory, virt addr: 0x70d7c69000, dma addr: 0xffdac000, obj addr: 0xffffff812d9e6400, "
    "size: 12736, aligned size: 16384, fd: 10, handle: 1, flags: 0x3, gem name: 1\n"
    "RKNN    : 1   Conv lin1.weight FLOAT16   (12,1,1,1)   | 0xffdac000 0xffdac0c0 0x000000c0\n"
)
"""As a runtime of 2023 wrote it."""


def loaded(trace: Trace) -> LoadedJob:
    ((submit, _),) = trace.jobs()
    return Replayer(trace).load(submit)


def test_the_model_and_the_vendors_log_say_the_same() -> None:
    """Two witnesses: relocations that we read from memory, and what the runtime says of itself."""
    with Trace(TRACE) as trace:
        ours, theirs = names_from_model(load(MODEL), loaded(trace)), names_from_log(LOG.read_text())
    wanted = {"x": 0xFFFF6000, "y": 0xFFFF0000, "r1": 0xFFFD1800, "r2": 0xFFFD9800, "w1": 0xFFFF8000, "b2": 0xFFFF8D40}
    for name, address in wanted.items():
        assert ours.at(address) == theirs.at(address) == name


def test_names_of_an_older_runtime() -> None:
    names = names_from_log(OLD_LOG)
    assert names.at(0xFFDAC000) == "lin1.weight"
    assert names.at(0xFFDAC100) == "gem 1"
    assert names.inside(0xFFDAC000, 16384) == ["gem 1", "lin1.weight"]
    assert names.at(0x1000) == ""


def test_text_that_is_no_log_names_nothing() -> None:
    assert names_from_log("| 0xzz\nallocated memory, name: " + "x" * 10_000 + "\n" * 3).ranges == []
    assert Names().at(0) == ""


def test_a_model_that_did_not_run_names_nothing() -> None:
    other = load(FOLDER.parents[1] / "tests" / "goldens" / "residual_rk3588_i8.rknn")
    with Trace(TRACE) as trace:
        assert names_from_model(other, loaded(trace)).ranges == []


def test_every_instruction_of_the_example_is_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    """Back to the same bits: nothing of a word is left out of the text."""
    registers = isa.map_for("rk3588")
    with Trace(TRACE) as trace:
        job = loaded(trace)
        words = [
            word
            for task in task_references(job.submit, 0)
            for word in job.memory.view(task.address, (task.amount + 4) * 8, "commands").view("<u8").tolist()
        ]
    assert main(["trace", "regs", str(TRACE)]) == 0
    text = "".join(line for line in capsys.readouterr().out.splitlines(keepends=True) if not line.startswith("#"))
    assert len(words) == 290
    assert isa.assemble(isa.parse_text(text, registers)) == words


def test_tasks_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "tasks", str(TRACE), "--log", str(LOG), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tasks"]
    assert [(row["kind"], row["writes"]) for row in rows] == [
        ("convolution", ["0xfffd1800 working memory: r1"]),
        ("convolution", ["0xfffd9800 working memory: r2"]),
        ("pooling", ["0xffff0000 output: y"]),
    ]


@pytest.mark.witness
def test_the_vendors_runtime_still_does_what_the_example_shows(witness: Witness, tmp_path: Path) -> None:
    record(tmp_path / "again.trace", witness)
    with Trace(tmp_path / "again.trace") as again, Trace(TRACE) as stored:
        for ours, theirs in zip(again.jobs(), stored.jobs(), strict=True):
            for before, after in zip(ours, theirs, strict=True):
                assert before is not None
                assert after is not None
                assert [(state.address, state.blob) for state in before.buffers] == [
                    (state.address, state.blob) for state in after.buffers
                ]
        calls = [[event.name for event in trace.events if isinstance(event, CallRecord)] for trace in (again, stored)]
        assert calls[0] == calls[1]
