"""The garbage collector waits while models are opened, and is then as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn import Session, collecting
from openrknn.npu.native.reading import Way

GOLDENS = Path(__file__).parent / "goldens"


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    was_on, thresholds, frozen = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.set_threshold(*thresholds)
    if frozen:  # conftest.py does that
        gc.freeze()
    (gc.enable if was_on else gc.disable)()


def test_a_pause_ends_with_its_block() -> None:
    gc.enable()
    with collecting.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_pause() -> None:
    gc.enable()
    with pytest.raises(ZeroDivisionError), collecting.paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collecting.paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    gc.enable()
    with collecting.paused():
        with collecting.paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_last_of_several_threads_ends_the_pause() -> None:
    gc.enable()
    is_in, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with collecting.paused():
            is_in.set()
            may_leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    is_in.wait()
    with collecting.paused():
        pass
    still_off = not gc.isenabled()
    may_leave.set()
    thread.join()
    assert still_off
    assert gc.isenabled()


def test_garbage_of_many_pauses_is_collected() -> None:
    """Python counts what is made meanwhile: a process that goes on opening models frees the cycles of those before."""
    gc.enable()
    gone: list[int] = []

    class Node:
        def __del__(self) -> None:
            gone.append(1)

    for _ in range(200):
        with collecting.paused():
            nodes: list[Any] = [Node() for _ in range(50)]
            for node in nodes:
                node.itself = node
        del nodes, node
    assert len(gone) > 5_000


def test_frozen_objects_stay_frozen() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collecting.paused():
            pass
        assert gc.get_freeze_count() >= count - 100  # those that were freed one by one are no longer there
    finally:
        gc.unfreeze()


def test_opening_and_decoding_collect_nothing_and_leave_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    model = sorted(GOLDENS.rglob("*.rknn"))[0].read_bytes()
    gc.collect()
    gc.enable()
    before = {id(one) for one in gc.get_objects() if isinstance(one, Way)}
    during: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if not gc.isenabled():
            during.append(phase)

    gc.callbacks.append(note)
    gc.set_threshold(10, 2, 2)
    try:
        with Session(model, "software") as session:
            session.run([np.zeros(one.shape, one.dtype) for one in session.inputs])
            gc.disable()
            assert not [one for one in gc.get_objects() if isinstance(one, Way) and id(one) not in before]
    finally:
        gc.callbacks.remove(note)
    assert not during
