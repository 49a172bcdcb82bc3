"""One frozen `Chip` per SoC: the facts that tell one Rockchip NPU from the next.

`Chip.evidence` says where a fact comes from. None means that nobody has seen it yet: code that needs it has to
say so instead of guessing. Two names can share one NPU (RK3566/RK3568, RV1103/RV1106): they share `target`, the
string by which the vendor's runtime tells whether a model fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from openrknn.errors import UnsupportedError

__all__ = [
    "CHIPS",
    "TARGETS",
    "VARIANTS",
    "Cbuf",
    "Chip",
    "TaskList",
    "chip_for",
    "chip_in",
    "chip_named",
    "find_chip",
    "known_chips",
]


class TaskList(NamedTuple):
    """One of the task lists in a file: the work of `core` when `core_count` cores share a model."""

    core_count: int
    core: int


class Cbuf(NamedTuple):
    """The convolution buffer, which data and weights share bank by bank."""

    banks: int
    bank_bytes: int


_ENTRY_ATOMS = 4
_MHZ = 1_000_000


@dataclass(frozen=True, slots=True)
class Chip:
    """What a loader, a simulator or a compiler has to know about one SoC."""

    name: str
    """Lower-case name, as the toolkit's `target_platform` takes it."""
    title: str
    """The name as people write it."""
    target: str
    """The string in a `.rknn` that names the NPU; the only one that the vendor's runtime compares."""
    family: str
    """Which register map it uses; chips of one family share it."""
    cores: int
    atom_bytes: int
    """Bytes of one feature atom, the unit in which feature data lie in memory."""
    task_lists: tuple[TaskList, ...]
    """The task lists in a file, in the order in which they are stored."""
    paired_amounts: bool
    """Whether PC.REGISTER_AMOUNTS counts pairs of commands (else single commands)."""
    pc_task_bits: int
    """Width of TASK_NUMBER in PC.TASK_CON: one run of the PC is at most 2**bits - 1 tasks."""
    weight_group: tuple[int, int] = (32, 32)
    """int8 weights lie in groups of so many kernels by so many inputs: what the array takes at once."""
    depthwise_group: int = 64
    """Depthwise int8 weights: channels in a group."""
    inline_zero_points: int = 0
    """Depthwise int8: so many weights, then as many negated zero points, take turns; 0: they are beside the bias."""
    raises_offsets: bool = False
    """The input converter adds before the shift: streams hold offset * 2^shift."""
    holds_uint8_setting: bool = True
    """Files hold the input converter for uint8 pictures; the runtimes of the others write it."""
    has_nbuf: bool = False
    """Tensors may be marked for a buffer on the chip; their addresses are ordinary ones."""
    linked_at_zero: bool = False
    """Mini files: commands and constants are one image whose addresses count from its start (PC's DMA base)."""
    bias_group: int = 8
    """Output channels per group in the int8 operand stream (bias, zero point, multiplier)."""
    cbuf: Cbuf | None = None
    """The convolution buffer of one core."""
    clocks: tuple[int, ...] = ()
    """Operating points of the NPU in hertz, lowest first; only those that somebody has seen."""
    hw_version: int | None = None
    """What the driver answers to ACTION 0; runtime 1.5.2 compares it with the model's target."""
    dma_bits: int | None = None
    driver_nodes: tuple[str, ...] = ("/dev/dri/card1", "/dev/dri/renderD129")
    """Where the vendor's driver shows up on the vendor's kernels. Look for the driver's name first."""
    precisions: frozenset[str] = frozenset({"int8", "fp16"})
    """Activation types that the toolkit compiles for it."""
    cpu_operators: bool = True
    """Whether the vendor's runtime for this chip runs operators on the CPU."""
    evidence: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)
    """Field name -> where its value comes from."""

    @property
    def known_cbuf(self) -> Cbuf:
        """The convolution buffer, or `UnsupportedError`."""
        if self.cbuf is None:
            raise UnsupportedError(f"the size of the convolution buffer of {self.title} is not known")
        return self.cbuf

    @property
    def cbuf_bank_entries(self) -> int:
        """Entries of a bank of CBUF: one is four atoms."""
        return self.known_cbuf.bank_bytes // (_ENTRY_ATOMS * self.atom_bytes)

    @property
    def array_macs(self) -> int:
        """int8 products of one core in one cycle: one group of weights, each with one input."""
        return self.weight_group[0] * self.weight_group[1]

    def channels_per_atom(self, element_bytes: int) -> int:
        """C2 of the native layout NC1HWC2 for elements of this size."""
        return self.atom_bytes // element_bytes

    @property
    def words_per_fetch(self) -> int:
        """Commands in one unit of PC.REGISTER_AMOUNTS."""
        return 2 if self.paired_amounts else 1


