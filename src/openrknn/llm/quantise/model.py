"""A quantised language model: the integers of its products, and everything else in float."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.llm.quantise.calibrate import Ranges, Recorder, Seen, choose_scale, input_of
from openrknn.llm.quantise.hadamard import turn_blocks
from openrknn.llm.quantise.products import (
    INT4_MOST,
    INT8_MOST,
    Int4Product,
    Int8Product,
    Product,
    group_inside,
    group_size,
    int4_scales,
    int8_scales,
    rounded,
)
from openrknn.llm.quantise.rotate import RotatedSource, TurnedSource
from openrknn.llm.quantise.rounding import round_by_data
from openrknn.llm.weights import Floats, WeightSource

Precision = Literal["w8a8", "w4a16", "fp16"]
KINDS = ("q", "k", "v", "o", "gate", "up", "down", "head")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """Why a product is as it is."""

    name: str
    precision: str
    input_scale: float | None
    """W8A8: of one step of int8."""
    largest: float
    """Of the input, on the calibration text."""
    snr_db: float
    """Of the product's results against float, on a sample of the calibration text."""
    adapted: bool
    """Rounded by the data, not to the nearest."""

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def layer(self) -> int | None:
        return int(self.name.split(".")[1]) if "." in self.name else None


@dataclass(frozen=True)
class Quantised:
    """What an engine or the compiler needs."""

    source: WeightSource
    """Float weights of the (rotated) model."""
    precision: Precision
    products: Mapping[str, Product]
    """By canonical name; the head is `head` also where it is tied."""
    choices: tuple[Choice, ...]
    prefix: int | None
    """The token whose position is computed in float if a text starts with it: its keys and values are constants."""
    online: Mapping[str, int] = field(default_factory=dict)
    """Kinds of products whose input is rotated at run time."""

    def only(self, keep: Callable[[str], bool]) -> Quantised:
        """The same with some products in integers, and the others in float."""
        kept = {name: product for name, product in self.products.items() if keep(name)}
        return Quantised(self.source, self.precision, kept, self.choices, self.prefix, self.online)


class Kept(Protocol):
    """Products that an interrupted quantisation has finished (`openrknn.llm.resume.KeptProducts`)."""

    def take(self, name: str) -> tuple[Product, Choice] | None: ...

    def keep(self, name: str, product: Product, choice: Choice) -> None: ...


def product_names(source: WeightSource) -> list[str]:
    """All products with weights, in order of use."""
    known = set(source.names())
    kinds = [kind for kind in KINDS if kind != "head"]
    names = [f"layers.{layer}.{kind}" for layer in range(source.config.layers) for kind in kinds]
    return [*(name for name in names if name in known), "head"]


def quantise_language(
    source: WeightSource,
    texts: Sequence[Sequence[int]],
    *,
    precision: Precision = "w8a8",
    rotate: bool | None = None,
    online: bool = False,
    ranges: Ranges = "mse",
    prefix: int | None = None,
    adapt_seconds: float = 0.0,
    group: int = 128,
    skip: Iterable[str] = (),
    progress: Progress | None = None,
    kept: Kept | None = None,
) -> Quantised:
    """Quantise a model with calibration texts (tokens, each from its first position on).

    `rotate`: None for what the model allows (norms behind its parts: everything but the stream). `adapt_seconds`: what
    rounding by the data may take; products that come after it are rounded to the nearest. `group`: inputs that share a
    scale of int4, at most (0: all of an output); groups of `o` are inside of heads. `skip`: products or kinds that stay
    in float. `kept`: finished products are taken from there and put there; texts are not read if all of them are there.
    Raises `UnsupportedError`.
    """
    if not source.config.causal:
        raise UnsupportedError(f"{source.config.architecture}: only models that make text are quantised here")
    if not texts or any(len(text) < 2 for text in texts):
        raise ValueError("calibration needs at least one text of two tokens or more")
    turned: WeightSource = source
    if rotate or (rotate is None and source.config.norm == "rms" and source.config.norm_first):
        turns_stream = rotate or not source.config.post_norms
        turned = (RotatedSource if turns_stream else TurnedSource)(source, hidden=online)
    turns: Mapping[str, int] = turned.online if isinstance(turned, RotatedSource | TurnedSource) else {}
    if precision == "fp16":
        return Quantised(turned, precision, {}, (), prefix, turns)
    tell = progress or (lambda stage, done, of: None)
    names = [name for name in product_names(turned) if not {name, name.rpartition(".")[2]}.intersection(skip)]
    there = {name: found for name in names if kept is not None and (found := kept.take(name)) is not None}
    recorder = _OnlineRecorder(turned, turns, hessians=adapt_seconds > 0)
    for number, text in enumerate(texts if len(there) < len(names) else ()):
        tell("calibrate", number, len(texts))
        recorder.read(text)
    recorder.forget()
    products: dict[str, Product] = {}
    choices: list[Choice] = []
    until = time.monotonic() + adapt_seconds
    for number, name in enumerate(names):
        tell("round", number, len(names))
        if name in there:
            products[name] = there[name][0]
            choices.append(there[name][1])
            continue
        seen = recorder.seen[input_of(name, gated=source.config.gated)]
        is_adapted = seen.hessian is not None and time.monotonic() < until
        matrix = turned.get("embedding" if name == "head" and turned.config.tied_head else name)
        size = group_inside(source.config.head_size, group) if name.endswith(".o") else group
        made = _product(matrix, seen, precision, ranges, size, adapts=is_adapted)
        products[name] = made
        choices.append(_choice(name, precision, made, matrix, seen, is_adapted=is_adapted))
        if kept is not None:
            kept.keep(name, made, choices[-1])
    return Quantised(turned, precision, products, tuple(choices), prefix, turns)


class _OnlineRecorder(Recorder):
    """A recorder for models whose input of some products is rotated at run time."""

    def __init__(self, source: WeightSource, online: Mapping[str, int], *, hessians: bool) -> None:
        super().__init__(source, hessians=hessians)
        self._online = online

    def product(self, name: str, x: Floats) -> Floats:
        return super().product(name, turn_online(name, x, self._online))


def turn_online(name: str, x: Floats, online: Mapping[str, int]) -> Floats:
    """The input of a product, rotated if it has to be."""
    order = online.get(name.rpartition(".")[2])
    return x if order is None else turn_blocks(x, order)


def _product(matrix: Floats, seen: Seen, precision: Precision, ranges: Ranges, group: int, *, adapts: bool) -> Product:
    is_int8 = precision == "w8a8"
    most = INT8_MOST if is_int8 else INT4_MOST
    size = group_size(matrix.shape[1], group) if group else matrix.shape[1]
    scales = int8_scales(matrix) if is_int8 else int4_scales(matrix, size)
    if adapts and seen.hessian is not None:
        stored = round_by_data(matrix, scales, most, seen.hessian)
    else:
        stored = rounded(matrix, scales, most)
    return Int8Product(stored, scales, choose_scale(seen, ranges)) if is_int8 else Int4Product(stored, scales)


_ROWS = 32


def _choice(name: str, precision: str, product: Product, matrix: Floats, seen: Seen, *, is_adapted: bool) -> Choice:
    sample = seen.sample
    sample = sample[:: max(1, len(sample) // _ROWS)]
    wanted = sample @ matrix.T
    error = float(np.square(product(sample) - wanted).sum()) or 1e-30
    decibels = 10 * float(np.log10(max(float(np.square(wanted).sum()), 1e-30) / error))
    scale = product.input_scale if isinstance(product, Int8Product) else None
    return Choice(name, precision, scale, seen.largest, decibels, is_adapted)
