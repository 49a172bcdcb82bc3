"""`Target`: what the compiler has to know of a chip; `target` of each family's folder has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from openrknn.chips import CHIPS, Chip
from openrknn.isa import Precision
from openrknn.isa.blocks import RegisterMap
from openrknn.layout.weights import WeightTiles
from openrknn.task.kinds import Work
from openrknn.task.place import Address

__all__ = ["Buffer", "Encoded", "Format", "Registers", "Target", "align", "ceil_div", "fp16_of", "int8_of"]

Registers: TypeAlias = dict[str, dict[str, Address]]
"""BLOCK.REGISTER -> fields in natural values; what is not mentioned is 0."""
Encoded: TypeAlias = tuple[tuple[str, ...], Registers]
"""The blocks that a task starts, and their registers."""


def align(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple


def ceil_div(number: int, divisor: int) -> int:
    """Divided, rounded up."""
    return -(-number // divisor)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format of activations."""

    name: str
    precision: Precision
    element_bytes: int
    atom_bytes: int
    group_atoms: int = 2
    """Atoms of output channels that a convolution makes together."""

    @property
    def atom(self) -> int:
        """Channels of one atom."""
        return self.atom_bytes // self.element_bytes

    @property
    def group(self) -> int:
        """Output channels that a convolution makes together."""
        return self.group_atoms * self.atom

    @property
    def depthwise_group(self) -> int:
        """Channels that a depthwise convolution makes together: twice as many."""
        return 2 * self.group_atoms * self.atom

    def surfaces(self, channels: int) -> int:
        return ceil_div(channels, self.atom)


def int8_of(chip: Chip, group_atoms: int = 2) -> Format:
    """Numbers of 8 bits on a chip."""
    return Format("int8", Precision.INT8, 1, chip.atom_bytes, group_atoms)


def fp16_of(chip: Chip, group_atoms: int = 2) -> Format:
    """Numbers of 16 bits on a chip."""
    return Format("fp16", Precision.FP16, 2, chip.atom_bytes, group_atoms)


@dataclass(frozen=True, slots=True)
class Buffer:
    """The convolution buffer (CBUF), shared by data and weights, and how the vendor's converter shares it out.

    No task asks for more than boards have seen: equal on 1250 of 1251 operators of real networks for RK3588.
    """

    chip: Chip
    single_band_data: int
    """The most banks of a map that is read at once while weights stream through the rest."""
    streamed_bytes: tuple[int, ...]
    """Weights that stream: so many bytes of outputs at a time; the later ones where the earlier do not fit."""
    spread_streamed_bytes: tuple[int, ...]
    """The same for transposed convolutions."""
    keeps_weights: bool
    """Bands leave room for all weights, if that is possible."""
    most_streamed: int = 0
    """Weights that stream take at most so many banks; 0: as many as they need."""
    cuts_pointwise: bool = False
    """1x1 kernels never stream: kernels are cut so that their weights fit."""
    chunks_first: bool = False
    """Depthwise: all bands of a chunk of channels, then the next chunk; else all chunks of a band."""
    counts_spread: bool = True
    """Transposed: the pad values between pixels take room too."""
    whole_pictures: bool = True
    """CBUF_CON1 of pictures counts the pixels of all rows; else the entries of one."""
    least_streamed: int = 0
    """Banks for weights that stream, at least; one more than they need for an output of one pixel."""
    keeps_rows: bool = False
    """int8: rows that two bands of one chunk share are read once."""
    fills: bool = False
    """Data have all banks that weights do not need; else weights have all that data do not need."""
    data_banks: tuple[int, ...] = ()
    """If not empty: banks of data are the first of these that hold all rows, else the last; the rest is for weights."""
    light_bytes: int = 0
    """Kernels that stream together: with more bytes than this, data have the first of `data_banks`."""

    @property
    def banks(self) -> int:
        return self.chip.known_cbuf.banks

    @property
    def bank_bytes(self) -> int:
        return self.chip.known_cbuf.bank_bytes

    @property
    def bank_entries(self) -> int:
        return self.chip.cbuf_bank_entries

    @property
    def entry_atoms(self) -> int:
        return self.chip.known_cbuf.entry_atoms


