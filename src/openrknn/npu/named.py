"""Registers by name, for chips whose maps differ in places more than in meaning.

RK3562, RK3576 and RV1103/06 have the same registers at other offsets. A family that reads them by name does not need to
know where they are.
"""

from __future__ import annotations

from openrknn.isa import Block, Precision
from openrknn.npu.registers import Registers

__all__ = ["NamedRegisters"]


class NamedRegisters:
    """The registers of one block in one task."""

    def __init__(self, registers: Registers, block: Block) -> None:
        self.registers = registers
        self.block = block

    def __call__(self, register: str, field: str) -> int:
        """The natural value of a field."""
        value: int = getattr(self.registers.read(self.block.by_name[register]), field)
        return value

    def fields(self, register: str) -> dict[str, int]:
        """The natural values of all fields."""
        return self.registers.read(self.block.by_name[register]).values()

    def bits(self, register: str) -> int:
        """The register as it was written."""
        return int(self.registers.read(self.block.by_name[register]))

    def precision(self, register: str, field: str) -> Precision:
        """A field that names a number format."""
        return Precision(self(register, field))

    def waive(self, *names: str) -> None:
        """Registers that cannot change a result."""
        self.registers.waive(*(self.block.by_name[name] for name in names))

    def expect_zero(self, *names: str) -> None:
        """Registers of features that nobody was seen to use."""
        self.registers.expect_zero(*(self.block.by_name[name] for name in names))
