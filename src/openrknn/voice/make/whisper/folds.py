"""Channels that products read, made alike: int8 has one scale for all of them, and some are ten times as large.

What makes them (a layer norm, or the product of the values, which attention only averages) gives each channel less a
number, divided by a factor; the products that read them take both back in their weights and biases: in float nothing
changes. Keys have no bias, and need none: a number more in all scores of a query is nothing to a softmax. Between the
two products of the feed-forward part there is a Gelu, which neither passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from openrknn.compiler.quantise.ranges import Range
from openrknn.voice.make.whisper.checkpoint import HEAD, Array, Checkpoint

_LEAST = 1e-6
"""A channel that is never larger is as good as empty."""


class Fold(NamedTuple):
    """Channels between what makes them and the products that read them."""

    maker: str
    """A layer norm, or a product, whose outputs are these channels."""
    readers: tuple[str, ...]


def folds_of(weights: Checkpoint) -> list[Fold]:
    """Of all layers; a product is the place of its weights ("encoder.blocks.0.attn.query")."""
    found = []
    layers = range(weights.layers("decoder"))
    for side, kinds in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
        for layer in range(weights.layers(side)):
            before = f"{side}.blocks.{layer}."
            for kind in kinds:
                parts = ("query",) if kind == "cross_attn" else ("query", "key", "value")
                found.append(Fold(f"{before}{kind}_ln", tuple(f"{before}{kind}.{part}" for part in parts)))
                found.append(Fold(f"{before}{kind}.value", (f"{before}{kind}.out",)))
            found.append(Fold(f"{before}mlp_ln", (f"{before}mlp.0",)))
    states = tuple(f"decoder.blocks.{layer}.cross_attn.{part}" for layer in layers for part in ("key", "value"))
    return [*found, Fold("encoder.ln_post", states), Fold("decoder.ln", (HEAD,))]


def folded(weights: Checkpoint, seen: Mapping[str, tuple[Array, Array]]) -> tuple[Checkpoint, dict[str, Range]]:
    """The same model with other weights, and the ranges of what its products read then.

    `seen`: product -> the smallest and the largest number of each channel. The middle of the two is what a channel is
    given less, and it gets the geometric mean of its own size and of its weights'.
    """
    arrays = {**weights.arrays, f"{HEAD}.weight": weights.head, f"{HEAD}.bias": np.zeros(weights.words, np.float32)}
    ranges: dict[str, Range] = {}
    for maker, readers in folds_of(weights):
        low = np.min([seen[reader][0] for reader in readers], axis=0)
        high = np.max([seen[reader][1] for reader in readers], axis=0)
        middle, size = (low + high) / 2, np.maximum((high - low) / 2, _LEAST)
        gains = np.max([_largest_columns(arrays[f"{reader}.weight"]) for reader in readers], axis=0)
        ratio = size / np.maximum(gains, _LEAST)
        factor = np.sqrt(ratio / np.exp(np.log(ratio).mean())).astype(np.float32)
        made = arrays[f"{maker}.weight"]
        arrays[f"{maker}.weight"] = made / factor.reshape(-1, *[1] * (made.ndim - 1))
        arrays[f"{maker}.bias"] = (arrays[f"{maker}.bias"] - middle) / factor
        most = float((size / factor).max())
        for reader in readers:
            matrix = arrays[f"{reader}.weight"]
            if f"{reader}.bias" in arrays:
                arrays[f"{reader}.bias"] = arrays[f"{reader}.bias"] + matrix @ middle
            arrays[f"{reader}.weight"] = matrix * factor
            ranges[reader] = -most, most
    return replace(weights, arrays=arrays), ranges


def _largest_columns(matrix: Array) -> Array:
    """Of each input, beside the largest weight of the product."""
    found: Array = np.abs(matrix).max(axis=0) / max(float(np.abs(matrix).max()), _LEAST)
    return found