_FILES = "files built with toolkit 2.5.0"
_KERNEL = "rknpu kernel driver 0.9.8"
_RUNTIME = "runtime 1.5.2 on a fake device"
_DEVICE_TREE = "operating points in the vendor's device tree"
_DATA_SHEET = "the TOPS of the data sheet"
_ONE = (TaskList(1, 0),)
_COMMON = {
    "atom_bytes": _FILES,
    "task_lists": _FILES,
    "paired_amounts": _FILES,
    "pc_task_bits": _KERNEL,
    "bias_group": _FILES,
    "target": _FILES,
    "weight_group": _FILES,
    "depthwise_group": _FILES,
    "inline_zero_points": _FILES,
    "raises_offsets": f"{_FILES}: offsets of pictures with a mean",
    "holds_uint8_setting": f"{_FILES}, {_RUNTIME}",
    "has_nbuf": "messages of toolkit 2.5.0",
    "linked_at_zero": _FILES,
    "array_macs": "inferred; fits the TOPS of the data sheets of RK3588, RK3568, RK3562 at 1 GHz, of RV1106 at 0.5 GHz",
}


def _evidence(**more: str) -> Mapping[str, str]:
    return MappingProxyType({**_COMMON, **more})


_RK3588 = Chip(
    name="rk3588",
    title="RK3588",
    target="RKNPU v2",
    family="rk3588",
    cores=3,
    atom_bytes=16,
    task_lists=(
        TaskList(1, 0),
        TaskList(2, 0),
        TaskList(2, 1),
        TaskList(3, 0),
        TaskList(3, 1),
        TaskList(3, 2),
    ),
    paired_amounts=True,
    pc_task_bits=12,
    bias_group=8,
    cbuf=Cbuf(12, 32 * 1024),
    clocks=tuple(mhz * _MHZ for mhz in range(300, 1001, 100)),
    hw_version=0x46495245,
    dma_bits=40,
    holds_uint8_setting=False,
    precisions=frozenset({"int8", "int16", "fp16"}),
    evidence=_evidence(
        cbuf="RK3588 technical reference manual", clocks=_DEVICE_TREE, hw_version=_RUNTIME, dma_bits=_KERNEL
    ),
)

_RK3566 = Chip(
    name="rk3566",
    title="RK3566",
    target="RKNPU lite",
    family="rk3566",
    cores=1,
    atom_bytes=8,
    task_lists=_ONE,
    paired_amounts=False,
    pc_task_bits=12,
    weight_group=(16, 32),
    depthwise_group=32,
    holds_uint8_setting=False,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024),
    clocks=tuple(mhz * _MHZ for mhz in (200, 297, 400, 600, 700, 800, 900)),
    hw_version=0,
    evidence=_evidence(
        cbuf="inferred: data and weight banks of every file add up to 8, and rows fill banks of 1024 entries",
        clocks="kernel logs in public bug reports; 900 MHz on go-rknnlite's board",
        hw_version=_RUNTIME,
    ),
)

_RK3562 = Chip(
    name="rk3562",
    title="RK3562",
    target="RKNPU t4",
    family="rk3562",
    cores=1,
    atom_bytes=16,
    task_lists=_ONE,
    paired_amounts=True,
    pc_task_bits=16,
    weight_group=(16, 32),
    depthwise_group=32,
    inline_zero_points=2,
    has_nbuf=True,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024),
    clocks=tuple(mhz * _MHZ for mhz in range(300, 1001, 100)),
    evidence=_evidence(
        cbuf="inferred: CBUF_CON0.data is 14 to 8 of 16 halves, and rows fill halves of 256 entries",
        clocks=_DEVICE_TREE,
    ),
)

_RK3576 = Chip(
    name="rk3576",
    title="RK3576",
    target="RKNPU f2",
    family="rk3576",
    cores=2,
    atom_bytes=16,
    task_lists=(TaskList(1, 0), TaskList(1, 1), TaskList(2, 0), TaskList(2, 1)),
    paired_amounts=True,
    pc_task_bits=16,
    inline_zero_points=2,
    has_nbuf=True,
    bias_group=8,
    cbuf=Cbuf(7, 64 * 1024),
    precisions=frozenset({"int8", "int16", "fp16"}),
    clocks=(300 * _MHZ, 950 * _MHZ),
    evidence=_evidence(
        cbuf="inferred: rows fill four or five of seven banks of 1024 entries; the second core's begin at entry 7168",
        task_lists=f"{_FILES}: the one-core list is stored once per core",
        clocks="kernel logs in public bug reports: where it boots, and the highest",
    ),
)

_RV1126B = Chip(
    name="rv1126b",
    title="RV1126B",
    target="RKNPU f3",
    family="rk3576",
    cores=1,
    atom_bytes=16,
    task_lists=_ONE,
    paired_amounts=True,
    pc_task_bits=16,
    inline_zero_points=2,
    bias_group=8,
    cbuf=Cbuf(7, 64 * 1024),
    clocks=(800 * _MHZ,),
    evidence=_evidence(cbuf="as RK3576: the same streams", clocks=_DATA_SHEET),
)

