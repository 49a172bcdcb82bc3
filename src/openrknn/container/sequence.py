"""A decoder with caches: one zip with the `.rknn` of a step, that of cross attention, tables, and a manifest.

manifest.json       what is fed with what: tables, caches, masks, what an encoder gives
step.rknn           one token: a row of each table, caches, masks -> logits and new rows of the caches
cross.rknn          an encoder's states -> keys and values of cross attention (not in every file)
tables/....bin      rows by token or by position: int8, uint8 or half floats, one behind the other
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from openrknn.container.bundle import format_in, read_zip, write_zip
from openrknn.container.dataclass_json import from_plain
from openrknn.errors import BadTextError, FormatError

FORMAT, _VERSION = "openrknn-decoder", 1
_TYPES = {"int8": 1, "uint8": 1, "float16": 2}
_MOST, _MOST_DIMENSIONS, _MOST_ZERO = 1 << 31, 8, 255
_STEP, _CROSS = "step.rknn", "cross.rknn"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An input of the step that is a row of a table."""

    input: str
    by: str
    """ "token" or "position"."""
    shape: tuple[int, ...]
    file: str
    type: str
    rows: int
    scale: tuple[float, ...] = ()
    """Of integers: one, or one for each column."""
    zero: int = 0

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class CacheInput:
    """An input of as many rows as the capacity, and the output with the row that comes next."""

    input: str
    output: str
    axis: int


@dataclass(frozen=True, slots=True)
class BoundInput:
    """An input that an encoder gives once; `axis` are its frames."""

    input: str
    axis: int


@dataclass(frozen=True)
class DecoderFile:
    """What `openrknn.Decoder` runs."""

    target: str
    capacity: int
    """Tokens that there is room for."""
    frames: int
    """Of the encoder, at the most; 0: there is none."""
    vocabulary: int
    tables: tuple[TableEntry, ...]
    caches: tuple[CacheInput, ...]
    bound: tuple[BoundInput, ...] = ()
    states: str = ""
    """The input of cross.rknn; empty: there is no such file."""
    mask: str = "mask"
    """The input that says which rows of the caches are filled; empty: none."""
    cross_mask: str = ""
    made_by: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    path: str | None = None

    @property
    def step(self) -> bytes:
        """The model of a step."""
        return self.files[_STEP]

    @property
    def cross(self) -> bytes | None:
        """The model that computes cross attention's keys and values."""
        return self.files.get(_CROSS)


def is_decoder(source: object) -> bool:
    """Whether a path or bytes hold such a file."""
    return format_in(source) == FORMAT


def write_decoder(decoder: DecoderFile) -> bytes:
    """The file. The same decoder gives the same bytes; nothing is packed, so that it opens quickly."""
    manifest: dict[str, Any] = {"format": FORMAT, "version": _VERSION}
    names = ("target", "capacity", "frames", "vocabulary", "states", "mask", "cross_mask", "made_by")
    manifest.update({name: getattr(decoder, name) for name in names})
    manifest.update({name: [asdict(one) for one in getattr(decoder, name)] for name in ("tables", "caches", "bound")})
    return write_zip(manifest, decoder.files, packed=False)


def read_decoder(source: str | os.PathLike[str] | bytes) -> DecoderFile:
    """Read and check: sizes, names, that every table is as long as it says."""
    manifest, files, path = read_zip(source, FORMAT, _VERSION, "a decoder")
    name = path or "the decoder"
    try:
        decoder = from_plain(DecoderFile, manifest, ("made_by",), files=files, path=path)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadTextError(f"the manifest of {name} is not one of a decoder: {error!r}") from None
    _check(decoder, name)
    return decoder


def _check(decoder: DecoderFile, name: str) -> None:
    if _STEP not in decoder.files:
        raise FormatError(f"{name} has no {_STEP}")
    if bool(decoder.states) != (_CROSS in decoder.files):
        raise FormatError(f"{name}: its manifest and its files do not agree about {_CROSS}")
    for what in ("capacity", "vocabulary"):
        if not 0 < getattr(decoder, what) < _MOST:
            raise FormatError(f"{name} has a {what} of {getattr(decoder, what)}")
    if not 0 <= decoder.frames < _MOST or bool(decoder.frames) != bool(decoder.bound):
        raise FormatError(f"{name} has {decoder.frames} frames of an encoder, and {len(decoder.bound)} inputs for them")
    if not decoder.caches or not any(table.by == "token" for table in decoder.tables):
        raise FormatError(f"{name} has no cache, or no table of tokens: it is no decoder")
    for table in decoder.tables:
        _check_table(decoder, table, name)
    axes = {**{one.input: one.axis for one in decoder.caches}, **{one.input: one.axis for one in decoder.bound}}
    for given, axis in axes.items():
        if not 0 <= axis < _MOST_DIMENSIONS:
            raise FormatError(f"{name}: {given!r} has its rows on dimension {axis}")


def _check_table(decoder: DecoderFile, table: TableEntry, name: str) -> None:
    what = f"the table of {table.input!r} in {name}"
    if table.by not in ("token", "position") or table.type not in _TYPES:
        raise FormatError(f"{what} is by {table.by!r} and of {table.type!r}")
    if not all(0 < size < _MOST for size in table.shape) or not 0 < table.rows < _MOST or table.columns >= _MOST:
        raise FormatError(f"{what} has {table.rows} rows of {table.shape}, which cannot be")
    if table.file not in decoder.files:
        raise FormatError(f"{what} is {table.file!r}, which is not in the zip")
    wanted = table.rows * table.columns * _TYPES[table.type]
    if len(decoder.files[table.file]) != wanted:
        raise FormatError(f"{what} has {len(decoder.files[table.file])} bytes, not {wanted}")
    integers = table.type != "float16"
    if integers != bool(table.scale) or len(table.scale) not in (0, 1, table.columns):
        raise FormatError(f"{what} has {len(table.scale)} scales for {table.columns} columns of {table.type}")
    if not all(math.isfinite(number) for number in table.scale) or abs(table.zero) > _MOST_ZERO:
        raise FormatError(f"{what} has a scale or a zero point that cannot be")
    if table.by == "position" and table.rows < decoder.capacity:
        raise FormatError(f"{what} has {table.rows} positions for a capacity of {decoder.capacity}")
