"""What decides how a convolution is cut into bands, and what a band is."""

from __future__ import annotations

from dataclasses import dataclass, field

from openrknn.compiler.targets import Buffer
from openrknn.compiler.tile.columns import LONGEST, Axis, Columns


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides about the cut."""

    channels: int
    height: int
    """Rows of the input that are used."""
    width: int
    """Columns that are read; transposed: with the pad values between them."""
    out_height: int
    kernel: tuple[int, int]
    stride: int
    dilation: int
    pad_top: int
    depthwise: bool
    stored_kernels: int
    """1 for depthwise."""
    kernel_channels: int
    """Channels of one kernel as they are stored; of the first chunk for depthwise."""
    picture_row: int
    """Pixels of a row in memory, 0 for feature maps."""
    spread: int = 1
    """Transposed: distance of input rows once pad values stand between them."""
    pixels: int = 0
    """Of the output."""
    buffer: Buffer = field(kw_only=True)
    axis: Axis | None = None
    """Along the rows, where they may be cut."""
    can_skip: bool = True
    """Whether a task can skip the rest of the output's rows; where columns are cut, it writes one row otherwise."""
    most_out: int = LONGEST
    """Rows of the output that one task writes."""

    @property
    def reach(self) -> int:
        return (self.kernel[0] - 1) * self.dilation + 1

    @property
    def room(self) -> int:
        """Rows that one row of the input takes in the buffer."""
        return self.spread if self.buffer.counts_spread else 1


@dataclass(frozen=True, slots=True)
class Band:
    """One task."""

    channel: int
    channels: int
    row: int
    rows: int
    out_row: int
    out_rows: int
    pad_top: int
    data_banks: int
    weight_banks: int
    reuses_weights: bool
    kernel: int = 0
    kernels: int = 0
    """Where kernels are cut: how many of them, from `kernel` on; 0: all."""
    columns: Columns | None = None
    """Where columns are cut: which."""
    kept: int = 0
    """First rows that are in the buffer already, from the band before."""
    entry: int = 0
    """Where in the buffer the first row is, if rows are kept: the data's banks are a ring."""
