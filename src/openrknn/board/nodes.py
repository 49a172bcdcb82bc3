"""The nodes of a board's device tree that drivers of the NPU look for, on top of QEMU's machine `virt`.

QEMU knows no platform devices in other processes, but PCI devices. So a core is a PCI device, whose BAR the guest's
init puts at a fixed address in the window of the PCI bridge, and its node stands at that address and on the interrupt
line of its PCI slot.
"""

from __future__ import annotations

from openrknn.board.device_tree import Node, cells, text
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.npu_device import BAR_BYTES, RESET_OFFSET, bank_offsets
from openrknn.chips import Chip
from openrknn.errors import DeviceError
from openrknn.fakekernel.boards import board_for

__all__ = ["DRIVERS", "NEEDED_MODULES", "add_nodes", "bar_address", "slot_of"]

DRIVERS = ("rocket", "rknpu")
NEEDED_MODULES = {"rknpu": ("fixed",)}
"""Driver -> modules without which the kernel defers its device: here the one of the regulator."""
_COMPATIBLE = "openrknn,virtual-board"
_BARS = 0x1000_0000
"""Where the kernel puts the largest BARs itself, one behind the other: after a suspend it puts them there again."""
_FIRST_SLOT = 1
_FIRST_LINE = 3
"""Shared interrupt of pin A of slot 0; the four lines take turns over the slots."""
_LINES = 4
_LEVEL_HIGH = 4
_MAINLINE_HERTZ = 200_000_000
"""The clock of the NPU in the mainline device tree."""
_CLOCKS = ("aclk", "hclk", "npu", "pclk")


def slot_of(core: int) -> int:
    """The PCI slot of a core."""
    return _FIRST_SLOT + core


def bar_address(core: int) -> int:
    """Where the BAR of a core is."""
    return _BARS + core * BAR_BYTES


def add_nodes(root: Node, driver: str, chip: Chip, cores: int) -> None:
    """Add an NPU with its IOMMUs, resets, clock and regulator. Programs ask the root which chip it is."""
    if driver == "rocket" and not board_for(chip).core_compatible:
        raise DeviceError(f"the driver rocket does not know the NPU of {chip.title}; rknpu does (--kernel rknpu)")
    named = text(_COMPATIBLE, f"rockchip,{board_for(chip).soc}")
    root.properties["compatible"] = named + root.properties.get("compatible", b"")
    root.properties["model"] = text(f"openrknn virtual board ({chip.title})")
    nodes = _Nodes(root, chip, _MAINLINE_HERTZ if driver == "rocket" else chip.clocks[-1])
    resets = [nodes.add_reset(core) for core in range(cores)]
    if driver == "rocket":
        for core in range(cores):
            nodes.add_rocket(core, nodes.add_iommu([core]), resets[core])
    else:
        nodes.add_rknpu(nodes.add_iommu(list(range(cores))), resets)


def _interrupt(core: int) -> bytes:
    return cells(0, _FIRST_LINE + slot_of(core) % _LINES, _LEVEL_HIGH)


def _reg(*ranges: tuple[int, int]) -> bytes:
    """Addresses and sizes of 64 bits each, as in QEMU's root node."""
    return b"".join(cells(0, address, 0, size) for address, size in ranges)


class _Nodes:
    """Nodes below the root, and the clock that all of them use."""

    def __init__(self, root: Node, chip: Chip, hertz: int) -> None:
        self._root, self._chip, self._board = root, chip, board_for(chip)
        self._last = root.highest_phandle()
        self._clock = self._handle()
        root.add(
            "clock-npu", compatible=text("fixed-clock"), __clock_cells=cells(0), clock_frequency=cells(hertz),
            phandle=cells(self._clock),
        )  # fmt: skip

    def _handle(self) -> int:
        self._last += 1
        return self._last

    def add_iommu(self, cores: list[int]) -> bytes:
        """One IOMMU with the banks of these cores; what refers to it: nothing for a chip without."""
        banks = [bar_address(core) + offset for core in cores for offset in bank_offsets(self._chip, core)]
        if not banks:
            return b""
        handle, clock = self._handle(), self._clock
        self._root.add(
            f"iommu@{banks[0]:x}",
            compatible=text(f"rockchip,{self._chip.name}-iommu", "rockchip,rk3568-iommu"),
            reg=_reg(*((bank, 0x100) for bank in banks)), interrupts=b"".join(map(_interrupt, cores)),
            clocks=cells(clock, clock), clock_names=text("aclk", "iface"), __iommu_cells=cells(0),
            phandle=cells(handle),
        )  # fmt: skip
        return cells(handle)

    def add_reset(self, core: int) -> int:
        """The two resets of a core; its handle."""
        place, handle = bar_address(core) + RESET_OFFSET, self._handle()
        self._root.add(
            f"reset-controller@{place:x}",
            compatible=text("snps,dw-high-reset"), reg=_reg((place, 4)), __reset_cells=cells(1), phandle=cells(handle),
        )  # fmt: skip
        return handle

    def add_rocket(self, core: int, mmu: bytes, reset: int) -> None:
        """One core, as in the mainline device tree."""
        base, clock = bar_address(core), self._clock
        self._root.add(
            f"npu@{base:x}",
            compatible=text(self._board.core_compatible),
            reg=_reg(*((base + page * PAGE_BYTES, PAGE_BYTES) for page in (0, 1, 3))),
            reg_names=text("pc", "cna", "core"), interrupts=_interrupt(core),
            clocks=cells(clock, clock, clock, clock), clock_names=text(*_CLOCKS),
            resets=cells(reset, 0, reset, 1), reset_names=text("srst_a", "srst_h"), iommus=mmu,
        )  # fmt: skip

    def add_rknpu(self, mmu: bytes, resets: list[int]) -> None:
        """One node for all cores behind one IOMMU, as in the vendor's device tree."""
        supply, numbers, volts = self._handle(), range(len(resets)), cells(self._board.microvolts)
        self._root.add(
            "regulator-npu",
            compatible=text("regulator-fixed"), regulator_name=text("vdd_npu"), regulator_always_on=b"",
            regulator_min_microvolt=volts, regulator_max_microvolt=volts, phandle=cells(supply),
        )  # fmt: skip
        clocks = ["scmi_clk", *(f"aclk{core}" for core in numbers), *(f"hclk{core}" for core in numbers), "pclk"]
        node = self._root.add(
            f"npu@{bar_address(0):x}",
            compatible=text(self._board.compatible),
            reg=_reg(*((bar_address(core), 9 * PAGE_BYTES) for core in numbers)),
            interrupts=b"".join(map(_interrupt, numbers)),
            interrupt_names=text(*(f"npu{core if self._chip.cores > 1 else ''}_irq" for core in numbers)),
            clocks=cells(*[self._clock] * len(clocks)), clock_names=text(*clocks),
            resets=b"".join(cells(resets[core], bit) for bit in range(2) for core in numbers),
            reset_names=text(*(f"srst_{kind}{core}" for kind in "ah" for core in numbers)),
            rknpu_supply=cells(supply), mem_supply=cells(supply),
        )  # fmt: skip
        if mmu:
            node.properties["iommus"] = mmu
