"""What a core keeps between jobs, as a value that can be stored, compared and put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from openrknn.isa import RegisterMap
from openrknn.npu.dpu import lut
from openrknn.npu.groups import Groups

__all__ = ["Core", "CoreState", "GroupsState"]


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


class Core:
    """One core: its register groups. Lookup tables belong to it as well, and outlive jobs."""

    def __init__(self, register_map: RegisterMap) -> None:
        self.groups = Groups(register_map)
        self.tables = lut.Tables()

    def save(self) -> CoreState:
        """A copy of everything that outlives a job."""
        return CoreState(GroupsState(*self.groups.save()), self.tables.save())

    def restore(self, state: CoreState) -> None:
        """Become what `save` saw."""
        self.groups.restore(*state.groups)
        self.tables.restore(state.tables)
