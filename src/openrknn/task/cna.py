"""CNA: what it fetches, how it converts and pads it, and the convolution that follows."""

from __future__ import annotations

from typing import Generic, NamedTuple

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.layout.compression import Scheme
from openrknn.records import dataclass
from openrknn.task.formats import ATOM_BYTES, MIXED, is_float
from openrknn.task.place import A

__all__ = ["Compression", "Config", "Converter", "Stream"]


@dataclass(frozen=True, slots=True)
class Converter:
    """The input converter; lane k serves the channels c with c mod 4 = k."""

    add_first: bool
    rounding: numerics.Rounding
    shifts: tuple[int, ...]
    scales: tuple[int, ...]
    offsets: tuple[int, ...]
    lanes: int
    """Bit k: channels c with c mod 16 = k are converted."""


class Stream(NamedTuple):
    """The place of one lane of compressed weights."""

    address: int
    header_bytes: int
    size: int
    """With the header."""


@dataclass(frozen=True, slots=True)
class Compression:
    """The lanes of one task's weights."""

    scheme: Scheme
    streams: tuple[Stream, ...]

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return sum(stream.size for stream in self.streams)


@dataclass(frozen=True, slots=True)
class Config(Generic[A]):
    """One convolution's input side, in natural units."""

    feature_address: A
    height: int
    width: int
    channels: int
    packed_channels: int
    """Channels of a packed picture; 0 for feature maps."""
    line_bytes: int
    surface_bytes: int
    precision: Precision
    is_unsigned: bool
    converter: Converter | None
    pad_top: int
    pad_left: int
    pad_bits: int
    out_height: int
    out_width: int
    weight_address: A
    weight_bytes: int
    weight_channels: int
    weight_precision: Precision
    kernels: int
    kernel_height: int
    kernel_width: int
    stride_x: int
    stride_y: int
    dilation_x: int
    dilation_y: int
    spread_x: int
    """Transposed convolution: distance between input pixels once pad values stand between them; 1 = none."""
    spread_y: int
    depthwise: bool
    atom_bytes: int = ATOM_BYTES
    kernel_group: int = 32
    """Kernels in one group of weights."""
    input_group: int = 32
    depthwise_group: int = 64
    inline_zero_points: int = 0
    """Depthwise: this many weights, then as many negated zero points, take turns; the weight is their sum."""
    weight_offset: int = 0
    """Depthwise: negated zero point of all weights."""
    folded_width: int = 0
    """Feature maps: the one input row is stored as lines of so many pixels; 0: it does not."""
    packed_rows: bool = False
    """Image weights: each row of a kernel fills whole 16 bytes of its own, [group, row, kernel, column and channel]."""
    input_major: bool = False
    """Weights of one pixel lie as [input, kernel], as a fully connected layer with zero skipping wants them."""
    reuses_weights: bool = False
    """The buffer holds them already: no result depends on it, but what is read does."""
    compression: Compression | None = None
    """None: the weights are stored as they are."""

    @property
    def arithmetic(self) -> Precision:
        """The format that the array multiplies in: the weights', which where formats are mixed become the features'."""
        return self.precision if (self.precision, self.weight_precision) in MIXED else self.weight_precision

    @property
    def is_float(self) -> bool:
        return is_float(self.arithmetic)