@dataclass(frozen=True, slots=True)
class Target:
    """One family of chips."""

    name: str
    registers: RegisterMap
    int8: Format
    fp16: Format
    buffer: Buffer
    kernel_volume: Mapping[str, int]
    """By format: the largest channels x kernel rows x kernel columns of one task that the vendor's converter emits."""
    weights: Callable[[tuple[int, int, int, int], int], WeightTiles]
    """How weights [O, I, H, W] of so many bytes each are stored."""
    depthwise_weights: Callable[[int, int, int, int], WeightTiles]
    """The same for (channels, height, width, bytes)."""
    operand_group: int
    """Channels of a block of bias, zero points and multipliers."""
    encode: Callable[[Work], Encoded]
    """From a task to the blocks that it starts and their registers. What the chip cannot do: `UnsupportedError`."""
    pointers: frozenset[str]
    """Blocks whose S_POINTER the streams write; the kernel writes the others."""
    unwritten: frozenset[str] = frozenset()
    """Registers that streams leave alone."""
    largest_pool: int = 16
    """Side of the largest pooling window."""
    averages_floats: bool = True
    """The PPU takes means of fp16; else a depthwise convolution does."""
    halves_in_tasks: bool = False
    """Each half of a lookup table is loaded by a task of its own."""
    crops_columns: bool = True
    """Columns that no window reaches are not read."""
    skips_columns: bool = True
    """The DPU skips the rest of a row, so that a convolution can write some columns of several rows."""
    longest_line: int = 8192
    """Columns of a row whose rest it can skip."""
    alike_operands: bool = False
    """Two operands are read only if their surfaces are equally far apart: one of them is copied else."""
    pairs_surfaces: bool = False
    """Surfaces of what a convolution adds are read two by two: beside the last of an odd number there has to be one."""
    narrow_weights: bool = False
    """fp16 features take weights of int4."""
    scales_tables: bool = True
    """fp16: the output converter divides what comes from a lookup table by a power of two."""
    aligned_inputs: bool = False
    """Only convolutions read inputs whose surfaces are not multiples of four pixels."""
    core_entries: bool = True
    """Relocations name the core that they are for."""
    has_short_algorithms: bool = False
    """The element-wise unit adds, multiplies and compares; no subtraction, no division."""
    can_mix: bool = True
    """Whether int8 and fp16 can meet in one model."""
    has_attention: bool = True
    """Products of two activations."""
    has_softmax: bool = True
    """Softmax over channels; else it is the CPU's, in the layout of the NPU."""
    reduces_channels: bool = True
    """The DPU finds the largest channel of a pixel; else it is the larger of two, many times."""
    turns_lanes: bool = True
    """The DPU turns lanes and pixels while it writes; else a convolution does."""
    has_turns: bool = True
    """The DPU transposes in the middle of a network."""
    casts_first: bool = False
    """int8 becomes fp16 in two tasks: the stored numbers, then (x - zero point) * scale; else in one."""
    has_fp16: bool = True
    """Whether a model can be fp16; else it is int8."""
    has_cpu: bool = True
    """Whether the vendor's runtime runs operators on the CPU; else the model has to be cut before them."""
    is_mini: bool = False
    """Files are mini containers."""
    picture_weights: Callable[[tuple[int, int, int, int], int], WeightTiles] | None = None
    """How weights of a convolution on a picture are stored; None: as others."""
    repeats_bytes: bool = True
    """Tasks that repeat pixels move bytes; else numbers."""
    repeat_guards: int = 0
    """Convolutions of nothing that stand before and after tasks that repeat pixels."""
    slots: int = 6
    """Counts of tasks that an operator of the file has: RK3588's are those of its six lists."""
    on_core: Callable[[Registers, int], None] | None = None
    """Lists for one core are stored for each of them; this makes a task that of another core."""

    @property
    def atom_bytes(self) -> int:
        return self.int8.atom_bytes

    @property
    def inline_zero_points(self) -> int:
        """Depthwise int8: so many weights, then as many negated zero points; 0: they are beside the bias."""
        return self.chip.inline_zero_points

    @property
    def chip(self) -> Chip:
        """The chip that stands for the family."""
        return CHIPS[self.name]
