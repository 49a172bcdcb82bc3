"""The nodes of a board's device tree that drivers of the NPU look for, on top of QEMU's machine `virt`.

QEMU knows no platform devices in other processes, but PCI devices. So a core is a PCI device, whose BAR the guest's
init puts at a fixed address in the window of the PCI bridge, and its node stands at that address and on the interrupt
line of its PCI slot.
"""

from __future__ import annotations

from openrknn.board.device_tree import Node, cells, text
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.npu_device import RESET_OFFSET, bank_offsets

__all__ = ["DRIVERS", "NEEDED_MODULES", "add_nodes", "bar_address", "slot_of"]

DRIVERS = ("rocket", "rknpu")
NEEDED_MODULES = {"rknpu": ("fixed",)}
"""Driver -> modules without which the kernel defers its device: here the one of the regulator."""
_COMPATIBLE = ("openrknn,virtual-board", "rockchip,rk3588")
_MODEL = "openrknn virtual board (RK3588)"
_BARS = 0x3000_0000
_BAR_STEP = 0x10_0000
_FIRST_SLOT = 1
_FIRST_LINE = 3
"""Shared interrupt of pin A of slot 0; the four lines take turns over the slots."""
_LINES = 4
_LEVEL_HIGH = 4
_HERTZ = 200_000_000
"""The clock of the NPU in the mainline device tree."""
_CLOCKS = ("aclk", "hclk", "npu", "pclk")


def slot_of(core: int) -> int:
    """The PCI slot of a core."""
    return _FIRST_SLOT + core


def bar_address(core: int) -> int:
    """Where the BAR of a core is."""
    return _BARS + core * _BAR_STEP


def add_nodes(root: Node, driver: str, cores: int) -> None:
    """Add an NPU with its IOMMUs, resets, clock and regulator. Programs ask the root which chip it is."""
    root.properties["compatible"] = text(*_COMPATIBLE) + root.properties.get("compatible", b"")
    root.properties["model"] = text(_MODEL)
    handles = _Handles(root.highest_phandle())
    clock = handles.next()
    root.add(
        "clock-npu", compatible=text("fixed-clock"), __clock_cells=cells(0), clock_frequency=cells(_HERTZ),
        phandle=cells(clock),
    )  # fmt: skip
    resets = [_add_reset(root, core, handles) for core in range(cores)]
    if driver == "rocket":
        for core in range(cores):
            mmu = _add_iommu(root, [core], clock, handles)
            _add_rocket(root, core, clock, mmu, resets[core])
    else:
        _add_rknpu(root, clock, _add_iommu(root, list(range(cores)), clock, handles), resets, handles)


class _Handles:
    def __init__(self, last: int) -> None:
        self._last = last

    def next(self) -> int:
        self._last += 1
        return self._last


def _interrupt(core: int) -> bytes:
    return cells(0, _FIRST_LINE + slot_of(core) % _LINES, _LEVEL_HIGH)


def _reg(*ranges: tuple[int, int]) -> bytes:
    """Addresses and sizes of 64 bits each, as in QEMU's root node."""
    return b"".join(cells(0, address, 0, size) for address, size in ranges)


def _add_iommu(root: Node, cores: list[int], clock: int, handles: _Handles) -> int:
    """One IOMMU with the banks of these cores."""
    banks, handle = [bar_address(core) + offset for core in cores for offset in bank_offsets(core)], handles.next()
    root.add(
        f"iommu@{banks[0]:x}",
        compatible=text("rockchip,rk3588-iommu", "rockchip,rk3568-iommu"), reg=_reg(*((bank, 0x100) for bank in banks)),
        interrupts=b"".join(map(_interrupt, cores)), clocks=cells(clock, clock), clock_names=text("aclk", "iface"),
        __iommu_cells=cells(0), phandle=cells(handle),
    )  # fmt: skip
    return handle


def _add_reset(root: Node, core: int, handles: _Handles) -> int:
    place, handle = bar_address(core) + RESET_OFFSET, handles.next()
    root.add(
        f"reset-controller@{place:x}",
        compatible=text("snps,dw-high-reset"), reg=_reg((place, 4)), __reset_cells=cells(1), phandle=cells(handle),
    )  # fmt: skip
    return handle


def _add_rocket(root: Node, core: int, clock: int, mmu: int, reset: int) -> None:
    base = bar_address(core)
    root.add(
        f"npu@{base:x}",
        compatible=text("rockchip,rk3588-rknn-core"),
        reg=_reg(*((base + page * PAGE_BYTES, PAGE_BYTES) for page in (0, 1, 3))), reg_names=text("pc", "cna", "core"),
        interrupts=_interrupt(core), clocks=cells(clock, clock, clock, clock), clock_names=text(*_CLOCKS),
        resets=cells(reset, 0, reset, 1), reset_names=text("srst_a", "srst_h"), iommus=cells(mmu),
    )  # fmt: skip


def _add_rknpu(root: Node, clock: int, mmu: int, resets: list[int], handles: _Handles) -> None:
    """One node for all cores behind one IOMMU, as in the vendor's device tree."""
    supply, numbers = handles.next(), range(len(resets))
    root.add(
        "regulator-npu",
        compatible=text("regulator-fixed"), regulator_name=text("vdd_npu"), regulator_always_on=b"",
        regulator_min_microvolt=cells(800_000), regulator_max_microvolt=cells(800_000), phandle=cells(supply),
    )  # fmt: skip
    clocks = ["scmi_clk", *(f"aclk{core}" for core in numbers), *(f"hclk{core}" for core in numbers), "pclk"]
    names = [f"srst_{kind}{core}" for kind in "ah" for core in numbers]
    lines = [cells(resets[core], bit) for bit in range(2) for core in numbers]
    root.add(
        f"npu@{bar_address(0):x}",
        compatible=text("rockchip,rk3588-rknpu"), reg=_reg(*((bar_address(core), 9 * PAGE_BYTES) for core in numbers)),
        interrupts=b"".join(map(_interrupt, numbers)),
        interrupt_names=text(*(f"npu{core}_irq" for core in numbers)),
        clocks=cells(*[clock] * len(clocks)), clock_names=text(*clocks),
        resets=b"".join(lines), reset_names=text(*names),
        iommus=cells(mmu), rknpu_supply=cells(supply), mem_supply=cells(supply),
    )  # fmt: skip
