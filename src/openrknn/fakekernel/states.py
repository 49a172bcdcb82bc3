"""The states of a board's cores between jobs: kept, compared and put back.

Registers and tables belong to a core, whatever address space its jobs run in: what a job of one program left, a job of
another finds. So all machines of a board (one for each address space) share their states.
"""

from __future__ import annotations

import threading

from openrknn.npu import CoreState, Machine

__all__ = ["CoreStates", "Cores", "State"]

State = CoreState
_MOST_STATES = 128


class CoreStates:
    """What is in the cores of one board. Equal states are one object, so that `is` compares them."""

    def __init__(self) -> None:
        self._known: list[State] = []
        self._states: dict[int, State] = {}
        self._lock = threading.Lock()

    def one_of(self, state: State) -> State:
        """The object that stands for all states that equal this one."""
        with self._lock:
            for known in self._known:
                if known == state:
                    return known
            self._known = [*self._known[1 - _MOST_STATES :], state]
            return state

    def at(self, core: int) -> State | None:
        """None: as after a reset."""
        return self._states.get(core)

    def put(self, core: int, state: State) -> None:
        """A job ran that leaves this state."""
        self._states[core] = state

    def reset(self, core: int | None = None) -> None:
        """Empty registers and tables, of one core or of all."""
        if core is None:
            self._states.clear()
        else:
            self._states.pop(core, None)


class Cores:
    """The cores as one machine sees them."""

    def __init__(self, machine: Machine, states: CoreStates) -> None:
        self._machine = machine
        self._states = states
        self._empty = states.one_of(machine.save(0))

    def state(self, core: int) -> State:
        """What the last job left, whether or not the machine has it already."""
        return self._states.at(core) or self._empty

    def set_state(self, core: int, state: State) -> None:
        """A job ran that leaves this state."""
        self._states.put(core, state)

    def load(self, core: int) -> None:
        """Tell the machine, before it decodes."""
        self._machine.restore(core, self.state(core))

    def store(self, core: int) -> State:
        """Ask the machine, after it decoded."""
        state = self._states.one_of(self._machine.save(core))
        self._states.put(core, state)
        return state

    def reset(self, core: int | None = None) -> None:
        """Empty registers and tables."""
        self._states.reset(core)
