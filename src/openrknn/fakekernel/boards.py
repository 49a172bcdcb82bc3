"""What a board with each chip shows of its NPU: addresses and names. The clocks are those of `openrknn.chips`.

From device trees and kernel logs in public bug reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.chips import Chip

__all__ = ["Board", "board_for"]

@dataclass(frozen=True)
class Board:
    """One chip on a board."""

    npu: str
    """Name of the platform device."""
    soc: str
    """How the device tree calls the chip."""
    compatible: str
    """How it calls the NPU."""
    microvolts: int
    cores: tuple[str, ...] = ()
    """The platform devices of the cores, where the mainline kernel has one for each."""
    core_compatible: str = ""
    """How the mainline kernel's device tree calls a core."""

    @property
    def address(self) -> str:
        """Of the NPU's registers, in hex."""
        return self.npu.partition(".")[0]


_RK3588 = Board(
    "fdab0000.npu", "rk3588", "rockchip,rk3588-rknpu", 800_000, ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu"),
    "rockchip,rk3588-rknn-core",
)  # fmt: skip
_BOARDS = {
    "rk3588": _RK3588,
    "rk3576": Board("27700000.npu", "rk3576", "rockchip,rk3576-rknpu", 800_000),
    "rk3566": Board("fde40000.npu", "rk3566", "rockchip,rk3568-rknpu", 900_000),
    "rk3568": Board("fde40000.npu", "rk3568", "rockchip,rk3568-rknpu", 900_000),
    "rk3562": Board("ff300000.npu", "rk3562", "rockchip,rk3562-rknpu", 850_000),
}


def board_for(chip: Chip) -> Board:
    """The board of a chip; chips that nobody described get a plain one."""
    plain = Board("ff660000.npu", chip.name, f"rockchip,{chip.name}-rknpu", 900_000)
    return _BOARDS.get(chip.name, plain)
