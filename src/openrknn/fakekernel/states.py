"""The states of a machine's cores between jobs: kept, compared and put back."""

from __future__ import annotations

from openrknn.npu import CoreState, Machine

__all__ = ["Cores", "State"]

State = CoreState
_MOST_STATES = 128


class Cores:
    """The cores of a machine. Equal states are one object, so that `is` compares them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: list[State] = []
        self._empty = self._intern(machine.save(0))
        self._states = [self._empty for _ in range(machine.chip.cores)]

    def state(self, core: int) -> State:
        """What the last job left, whether or not the machine has it already."""
        return self._states[core]

    def set_state(self, core: int, state: State) -> None:
        """A job ran that leaves this state."""
        self._states[core] = state

    def load(self, core: int) -> None:
        """Tell the machine, before it decodes."""
        self._machine.restore(core, self._states[core])

    def store(self, core: int) -> State:
        """Ask the machine, after it decoded."""
        self._states[core] = self._intern(self._machine.save(core))
        return self._states[core]

    def reset(self, core: int | None = None) -> None:
        """Empty registers and tables."""
        for number in range(len(self._states)) if core is None else (core,):
            self._states[number] = self._empty

    def _intern(self, state: State) -> State:
        for known in self._known:
            if known == state:
                return known
        self._known = [*self._known[1 - _MOST_STATES :], state]
        return state
