"""From descriptors to tasks: what the PC holds after the last word that it fetches, wherever in the stream that stands.

The vendor's streams end with the four words. The programs of allbilly/rk3588 (elementwise, silu, where) count these
four among the commands, so that the PC fetches four more, and run on an Orange Pi 5.
"""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.board.streams import tail
from openrknn.chips import chip_named
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.tasks import DPU_DONE, PPU_DONE, Chain, read_chain
from openrknn.npu import Buffer
from openrknn.uapi import rknpu

CODE, SECOND = 0x1000_0000, 0x1000_0100
BODY = [0x1001_0000_0000_4030] * 6
CHIP = chip_named("rk3588")


def chain(streams: dict[int, list[int]], amounts: list[int]) -> Chain:
    memory = SharedMemory()
    code = memory.add(Buffer(CODE, np.zeros(4096, np.uint8), "code"))
    for address, words in streams.items():
        code.data[address - CODE :][: 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
    addresses = sorted(streams)
    raw = b"".join(
        rknpu.TASK.pack({"regcmd_addr": address, "regcfg_amount": amount})
        for address, amount in zip(addresses, amounts, strict=True)
    )
    return read_chain(memory, CHIP, "rknpu", 0, raw)


@pytest.mark.parametrize("counted", [0, 4], ids=["vendor", "counted among the commands"])
def test_the_link_is_found_wherever_it_stands(counted: int) -> None:
    first = [*BODY, *tail(0x18, SECOND, 6)]
    found = chain({CODE: first, SECOND: [*BODY, *tail(0x18)]}, [len(BODY) + counted, len(BODY) + counted])
    assert [task.address for task in found.tasks] == [CODE, SECOND]
    assert found.status == DPU_DONE << 1
    assert not found.stuck


def test_an_enable_word_inside_the_commands_reports_as_well() -> None:
    """silu: one task without the closing words, only an enable word as its last command."""
    enable = tail(0x60)[-1]
    found = chain({CODE: [*BODY, enable]}, [len(BODY) + 1])
    assert found.status == PPU_DONE


def test_the_last_word_for_the_pc_counts() -> None:
    words = [*tail(0x18, CODE, 1), *BODY, *tail(0x60, SECOND, 6)]
    found = chain({CODE: words, SECOND: [*BODY, *tail(0x18)]}, [len(words) - 4, len(BODY)])
    assert found.tasks[1].address == SECOND
    assert found.status == DPU_DONE << 1


def test_a_task_that_leads_nowhere_is_stuck() -> None:
    found = chain({CODE: [*BODY, *tail(0x18)], SECOND: [*BODY, *tail(0x18)]}, [len(BODY), len(BODY)])
    assert "task 0" in found.stuck
    assert found.status == 0
