"""What the registers of CNA's decompressor say together, on each kind of chip that has one.

Compressed weights come in lanes, streams of a header and a payload (`openrknn.layout.compression`). DCOMP_AMOUNT has
the size of each lane, DCOMP_REGNUM that of its header. A lane begins where the one before ends, rounded up to 64 bytes;
RK3566 has an address for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from openrknn.isa.blocks import Block
from openrknn.isa.enums import Precision
from openrknn.task.cna import Stream

__all__ = ["DECOMPRESSORS", "Decompressor", "numbered"]


class Decompressor(NamedTuple):
    """How its registers count."""

    unit_bytes: int
    header_bits: int
    controls: Mapping[Precision, int]
    """DCOMP_CTRL by number format of the weights."""
    alignment: int = 64
    has_addresses: bool = False
    """Each lane has an address of its own."""

    def streams(self, headers: int, amounts: Sequence[int], addresses: Sequence[int]) -> tuple[Stream, ...]:
        """The lanes, from DCOMP_REGNUM, DCOMP_AMOUNT0 ... and DCOMP_ADDR0 ..., of which there may be one."""
        found: list[Stream] = []
        at = addresses[0]
        for number, amount in enumerate(amounts):
            if number < len(addresses):
                at = addresses[number]
            header = headers >> number * self.header_bits & ((1 << self.header_bits) - 1)
            found.append(Stream(at, header * self.unit_bytes, (amount + 1) * self.unit_bytes))
            at += -(-found[-1].size // self.alignment) * self.alignment
        return tuple(found)


DECOMPRESSORS: Mapping[int, Decompressor] = MappingProxyType(
    {
        16: Decompressor(16, 2, {Precision.INT8: 1}),
        8: Decompressor(8, 3, {Precision.INT8: 1, Precision.FP16: 5}, has_addresses=True),
        2: Decompressor(16, 2, {Precision.INT8: 5, Precision.INT16: 5, Precision.FP16: 5}),
    }
)
"""By number of lanes, which is the number of DCOMP_AMOUNT registers."""


_NUMBERED: dict[tuple[int, str], tuple[Block, list[str]]] = {}
"""What `numbered` found, by identity of the block: each task asks."""


def numbered(block: Block, name: str) -> list[str]:
    """The registers of a block that are called `name` and a number, by number."""
    known = _NUMBERED.get((id(block), name))
    if known is None:
        numbers = [found[len(name) :] for found in block.by_name if found.startswith(name)]
        names = [f"{name}{number}" for number in sorted(int(number) for number in numbers if number.isdigit())]
        known = _NUMBERED[id(block), name] = block, names
    return known[1]
