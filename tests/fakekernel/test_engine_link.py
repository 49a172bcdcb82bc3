"""What the engine is told of memory, and when."""

from __future__ import annotations

import threading

import pytest

from openrknn.fakekernel import engine_link
from openrknn.fakekernel.engine_link import EngineLink
from openrknn.fakekernel.gem import Buffers, Space
from openrknn.fakekernel.space import AddressSpace


def test_memory_does_not_change_while_the_engine_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one program gives an address back and another one gets it, after "unmap" and before "map"."""
    buffers, space = Buffers(), Space(1, AddressSpace(0x1000, 1 << 32, highest_first=True))
    messages: list[tuple[object, ...]] = []
    changed: list[bool] = []

    def other_program() -> None:
        changed.append(buffers.lock.acquire(blocking=False))
        if changed[-1]:
            buffers.lock.release()

    def send(link: object, message: tuple[object, ...], descriptor: int | None = None) -> None:
        messages.append(message)
        thread = threading.Thread(target=other_program)
        thread.start()
        thread.join()

    monkeypatch.setattr(engine_link, "send_message", send)
    monkeypatch.setattr(EngineLink, "_start", lambda self: setattr(self, "_link", object()))
    link = EngineLink("rk3588", buffers, lambda: [space], lambda number, outcome: None, lambda: None)
    link.start()
    old = buffers.create(4096, 0, space, "old")
    buffers.keep(old)
    link.run(1, space, "rknpu", {})
    buffers.release(old)
    new = buffers.create(4096, 0, space, "new")
    buffers.keep(new)
    assert new.address == old.address
    link.run(2, space, "rknpu", {})
    names = ["map", "run", "unmap", "map", "run"]
    assert [message[0] for message in messages] == names
    assert changed == [name == "run" for name in names]
    buffers.release(new)
