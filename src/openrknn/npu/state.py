"""What a core keeps between jobs, as a value that can be stored, compared and put back.

Every register exists twice. A block works from one group while the stream fills the other. An enable word starts the
group under the pointer and, with ping-pong on, moves the pointer of each block that it enables. Groups keep their
contents, and streams rely on it: from the third task of an operator on they hold only what differs from two tasks back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from openrknn.isa import Block, RegisterMap
from openrknn.isa.common import SPointer
from openrknn.npu.blocks.dpu import lut
from openrknn.records import dataclass


class GroupsState(NamedTuple):
    """Registers of both groups by block and offset, and which group is written next."""

    values: Mapping[str, tuple[Mapping[int, int], Mapping[int, int]]]
    pointers: Mapping[str, int]
    ping_pong: Mapping[str, bool]


@dataclass(frozen=True)
class CoreState:
    """Registers and tables of one core."""

    groups: GroupsState
    tables: lut.TablesState

    def to_text(self) -> str:
        """Equal states have equal texts."""
        groups, tables = self.groups, self.tables
        values = {name: [sorted(group.items()) for group in both] for name, both in sorted(groups.values.items())}
        rest = (sorted(groups.pointers.items()), sorted(groups.ping_pong.items()))
        texts = (tables.entries.hex(), tables.written.hex())
        return json.dumps([values, *rest, *texts, tables.table, tables.address, tables.writing])

    @classmethod
    def from_text(cls, text: str) -> CoreState:
        """What `to_text` wrote."""
        values, pointers, ping_pong, entries, written, table, address, writing = json.loads(text)
        groups = GroupsState(
            {name: (dict(first), dict(second)) for name, (first, second) in values.items()},
            dict(pointers), dict(ping_pong),
        )  # fmt: skip
        return cls(groups, lut.TablesState(bytes.fromhex(entries), bytes.fromhex(written), table, address, writing))


class Groups:
    """The register contents of one core."""

    def __init__(self, register_map: RegisterMap) -> None:
        self._blocks = [block for block in register_map.blocks if block.enable_bit is not None]
        self._values: dict[str, tuple[dict[int, int], dict[int, int]]] = {
            block.name: ({}, {}) for block in self._blocks
        }
        self._pointer = {block.name: 0 for block in self._blocks}
        # The driver switches CNA and CORE to ping-pong before a job; other blocks hear it from the stream.
        self._ping_pong = {block.name: True for block in self._blocks}

    def write(self, block: Block, offset: int, value: int) -> None:
        """Write into the group under the block's pointer."""
        self.bank(block.name)[offset] = value

    def bank(self, block: str) -> dict[int, int]:
        """The group under a block's pointer."""
        return self._values[block][self._pointer[block]]

    def set_pointer(self, block: Block, value: SPointer) -> None:
        """A write to S_POINTER."""
        self._ping_pong[block.name] = value.pointer_pp_en
        if value.pointer_pp_clear:
            self._pointer[block.name] = 0
        elif not value.pointer_pp_en:
            self._pointer[block.name] = int(value.pointer)

    def enabled(self, mask: int) -> list[Block]:
        """The blocks that an enable word starts."""
        return [block for block in self._blocks if block.enable_bit is not None and mask >> block.enable_bit & 1]

    def current(self, blocks: Iterable[Block]) -> dict[int, int]:
        """The values that these blocks work with."""
        merged: dict[int, int] = {}
        for block in blocks:
            merged |= self._values[block.name][self._pointer[block.name]]
        return merged

    def flip(self, blocks: Iterable[Block]) -> None:
        """After the start: the next writes go to the other group."""
        for block in blocks:
            if self._ping_pong[block.name]:
                self._pointer[block.name] ^= 1

    def save(self) -> GroupsState:
        """Copies of the values of both groups, the pointers, and whether they move by themselves."""
        values = {name: (dict(first), dict(second)) for name, (first, second) in self._values.items()}
        return GroupsState(values, dict(self._pointer), dict(self._ping_pong))

    def restore(self, state: GroupsState) -> None:
        """Become what `save` saw."""
        self._values = {name: (dict(first), dict(second)) for name, (first, second) in state.values.items()}
        self._pointer, self._ping_pong = dict(state.pointers), dict(state.ping_pong)


class Core:
    """One core: its register groups. Lookup tables belong to it as well, and outlive jobs."""

    def __init__(self, register_map: RegisterMap) -> None:
        self.groups = Groups(register_map)
        self.tables = lut.Tables()

    def save(self) -> CoreState:
        """A copy of everything that outlives a job."""
        return CoreState(self.groups.save(), self.tables.save())

    def restore(self, state: CoreState) -> None:
        """Become what `save` saw."""
        self.groups.restore(state.groups)
        self.tables.restore(state.tables)
