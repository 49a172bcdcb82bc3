"""The configuration space of a PCI device with one memory BAR and one interrupt line.

The client moves BARs and enables the device by itself (it emulates those bits); what it reads here is who the device
is, what kind its BAR is of, and that it uses interrupt line A.
"""

from __future__ import annotations

__all__ = ["CONFIG_SIZE", "ConfigSpace"]

CONFIG_SIZE = 256
_VENDOR, _DEVICE = 0x1D87, 0x3588
"""Rockchip's number. No PCI driver claims the device: the guest's device tree describes what is in its BAR."""
_CLASS = 0x12_00_00
"""A processing accelerator."""
_COMMAND, _BAR, _INTERRUPT_LINE, _INTERRUPT_PIN = 0x04, 0x10, 0x3C, 0x3D
_WRITABLE = {*range(_COMMAND, _COMMAND + 2), *range(_BAR, _BAR + 4), _INTERRUPT_LINE}


class ConfigSpace:
    """256 bytes."""

    def __init__(self, bar_bytes: int) -> None:
        self._mask = -bar_bytes & 0xFFFF_FFF0
        self._bytes = bytearray(CONFIG_SIZE)
        self._bytes[0:4] = (_DEVICE << 16 | _VENDOR).to_bytes(4, "little")
        self._bytes[8:12] = (_CLASS << 8).to_bytes(4, "little")
        self._bytes[_INTERRUPT_PIN] = 1

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._bytes[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        """Only what software may change."""
        for place, value in enumerate(data, offset):
            if place in _WRITABLE:
                self._bytes[place] = value
        bar = int.from_bytes(self._bytes[_BAR : _BAR + 4], "little") & self._mask
        self._bytes[_BAR : _BAR + 4] = bar.to_bytes(4, "little")
