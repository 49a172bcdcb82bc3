"""Parts of the decoder that are known from an earlier task: the same results, and the same registers count as read."""

from __future__ import annotations

import pytest

from openrknn.chip.rk3588 import cna, dpu, dpu_stages
from openrknn.chip.rk3588.decode_dpu import configure_out
from openrknn.chip.task_registers import Known, Registers
from openrknn.chips import chip_named
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import map_for
from openrknn.isa.ignored import Kind
from openrknn.npu.memory import Memory

CHIP = chip_named("rk3588")
MAP = map_for("rk3588")
FIRST, SECOND, THIRD = cna.DmaCon1, cna.DmaCon2, cna.CvtCon0


class Part:
    """Reads a second register where the first is not 0, and waives a third; counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, registers: Registers, extra: int) -> tuple[int, ...]:
        self.calls += 1
        registers.waive(THIRD)
        first = int(registers.read(FIRST))
        return (extra, first, int(registers.read(SECOND))) if first else (extra, first)


def of(known: Known, **values: int) -> Registers:
    named = {"first": FIRST, "second": SECOND, "third": THIRD}
    return Registers({named[name].offset: value for name, value in values.items()}, CHIP, MAP, known=known)


ALL = [FIRST.offset, SECOND.offset, THIRD.offset]


def test_a_part_is_decoded_once_for_the_values_that_it_read() -> None:
    known, part = Known(), Part()
    tasks = [
        ({"first": 0, "second": 5}, (1, 0), 1), ({"first": 0, "second": 9, "third": 7}, (1, 0), 1),
        ({"first": 3, "second": 5}, (1, 3, 5), 2), ({"first": 3, "second": 6}, (1, 3, 6), 3),
        ({"first": 3, "second": 5}, (1, 3, 5), 3), ({"first": 0}, (1, 0), 3), ({}, (1, 0), 4),
    ]  # fmt: skip
    for values, expected, calls in tasks:
        registers = of(known, **values)
        assert registers.part(part, 1) == expected
        assert part.calls == calls
        assert registers.unread(ALL) == ([] if expected[1] else [SECOND.offset])
    assert of(known).part(part, 2) == (2, 0)


def test_parts_within_parts_decide_together() -> None:
    known, inner = Known(), Part()

    def outer(registers: Registers) -> tuple[int, ...]:
        return registers.part(inner, 1)

    assert of(known, first=0).part(outer) == (1, 0)
    assert of(known, first=4, second=2).part(outer) == (1, 4, 2)
    assert of(known, first=4, second=3).part(outer) == (1, 4, 3)
    registers = of(known, first=4, second=2)
    assert registers.part(outer) == (1, 4, 2)
    assert not registers.unread(ALL)


def test_a_register_that_was_never_written_is_another_value() -> None:
    known = Known()

    def is_written(registers: Registers) -> bool:
        return registers.is_written(FIRST)

    assert not of(known).part(is_written)
    assert of(known, first=FIRST.reset).part(is_written)


def test_what_is_refused_or_tolerated_or_in_memory_is_decoded_each_time() -> None:
    known = Known()
    noted: list[str] = []
    calls: list[object] = []

    def refusing(registers: Registers) -> None:
        raise UnknownModeError("never", register=str(registers.read(FIRST)))

    def tolerating(registers: Registers) -> None:
        registers.tolerate(UnknownModeError("never written", register="FIRST"), Kind.UNWRITTEN, "CNA.FIRST")

    def fetching(registers: Registers) -> None:
        calls.append(registers.memory)

    def outer(registers: Registers) -> None:
        calls.append(registers)
        registers.part(tolerating)

    def note(error: ExecutionError, kind: Kind, place: str) -> None:
        noted.append(place)

    for _ in range(2):
        registers = Registers({}, CHIP, MAP, known=known, memory=Memory(), tolerate=note)
        with pytest.raises(UnknownModeError, match="never"):
            registers.part(refusing)
        registers.part(outer)
        registers.part(fetching)
    assert len(noted) == 2
    assert len(calls) == 4


def test_real_parts_share_their_results() -> None:
    """Two tasks with the same output converter have one configuration of it."""
    known, values = Known(), {dpu_stages.OutCvtScale.offset: 77, dpu.DataFormat.offset: 0}
    first, second = (Registers(values, CHIP, MAP, known=known).part(configure_out) for _ in range(2))
    assert first is second
    other = Registers({**values, dpu_stages.OutCvtScale.offset: 78}, CHIP, MAP, known=known).part(configure_out)
    assert (first.scale, other.scale) == (77, 78)