_RV1106 = Chip(
    name="rv1106",
    title="RV1106",
    target="RKNPU t3",
    family="rv1106",
    cores=1,
    atom_bytes=16,
    task_lists=_ONE,
    paired_amounts=True,
    pc_task_bits=16,
    weight_group=(16, 32),
    depthwise_group=32,
    inline_zero_points=1,
    raises_offsets=True,
    linked_at_zero=True,
    bias_group=4,
    cbuf=Cbuf(8, 32 * 1024),
    driver_nodes=("/dev/rknpu",),
    precisions=frozenset({"int8"}),
    cpu_operators=False,
    clocks=(500 * _MHZ,),
    evidence=_evidence(
        cbuf="inferred: rows fill banks of 1024 entries of 32 bytes, seven at most; weights have the rest of eight",
        clocks=_DATA_SHEET,
    ),
)

_RV1106B = replace(
    _RV1106, name="rv1106b", title="RV1106B", target="RKNPU w1", family="rv1106b", atom_bytes=8, paired_amounts=False,
    weight_group=(8, 16), depthwise_group=8, inline_zero_points=8, cbuf=None,
)  # fmt: skip



def _as_rv1103(chip: Chip, name: str, title: str) -> Chip:
    """The smaller package of the same NPU: a lower clock, read on a board (dnhkng/open-rknpu, docs/performance.md)."""
    clocks = "dnhkng/open-rknpu, docs/performance.md"
    return replace(chip, name=name, title=title, clocks=(420 * _MHZ,), evidence={**chip.evidence, "clocks": clocks})


CHIPS: Mapping[str, Chip] = MappingProxyType(
    {
        chip.name: chip
        for chip in (
            _RK3588,
            _RK3576,
            _RK3566,
            replace(_RK3566, name="rk3568", title="RK3568"),
            _RK3562,
            _RV1126B,
            _RV1106,
            _as_rv1103(_RV1106, "rv1103", "RV1103"),
            _RV1106B,
            _as_rv1103(_RV1106B, "rv1103b", "RV1103B"),
        )
    }
)
"""Every chip by its name."""

TARGETS: Mapping[str, tuple[Chip, ...]] = MappingProxyType(
    {
        target: tuple(chip for chip in CHIPS.values() if chip.target == target)
        for target in dict.fromkeys(chip.target for chip in CHIPS.values())
    }
)
"""The chips that share a target string; the first one stands for all of them."""


_DIE = "the same die: device trees of its boards describe RK3588's three NPU cores (rockchip,rk3588-rknn-core)"
_GRADE = "the same chip for another range of temperatures"
_ALIASES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "rk3588s": ("rk3588", f"{_DIE}; three cores measured on Orange Pi 5B (airockchip/rknn-toolkit2#138)"),
        "rk3588s2": ("rk3588", _DIE),
        "rk3582": ("rk3588", "RK3588S with fewer CPU cores and no GPU; its data sheet says 5 TOPS instead of 6. The "
                             "driver says how many NPU cores a board has"),
        "rk3588j": ("rk3588", _GRADE),
        "rk3588m": ("rk3588", _GRADE),
        "rk3576j": ("rk3576", _GRADE),
        "rk3576m": ("rk3576", _GRADE),
        "rk3568j": ("rk3568", _GRADE),
        "rk3562j": ("rk3562", _GRADE),
    }
)  # fmt: skip
"""Name of a variant -> the chip whose NPU it has, and why we say so."""
VARIANTS: Mapping[str, str] = MappingProxyType({name: chip for name, (chip, _) in _ALIASES.items()})
"""Other names that people and device trees use, and the chip in `CHIPS` whose models they run."""


def find_chip(name: str) -> Chip | None:
    """The chip with this name, or whose variant has it, in any case: "rk3588", "RK3588S"; None for others."""
    key = name.strip().lower()
    return CHIPS.get(VARIANTS.get(key, key))


def known_chips() -> str:
    """All names, for messages."""
    return f"{', '.join(CHIPS)} (and {', '.join(VARIANTS)})"


def chip_named(name: str) -> Chip:
    """The chip with this name, in any case: "rk3588", "RK3568", "rk3588s"."""
    chip = find_chip(name)
    if chip is None:
        raise UnsupportedError(f"no chip is called {name!r}; known are {known_chips()}")
    return chip


def chip_in(compatible: str) -> str | None:
    """The chip's name from a device tree's text: "radxa,rock-5b\\0rockchip,rk3588\\0"."""
    found = (find_chip(entry.rpartition(",")[2]) for entry in compatible.split("\0"))
    return next((chip.name for chip in found if chip is not None), None)


def chip_for(target: str, platform: str = "") -> Chip:
    """The chip that a model was built for, from its target string and the platform name beside it.

    The target decides, as it does in the vendor's runtime; the platform only picks among the chips that share it.
    """
    try:
        chips = TARGETS[target]
    except KeyError:
        known = ", ".join(f"{target!r}" for target in TARGETS)
        raise UnsupportedError(f"the model is for an NPU called {target!r}; known are {known}") from None
    wanted = find_chip(platform)
    return wanted if wanted in chips else chips[0]
