"""What the facts of a chip are: `Chip`, and the registers that inputs patch. Each family's are in its folder.

`Chip.evidence` says where a fact comes from. None means that it is not known yet: code that needs it has to
report that instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from openrknn.errors import UnsupportedError
from openrknn.records import dataclass

__all__ = [
    "DATA_SHEET", "DEVICE_TREE", "FILES", "KERNEL", "MHZ", "ONE_LIST", "RUNTIME", "SAME_GRADE", "Cbuf", "Chip",
    "Patches", "Slots", "TaskList", "evidence", "slots",
]  # fmt: skip


class TaskList(NamedTuple):
    """One of the task lists in a file: the work of `core` when `core_count` cores share a model."""

    core_count: int
    core: int


class Cbuf(NamedTuple):
    """The convolution buffer of one core, which data and weights share bank by bank.

    `openrknn.chip.limits` says what fits into it.
    """

    banks: int
    bank_bytes: int
    register: str
    """Of CNA: the one that shares out the banks."""
    data_field: str = "data_bank"
    weight_field: str = ""
    """Its field for the banks of weights; "": weights have what data leave."""
    entry_atoms: int = 4
    """Atoms of an entry, the unit in which rows are stored."""
    pixel_numbers: int = 0
    """A pixel of a picture takes the room of so many numbers; 0: of an atom."""
    full_group_hangs: bool = False
    """One or two groups of kernels of which one fills the only bank of weights to its last byte hang the NPU."""


MHZ = 1_000_000


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
    """Bytes of one feature atom, the unit in which feature data is stored."""
    task_lists: tuple[TaskList, ...]
    """The task lists in a file, in the order in which they are stored."""
    paired_amounts: bool
    """Whether PC.REGISTER_AMOUNTS counts pairs of commands (else single commands)."""
    pc_task_bits: int
    """Width of TASK_NUMBER in PC.TASK_CON: one run of the PC is at most 2**bits - 1 tasks."""
    weight_group: tuple[int, int] = (32, 32)
    """int8 weights are stored in groups of so many kernels by so many inputs: what the array takes at once."""
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
    most_kernels: int | None = None
    """Output channels of one task, at most; None: not measured."""
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
        """Entries of a bank of CBUF."""
        return self.known_cbuf.bank_bytes // (self.known_cbuf.entry_atoms * self.atom_bytes)

    def cbuf_pixel_bytes(self, element_bytes: int) -> int:
        """Bytes of CBUF that a pixel of a picture takes."""
        return self.known_cbuf.pixel_numbers * element_bytes or self.atom_bytes

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


FILES = "files built with toolkit 2.5.0"
KERNEL = "rknpu kernel driver 0.9.8"
RUNTIME = "runtime 1.5.2 on a fake device"
DEVICE_TREE = "operating points in the vendor's device tree"
DATA_SHEET = "the TOPS of the data sheet"
ONE_LIST = (TaskList(1, 0),)
_EVIDENCE = {
    "atom_bytes": FILES,
    "task_lists": FILES,
    "paired_amounts": FILES,
    "pc_task_bits": KERNEL,
    "bias_group": FILES,
    "target": FILES,
    "weight_group": FILES,
    "depthwise_group": FILES,
    "inline_zero_points": FILES,
    "raises_offsets": f"{FILES}: offsets of pictures with a mean",
    "holds_uint8_setting": f"{FILES}, {RUNTIME}",
    "has_nbuf": "messages of toolkit 2.5.0",
    "linked_at_zero": FILES,
    "array_macs": "inferred; fits the TOPS of the data sheets of RK3588, RK3568, RK3562 at 1 GHz, of RV1106 at 0.5 GHz",
}
SAME_GRADE = "the same chip for another range of temperatures"


def evidence(**more: str) -> Mapping[str, str]:
    """Where the facts of a chip come from: what holds for all of them, and `more`."""
    return MappingProxyType({**_EVIDENCE, **more})


Slots = tuple[tuple[str, int] | None, ...]


class Patches(NamedTuple):
    """The registers that the inputs of a model patch, in the order of a file's slots: name and offset.

    Slots that a family does not use hold uninitialised memory of the converter. A slot counts only where the command
    that it names writes the register listed here (1,001 of 1,001 patch tables in the corpus). Register maps have the
    offsets, too, and a test compares: opening a file needs these few, and the maps are hundreds of classes.
    """

    image: Slots
    convert: Slots
    converter: str
    """The family whose input converter it has; `container.patch` has the forms."""


def slots(text: str) -> Slots:
    """Rows of a table: "DATA_SIZE0:1020 -" is a register of CNA and its offset, then a slot that is not used."""
    rows = (row.rpartition(":") for row in text.split())
    return tuple((name, int(offset, 16)) if name else None for name, _, offset in rows)
