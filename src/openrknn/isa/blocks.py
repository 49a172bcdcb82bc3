"""`Block` and `RegisterMap`: where the registers of a chip are, and how one chip's map derives from another's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from openrknn.chips import CHIPS
from openrknn.isa.errors import DeclarationError, UnknownRegisterError
from openrknn.isa.registers import Register, offsets
from openrknn.isa.words import Command, fetch_amount
from openrknn.records import dataclass

__all__ = ["Block", "RegisterMap"]

RegisterClass = type[Register]
_PAGE_BYTES = 0x1000
"""Every block has one."""


@dataclass(frozen=True)
class Block:
    """One unit of the NPU with its registers."""

    name: str
    target: int | None
    """Code in the upper 16 bits of its commands; None for a block that no command can address."""
    base: int
    """Offset of its first register."""
    registers: tuple[RegisterClass, ...]
    enable_bit: int | None = None
    """Its bit in the enable word, None for a block that cannot be started."""
    text: str = ""
    shadowed: bool = True
    """Whether every register from `base + 8` on exists twice, once per register group."""
    by_offset: Mapping[int, RegisterClass] = field(init=False, repr=False, compare=False)
    by_name: Mapping[str, RegisterClass] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_offset = offsets(self.registers)
        by_name = {register.name: register for register in self.registers}
        if len(by_name) != len(self.registers):
            raise DeclarationError(f"{self.name} has two registers of one name")
        object.__setattr__(self, "registers", tuple(by_offset[offset] for offset in sorted(by_offset)))
        object.__setattr__(self, "by_offset", MappingProxyType(by_offset))
        object.__setattr__(self, "by_name", MappingProxyType(by_name))

    def covers(self, offset: int) -> bool:
        """Whether an offset is in the block's page, declared or not."""
        return self.base <= offset < self.base + _PAGE_BYTES

    def command(self, register: Register) -> Command:
        """The command that writes this register value."""
        if self.target is None or self.by_offset.get(register.offset) is not type(register):
            raise UnknownRegisterError(f"no command to {self.name} writes {type(register).__name__}")
        return Command(self.target, register.offset, register.value)

    def derive(
        self, *registers: RegisterClass, keep: Iterable[str] | None = None, remove: Iterable[str] = ()
    ) -> Block:
        """This block on another chip, with these registers instead of what had their offsets or their names.

        `keep` names the registers to take over unchanged (all, if not given), `remove` those to leave out.
        """
        kept = set(self.by_name if keep is None else keep)
        unknown = (kept | set(remove)) - self.by_name.keys()
        if unknown:
            raise DeclarationError(f"{self.name} has no {', '.join(sorted(unknown))}")
        kept -= {*remove, *(register.name for register in registers)}
        new_offsets = {register.offset for register in registers}
        old = (item for item in self.registers if item.name in kept and item.offset not in new_offsets)
        return replace(self, registers=(*old, *registers))


@dataclass(frozen=True)
class RegisterMap:
    """All blocks of one family of chips."""

    name: str
    """The family, as `openrknn.chips` calls it."""
    blocks: tuple[Block, ...]
    text: str = ""
    by_target: Mapping[int, Block] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        addressed = [block for block in self.blocks if block.target is not None]
        by_target = {block.target: block for block in addressed}
        if len(by_target) != len(addressed) or len({block.name for block in self.blocks}) != len(self.blocks):
            raise DeclarationError(f"{self.name} has two blocks with one target or one name")
        object.__setattr__(self, "by_target", MappingProxyType(by_target))

    @property
    def chips(self) -> tuple[str, ...]:
        """Names of the chips that have this map."""
        return tuple(sorted(name for name, chip in CHIPS.items() if chip.family == self.name))

    @property
    def words_per_fetch(self) -> int:
        """Commands in one unit of PC.REGISTER_AMOUNTS."""
        return CHIPS[self.name].words_per_fetch

    @property
    def atom_bytes(self) -> int:
        """Bytes in one unit of an `Atoms` field."""
        return CHIPS[self.name].atom_bytes

    def block(self, name: str) -> Block:
        """The block of that name."""
        for block in self.blocks:
            if block.name == name:
                return block
        known = ", ".join(block.name for block in self.blocks)
        raise UnknownRegisterError(f"{self.name} has no block {name!r}; it has {known}")

    def lookup(self, target: int, offset: int) -> tuple[Block, RegisterClass] | None:
        """The block and register that a command addresses, or None if the table has none there."""
        block = self.by_target.get(target)
        register = block.by_offset.get(offset) if block else None
        return (block, register) if block and register else None

    def find(self, path: str) -> RegisterClass:
        """The register of that name: `find("CNA.CONV_CON1")`."""
        block_name, _, name = path.partition(".")
        register = self.block(block_name).by_name.get(name)
        if register is None:
            raise UnknownRegisterError(f"{self.name} has no register {path!r}")
        return register

    def command(self, register: Register) -> Command:
        """The command that writes this register value, addressed to the block that has the register."""
        for block in self.blocks:
            if block.by_offset.get(register.offset) is type(register):
                return block.command(register)
        raise UnknownRegisterError(f"{self.name} has no register {type(register).__name__}")

    def fetch_amount(self, commands: int) -> int:
        """PC.REGISTER_AMOUNTS for a task of `commands` body commands."""
        return fetch_amount(commands, self.words_per_fetch)

    def without(self, *names: str) -> RegisterMap:
        """The map without some blocks."""
        return replace(self, blocks=tuple(block for block in self.blocks if block.name not in names))

    def derive(self, name: str, *blocks: Block, text: str) -> RegisterMap:
        """The map of another family: blocks of the same name replaced, others added."""
        new = {block.name: block for block in blocks}
        kept = [new.pop(block.name, block) for block in self.blocks]
        merged = sorted((*kept, *new.values()), key=lambda block: block.base)
        return RegisterMap(name, tuple(merged), text)
