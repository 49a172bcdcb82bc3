"""The registers and tables of a core between jobs, as values that can be kept, compared and put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from openrknn.npu import Machine
from openrknn.npu.machine import Core

__all__ = ["Cores", "State"]

_Groups: TypeAlias = Mapping[str, tuple[dict[int, int], dict[int, int]]]
_MOST_STATES = 128


@dataclass(frozen=True)
class State:
    """What a job left in a core."""

    values: _Groups
    pointers: Mapping[str, int]
    ping_pong: Mapping[str, bool]
    tables: bytes
    access: tuple[int, int, bool]


class Cores:
    """The cores of a machine. Equal states are one object, so that `is` compares them."""

    def __init__(self, machine: Machine) -> None:
        # The machine has no door for this yet; this file is the only one that knows its inside.
        self._cores: list[Core] = machine._cores
        self._known: list[State] = []
        self._empty = self._intern(_save(self._cores[0]))
        self._states = [self._empty for _ in self._cores]

    def state(self, core: int) -> State:
        """What the last job left, whether or not the machine was told yet."""
        return self._states[core]

    def set_state(self, core: int, state: State) -> None:
        """A job ran that leaves this state."""
        self._states[core] = state

    def load(self, core: int) -> None:
        """Tell the machine, before it decodes."""
        _restore(self._cores[core], self._states[core])

    def store(self, core: int) -> State:
        """Ask the machine, after it decoded."""
        self._states[core] = self._intern(_save(self._cores[core]))
        return self._states[core]

    def reset(self, core: int | None = None) -> None:
        """Empty registers and tables."""
        for number in range(len(self._cores)) if core is None else (core,):
            self._states[number] = self._empty

    def _intern(self, state: State) -> State:
        for known in self._known:
            if known == state:
                return known
        self._known = [*self._known[1 - _MOST_STATES :], state]
        return state


def _save(core: Core) -> State:
    groups, tables = core.groups, core.tables
    return State(
        {name: (dict(pair[0]), dict(pair[1])) for name, pair in groups._values.items()},
        dict(groups._pointer),
        dict(groups._ping_pong),
        tables.entries.tobytes(),
        (tables._table, tables._address, tables._writing),
    )


def _restore(core: Core, state: State) -> None:
    groups, tables = core.groups, core.tables
    groups._values = {name: (dict(pair[0]), dict(pair[1])) for name, pair in state.values.items()}
    groups._pointer, groups._ping_pong = dict(state.pointers), dict(state.ping_pong)
    tables.entries = np.frombuffer(state.tables, np.int64).reshape(tables.entries.shape).copy()
    tables._table, tables._address, tables._writing = state.access
