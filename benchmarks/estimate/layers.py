"""The per-layer tables that boards printed, beside the same model: an independent check of what bounds a layer.

The tables were taken with per-layer timing on, where each layer is a job of its own that waits for the one before it:
a constant per layer, the median of what the model does not explain, stands for that.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from openrknn.chips import CHIPS, Chip
from openrknn.cost import Bound, Kind, Shape, board_of, spent_by, work_of

__all__ = ["Layer", "Told", "read_layers", "tell"]

_PICTURE = 3
_TABLE = {"ConvSwish", "ConvSigmoid"}
_SECOND_OPERAND = {"Add", "ConvReluAdd"}


class Layer(NamedTuple):
    """One row of a board."""

    table: str
    operator: str
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    out_height: int
    out_width: int
    kernel: int
    time_us: int


class Told(NamedTuple):
    """A layer with what the model says of it."""

    layer: Layer
    predicted_us: float
    """Without the constant of the table."""
    bound: Bound


def read_layers(path: Path) -> list[Layer]:
    """All rows of all tables."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Layer(row[0], row[1], *map(int, row[2:])) for row in rows]


def tell(layers: Sequence[Layer]) -> tuple[list[Told], float]:
    """Predictions, and the constant per layer in microseconds."""
    chip = CHIPS["rk3588"]
    told = []
    for layer in layers:
        spent = spent_by(work_of(_shape(layer, chip), chip), board_of(chip))
        told.append(Told(layer, spent.seconds * 1e6, spent.bound))
    return told, statistics.median(entry.layer.time_us - entry.predicted_us for entry in told)


def _shape(layer: Layer, chip: Chip) -> Shape:
    pixels, read = layer.out_height * layer.out_width, layer.in_height * layer.in_width
    source, made = _atoms(layer.in_channels, chip) * read, _atoms(layer.out_channels, chip) * pixels
    if layer.operator == "MaxPool":
        return Shape(Kind.POOLING, pixels, 2 * layer.kernel, feature_bytes=source, written_bytes=made)
    if not layer.operator.startswith("Conv"):
        other = made if layer.operator in _SECOND_OPERAND else 0
        return Shape(Kind.FLYING, pixels, channels=layer.out_channels, feature_bytes=source, operand_bytes=other,
                     written_bytes=made)  # fmt: skip
    picture = layer.in_channels == _PICTURE and layer.in_height > layer.out_height
    taps, spread = layer.kernel**2, layer.operator == "ConvTranspose"
    return Shape(
        Kind.PICTURE if picture else Kind.DEPTHWISE if spread else Kind.CONVOLUTION, pixels, taps, layer.in_channels,
        layer.out_channels, channels=layer.out_channels, uses_table=layer.operator in _TABLE,
        feature_bytes=read * _PICTURE if picture else source,
        weight_bytes=taps * layer.in_channels * (1 if spread else layer.out_channels),
        operand_bytes=made if layer.operator in _SECOND_OPERAND else 0, written_bytes=made,
    )  # fmt: skip


def _atoms(channels: int, chip: Chip) -> int:
    return -(-channels // chip.atom_bytes) * chip.atom_bytes
