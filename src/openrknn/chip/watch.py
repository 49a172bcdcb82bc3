"""Observer hooks for decoding: what a machine does with registers, seen from outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from openrknn.chip.limits import Banks
from openrknn.errors import RknnError, UndeclaredBitsError, UnreadRegisterError
from openrknn.isa import Register
from openrknn.npu.task import TaskRef
from openrknn.task import cna

__all__ = ["Lenient", "Watcher"]

R = TypeVar("R", bound=Register)


class Watcher:
    """Hears of everything while tasks are decoded. This one does nothing; subclasses override what they need."""

    def wrote(self, register: type[Register]) -> None:
        """The stream writes a register."""

    def read(self, value: R) -> R:
        """A block reads a register, and gets what this returns."""
        return value

    def waived(self, offsets: Iterable[int]) -> None:
        """A block declares that these registers cannot change a result."""

    def expects_zero(self, offsets: Iterable[int]) -> None:
        """A block refuses these registers unless they are 0."""

    def fetched(self, source: cna.Config, banks: Banks, task: TaskRef) -> None:
        """A convolution shares out the buffer like this."""

    def failed(self, error: RknnError, task: TaskRef) -> bool:
        """The task breaks a rule. True: noted, go on; False: the machine raises or collects it as usual."""
        return False


class Lenient(Watcher):
    """Ignores unknown registers and bits: for those who want sizes, not results."""

    def __init__(self) -> None:
        self.passed: list[str] = []

    def failed(self, error: RknnError, task: TaskRef) -> bool:
        is_passed = isinstance(error, UndeclaredBitsError | UnreadRegisterError)
        if is_passed:
            self.passed.append(str(error))
        return is_passed
