"""What a convolution may ask of the hardware: room in the convolution buffer (CBUF), and programs that hang boards.

Data and weights share the banks of CBUF. All rows that a task reads must fit in the data banks at once; weights either
all fit in theirs, or stream through them, a group of kernels after the other. The rules hold for every program of the
vendor's converter at hand (docs/hardware/limits.md has the counts), and refuse what boards are known to compute wrongly
or to hang on. What has not been measured is allowed: `unproven` reports it, for `openrknn lint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from openrknn.backports import StrEnum
from openrknn.chip.facts import Cbuf, Chip
from openrknn.isa import Precision
from openrknn.task import cna
from openrknn.task.formats import element_bits, element_bytes, surfaces_of

__all__ = ["Banks", "Limit", "LimitKind", "banks_in", "broken_limit", "row_entries", "unproven"]

_FOUR_ATOMS = 4
_LEAST_PIXEL = 4
"""Numbers of a pixel of one channel, at least: the vendor's converter stores more of them than atoms would allow."""
_HANGING_GROUPS = 2
"""Groups of kernels with which a full bank of weights is known to hang; 224 are known to work."""
_LEAST_PART = 2
"""Weights that stream have room for half of a group: the least that the vendor's converter leaves them."""


class LimitKind(StrEnum):
    """What a program does on a board."""

    WRONG = "wrong"
    """It ends, with wrong numbers."""
    HANGS = "hangs"
    """It never ends: the driver runs into its timeout, or the board needs a power cycle."""


class Limit(NamedTuple):
    """A limit that a task breaks."""

    kind: LimitKind
    text: str
    register: str


class Banks(NamedTuple):
    """How a task shares out the buffer."""

    data: int
    weights: int


def banks_in(chip: Chip, registers: Mapping[str, Mapping[str, Any]]) -> Banks | None:
    """From fields of CNA's registers, by name; None where the chip's buffer is not known."""
    cbuf = chip.cbuf
    if cbuf is None or cbuf.register not in registers:
        return None
    fields = registers[cbuf.register]
    data = int(fields[cbuf.data_field])
    return Banks(data, int(fields[cbuf.weight_field]) if cbuf.weight_field else max(cbuf.banks - data, 0))


def row_entries(surfaces: int, width: int, entry_atoms: int) -> int:
    """Entries of a row of a feature map; of those of four atoms, three surfaces left over take a whole one."""
    if entry_atoms != _FOUR_ATOMS:
        return -(-surfaces * width // entry_atoms)
    whole, rest = divmod(surfaces, _FOUR_ATOMS)
    return whole * width + (width if rest == _FOUR_ATOMS - 1 else -(-rest * width // _FOUR_ATOMS))


def broken_limit(chip: Chip, source: cna.Config[Any], banks: Banks) -> Limit | None:
    """The limit that a convolution is known to break; None: it fits, or is unknown."""
    cbuf = chip.cbuf
    if cbuf is None:
        return None
    if banks.data + banks.weights > cbuf.banks:
        text = f"{banks.data} banks of data and {banks.weights} of weights are more than the {cbuf.banks} of CBUF"
        return Limit(LimitKind.WRONG, text, cbuf.register)
    needed = _data_entries(chip, cbuf, source)
    if needed > banks.data * chip.cbuf_bank_entries:
        text = (
            f"{source.height} rows of {source.width} pixels and {source.channels} channels need "
            f"{-(-needed // chip.cbuf_bank_entries)} banks of CBUF and get {banks.data}: they overwrite each other"
        )
        return Limit(LimitKind.WRONG, text, cbuf.register)
    if chip.most_kernels is not None and source.kernels > chip.most_kernels:
        text = f"{source.kernels} output channels in one task; the hardware counts to {chip.most_kernels}"
        return Limit(LimitKind.WRONG, text, "WEIGHT_SIZE2")
    return _broken_weights(chip, cbuf, source, banks)


def unproven(chip: Chip, source: cna.Config[Any], banks: Banks) -> str | None:
    """What a convolution does that no board is known to have done, and that is close to what hangs; None: nothing."""
    cbuf = chip.cbuf
    if cbuf is None or source.depthwise or source.compression is not None:
        return None
    if source.precision is Precision.INT4:
        numbers = source.height * source.width * source.channels
        if numbers > banks.data * cbuf.bank_bytes:
            return (
                f"{source.height * source.width} rows of {source.channels} int4 numbers in {banks.data} banks: above "
                f"{cbuf.bank_bytes} numbers for each bank it depends on the board's memory clock whether it starts"
            )
    if source.packed_channels > 1 and _picture_bytes(chip, source) > banks.data * cbuf.bank_bytes:
        return (
            f"a picture of {source.height} x {source.width} pixels occupies {banks.data} banks; the vendor's converter "
            f"gives each pixel {chip.cbuf_pixel_bytes(element_bytes(source.precision))} bytes of CBUF"
        )
    group, room = _group_bytes(chip, source), banks.weights * cbuf.bank_bytes
    if cbuf.full_group_hangs and source.weight_bytes >= room and group >= room:
        return (
            f"{source.kernels} kernels of which a group takes {group} bytes stream through {room} bytes of CBUF; "
            "with one or two groups and one bank this hangs"
        )
    return None


def _broken_weights(chip: Chip, cbuf: Cbuf, source: cna.Config[Any], banks: Banks) -> Limit | None:
    if source.depthwise or source.compression is not None:
        return None
    group, room = _group_bytes(chip, source), banks.weights * cbuf.bank_bytes
    if source.weight_bytes > room and group > room * _LEAST_PART:
        text = (
            f"a group of kernels takes {group} bytes, and the {banks.weights} banks of weights have {room}: they can "
            "neither stay in CBUF nor stream through it"
        )
        return Limit(LimitKind.WRONG, text, cbuf.register)
    groups = -(-source.weight_bytes // group) if group else 0
    if cbuf.full_group_hangs and banks.weights == 1 and group == room and groups <= _HANGING_GROUPS:
        text = (
            f"{source.kernels} kernels of {source.weight_bytes} bytes, of which one group fills the only bank of "
            f"weights ({room} bytes): this hangs the NPU until a power cycle; leave two banks to the weights"
        )
        return Limit(LimitKind.HANGS, text, cbuf.register)
    return None


def _group_bytes(chip: Chip, source: cna.Config[Any]) -> int:
    """Of the kernels that the array takes at once."""
    kernels, together = max(source.kernels, 1), 8 * chip.weight_group[0] // element_bits(source.weight_precision)
    return source.weight_bytes // kernels * min(together, kernels)


def _picture_bytes(chip: Chip, source: cna.Config[Any], *, least: bool = False) -> int:
    """Of a picture in CBUF; `least`: as little as it can be."""
    size = element_bytes(source.precision)
    pixel = chip.cbuf_pixel_bytes(size)
    if least:
        pixel = min(pixel, _LEAST_PIXEL * size if source.packed_channels == 1 else chip.atom_bytes)
    return source.height * source.width * pixel


def _data_entries(chip: Chip, cbuf: Cbuf, source: cna.Config[Any]) -> int:
    """Entries that all rows take. Pad values, and those between the pixels of a transposed one, take none."""
    if source.packed_channels:
        return -(-_picture_bytes(chip, source, least=True) // (cbuf.entry_atoms * chip.atom_bytes))
    surfaces = surfaces_of(source.channels, source.precision, chip.atom_bytes)
    return source.height * row_entries(surfaces, source.width, cbuf.entry_atoms)
