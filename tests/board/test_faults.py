"""Faults that a virtual board's NPU has when it is asked to, and the trace of what it was started for."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.board import iommu, streams
from openrknn.board.npu_device import RESET_OFFSET, Register, Shared
from openrknn.chips import chip_named
from openrknn.errors import DeviceError
from openrknn.fakekernel.faults import DMA_READ_ERROR, DMA_WRITE_ERROR, Faults, parse_fault
from openrknn.trace.archive import Trace, TraceWriter
from openrknn.trace.board_recorder import BoardRecorder
from openrknn.trace.replay import Replayer
from tests.board.one_core import BANK, COMMANDS, INTERRUPT, PAGE, Board, C, one_core
from tests.cli.run import run

CHIP = chip_named("rk3588")


def shared(*faults: str) -> Shared:
    return Shared(CHIP, faults=Faults([parse_fault(text, 3) for text in faults]))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "no fault is called ''; there are missing-interrupt"),
        ("slow", "no fault is called 'slow'"),
        ("stuck:core=3", "core=3 is no number from 0 to 2"),
        ("stuck:core=x", "core=x is no number"),
        ("stuck:start=0", "start=0 is no number from 1 on"),
        ("stuck:count=some", "count=some is no number"),
        ("stuck:core", "'core' is not one of NAME=VALUE"),
        ("stuck:core=1,core=2", "each once"),
        ("stuck:address=1", "stuck has core, start, count"),
        ("dma-read-error:ends=maybe", "it is no or yes"),
        ("page-fault:address=0x100000000", "is no number from 0 to 4294967295"),
    ],
)
def test_what_describes_no_fault_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(DeviceError, match=wanted):
        parse_fault(text, 3)


def test_the_command_names_a_wrong_fault(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "board", "run", "--fault", "stuck:core=2", "--cores", "2", "--", "x")
    assert done.code
    assert "core=2 is no number from 0 to 1" in done.err


def test_starts_are_counted_by_core_or_altogether() -> None:
    texts = ("stuck:core=1,start=2", "unplugged:start=5,count=all")
    faults = Faults([parse_fault(text, 3) for text in texts])
    met = [faults.next(core) for core in (0, 1, 0, 1, 2, 1)]
    assert [None if fault is None else str(fault.kind) for fault in met] == [None] * 3 + ["stuck"] + ["unplugged"] * 2
    assert faults.not_met() == []
    assert Faults([parse_fault("stuck:core=2", 3)]).not_met() == ["stuck:core=2,start=1,count=1"]


def started(board: Board) -> tuple[bool, int, bool]:
    """Interrupted, the raw status, and whether the product is there."""
    board.set_up_paging()
    wanted = board.load()
    board.start()
    status = board.client.read(Register.INTERRUPT_RAW_STATUS)
    return board.has_interrupt(), status, board.peek(board.page_of(C // PAGE), len(wanted)) == wanted


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ("stuck", (False, 0, False)),
        ("missing-interrupt", (False, 0, True)),
        ("dma-read-error", (False, DMA_READ_ERROR, False)),
        ("dma-write-error", (False, DMA_WRITE_ERROR, False)),
        ("dma-write-error:ends=yes", (True, DMA_WRITE_ERROR | INTERRUPT & 0x100, False)),
        ("unplugged", (False, 0xFFFF_FFFF, False)),
        ("stuck:core=1", (True, INTERRUPT & 0x100, True)),
        ("stuck:start=2", (True, INTERRUPT & 0x100, True)),
    ],
)
def test_a_start_with_a_fault(fault: str, wanted: tuple[bool, int, bool]) -> None:
    with one_core(shared(fault)) as board:
        assert started(board) == wanted


def test_the_start_after_a_fault_is_right() -> None:
    with one_core(shared("stuck")) as board:
        assert started(board) == (False, 0, False)
        board.client.write(RESET_OFFSET, 3)
        board.client.write(RESET_OFFSET, 0)
        assert started(board) == (True, INTERRUPT & 0x100, True)


def test_a_core_that_is_gone_stays_gone() -> None:
    with one_core(shared("unplugged")) as board:
        started(board)
        board.client.write(RESET_OFFSET, 3)
        board.client.write(Register.INTERRUPT_MASK, 7)
        assert board.client.read(Register.INTERRUPT_MASK) == 0xFFFF_FFFF
        assert board.client.read(BANK + iommu.Register.STATUS) == 0xFFFF_FFFF
        assert started(board) == (False, 0xFFFF_FFFF, False)


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_page_fault_that_is_asked_for(access: str) -> None:
    with one_core(shared(f"page-fault:address=0x123000,access={access}")) as board:
        assert started(board) == (True, 0, False)
        assert board.client.read(BANK + iommu.Register.PAGE_FAULT_ADDR) == 0x123000
        is_write = board.client.read(BANK + iommu.Register.STATUS) & iommu.Status.PAGE_FAULT_IS_WRITE
        assert bool(is_write) == (access == "write")


def test_a_write_to_a_page_that_is_not_there_is_a_write_fault() -> None:
    with one_core(Shared(CHIP)) as board:
        board.set_up_paging()
        board.load()
        body = streams.product_body(0, PAGE, 16 * PAGE) + streams.tail(streams.PRODUCT_MASK)
        board.poke(board.page_of(COMMANDS // PAGE), streams.to_bytes(body))
        board.start()
        assert board.client.read(BANK + iommu.Register.PAGE_FAULT_ADDR) == 16 * PAGE
        assert board.client.read(BANK + iommu.Register.STATUS) & iommu.Status.PAGE_FAULT_IS_WRITE


def test_starts_are_recorded(tmp_path: Path) -> None:
    """With what `openrknn trace` needs to run them again."""
    path = tmp_path / "run.trace"
    with TraceWriter(path, chip="rk3588", driver="rocket") as writer:
        recorder = BoardRecorder(writer)
        both = Shared(
            CHIP, faults=Faults([parse_fault("stuck:start=2", 3)]), on_start=recorder.started, on_end=recorder.ended
        )
        with one_core(both) as board:
            for _ in range(2):
                started(board)
    with Trace(path) as trace:
        (first, done), (_, failed) = trace.jobs()
        assert done is not None
        assert failed is not None
        assert (done.tasks, done.problem, failed.problem) == (1, "", "stuck")
        replayer = Replayer(trace)
        assert replayer.run(replayer.load(first), done) == []
