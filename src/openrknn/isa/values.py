"""Natural values that are more than a plain integer, and still compare and compute like one."""

from __future__ import annotations

import struct

__all__ = ["BitPattern", "UnknownCode"]


class UnknownCode(int):
    """A code in a `Choice` field that its enumeration does not name. It encodes to itself."""

    def __repr__(self) -> str:
        return f"?{int(self)}"


class BitPattern(int):
    """Raw bits whose meaning depends on the precision that the block works in."""

    def __repr__(self) -> str:
        return f"{int(self):#x}"

    @property
    def int16(self) -> int:
        """The low 16 bits as a signed integer."""
        return (int(self) & 0xFFFF ^ 0x8000) - 0x8000

    @property
    def int32(self) -> int:
        """The bits as a signed 32-bit integer."""
        return (int(self) ^ 0x8000_0000) - 0x8000_0000

    @property
    def float16(self) -> float:
        """The low 16 bits as an IEEE half."""
        return _unpack("<e", struct.pack("<H", int(self) & 0xFFFF))

    @property
    def bfloat16(self) -> float:
        """The low 16 bits as the upper half of an IEEE single."""
        return _unpack("<f", struct.pack("<I", (int(self) & 0xFFFF) << 16))

    @property
    def float32(self) -> float:
        """The bits as an IEEE single."""
        return _unpack("<f", struct.pack("<I", int(self)))


def _unpack(layout: str, raw: bytes) -> float:
    (number,) = struct.unpack(layout, raw)
    return float(number)
