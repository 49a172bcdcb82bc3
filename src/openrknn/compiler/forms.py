"""Normalised operators, typed: what `lower` has to know of each kind. Until then ONNX's attributes are a dict."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any

Pads = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number: relu, clip, leaky, prelu (the NPU has them), or one of `functions.FUNCTIONS`."""

    function: str
    alpha: float | None = None
    beta: float | None = None
    """The upper bound of clip, and what ONNX calls so."""
    slope: tuple[float, ...] = ()
    """prelu: of each channel."""

    @property
    def numbers(self) -> tuple[float, float]:
        """alpha and beta; 0 where the function has none."""
        return self.alpha or 0.0, self.beta or 0.0


@dataclass(frozen=True, slots=True)
class Conv:
    """Inputs: map, weights, bias; a fourth one is added to the result."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    """Top, left, bottom, right; negative ones crop."""
    group: int = 1
    pad_value: float = 0.0
    activation: Activation | None = None
    post_relu: bool = False
    """Behind the addition."""
    edges: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Factors of the outermost rows and columns, from the edge inwards."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A window of a map."""

    method: str
    """max or average."""
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: Pads


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands: (left + offset) * gain, then the method with the right one."""

    method: str
    broadcast: str
    """pixel: both have the same shape. channel: the right one has a number for each channel."""
    gain: float = 1.0
    offset: float = 0.0
    post_relu: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """A window into channels, or into the one run of all pixels."""

    start: int
    along_pixels: bool = False


@dataclass(frozen=True, slots=True)
class Concat:
    """Channels, or pixels, side by side."""

    starts: tuple[int, ...]
    along_pixels: bool = False
    atom: int = 0
    """Parts have room for whole atoms of so many channels."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every pixel so many times, down and across."""

    factors: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Softmax:
    """Over each of so many groups of channels."""

    groups: int
    shares_table: str = ""
    """The function of the `Gate` whose table has the exponential too: a model with both loads one table, once."""
    parts: int = 1
    """Pixels are so many parts that cores can do without one another; what made them was shared in the same way."""
    is_bounded: bool = False
    """Nothing is below -32000: the distance from the maximum is a number of fp16."""
    is_halved: bool = False
    """The scores come divided by two, so the distance from the maximum is a number of fp16 whatever they are."""
    is_late: bool = False
    """The exponentials are the result, and their sums (times `late_gain`) a second one: a `Product` divides."""


@dataclass(frozen=True, slots=True)
class Gate:
    """silu(x) * y, or with a gelu, by the table that a Softmax can share; with one input silu(x)."""

    function: str = "silu"


@dataclass(frozen=True, slots=True)
class Fold:
    """The same memory as a map of fewer channels: every `count`-th group of a pixel's channels is a pixel."""

    count: int


@dataclass(frozen=True, slots=True)
class Product:
    """Products of two maps, for each head of each window."""

    heads: int
    windows: int
    depth: int
    kernels: int
    rows: int
    left: str
    right: str
    turned: bool
    out: str
    gain: float
    is_divided: bool = False
    """By the third operand, the sums of the left one's channels."""

    @property
    def count(self) -> int:
        return self.windows * self.heads


def late_gain(length: int) -> float:
    """What sums of so many exponentials, and their products with values, are multiplied by before they are stored.

    An exponential is at most 1. Products of values up to 8,188 stay below 65,504; a power of two, no smaller than
    needed, because results that are subnormal lose digits.
    """
    return 2.0 ** min(0, 3 - (length - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Turn:
    """A transposition of [1, C, H, W]."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A guess from the bits of a number; what is smaller than `least` counts as that."""

    least: float = 0.0


@dataclass(frozen=True, slots=True)
class BlockTurn:
    """Blocks of `order` channels times one matrix; block p has every (channels / order)-th surface from p on."""

    order: int


@dataclass(frozen=True, slots=True)
class CachedAttention:
    """Attention over a cache of keys and values that are stored as weights, and over rows that are new.

    Pixels are (head, token): heads that share keys lie side by side. Channels of scores are the rows of the cache,
    then the new ones (`fresh` channels: whole groups).
    """

    heads: int
    kv_heads: int
    size: int
    """Numbers of a head."""
    tokens: int
    capacity: int
    """Rows of the cache; 0: there is none, the whole text is new, and what hides rows is an input."""
    fresh: int
    offset: int
    """Bytes from the start of the cache to the rows of this layer; heads follow one another."""
    turned: int = 0
    """Numbers of a head that are rotated; 0: all of them."""
    window: int = 0
    """Tokens that one sees, itself included; 0: all before it."""
    cap: float = 0.0
    """Scores are this times tanh of what the product gives, which is masked behind it (`MaskScores`); 0: no cap."""
    masks: tuple[int, ...] = ()
    """Not empty: each token belongs to a sequence of its own with its own cache; first pixels of their masks.

    Tokens behind the last sequence see nothing but themselves.
    """

    @property
    def shared(self) -> int:
        """Heads of queries that share one of keys and values."""
        return self.heads // self.kv_heads

    @property
    def head_bytes(self) -> int:
        """Of one head's rows in the cache."""
        return self.capacity * self.size * 2


@dataclass(frozen=True, slots=True)
class UnitNorm:
    """x / sqrt(mean of x * x) of one pixel. Squares are summed in fp32: (sum + `addend`) / 2 ** `power` is fp16."""

    addend: float
    power: int


@dataclass(frozen=True, slots=True)
class NarrowProduct:
    """Inputs: map of fp16, weights of int4 [O, I], scales [O, groups of I]; a fourth one is added to the result."""

    heads: int = 1
    """Parts of the inputs whose surfaces take turns in the map; each group is in one of them."""


Form = (
    Activation | Binary | BlockTurn | CachedAttention | Concat | Conv | Estimate | Fold | Gate | NarrowProduct | Pool
    | Product | Repeat | Slice | Softmax | Turn | UnitNorm
)  # fmt: skip
FORMS = MappingProxyType({
    "Activation": Activation, "Binary": Binary, "BlockTurn": BlockTurn, "CachedScores": CachedAttention,
    "CachedValues": CachedAttention, "Concat": Concat, "Conv": Conv, "ConvTranspose": Conv, "Fold": Fold, "Gate": Gate,
    "InverseEstimate": Estimate, "MaskScores": CachedAttention, "NarrowProduct": NarrowProduct, "Pool": Pool,
    "Product": Product, "Repeat": Repeat, "RootEstimate": Estimate, "Slice": Slice, "Softmax": Softmax,
    "Turn": Turn, "UnitNorm": UnitNorm,
})  # fmt: skip
"""Operator of the intermediate form -> what a normalised one has."""


def shown_fields(form: Form) -> dict[str, Any]:
    """What differs from the defaults."""
    found = {field.name: (getattr(form, field.name), field.default) for field in fields(form)}
    return {name: value for name, (value, default) in found.items() if default is MISSING or value != default}
