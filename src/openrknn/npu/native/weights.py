"""Weights that other chips store in other ways, in the order that the kernels know.

RK3562, RK3576 and the RV chips have the zero points of depthwise weights between the weights, or one for all of them;
the kernels add them as they add RK3588's corrections. RK3576 gives each row of an image kernel 16 bytes. Compressed
weights are decompressed before they are packed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.npu.blocks import cna
from openrknn.npu.blocks.formats import Numbers, decode
from openrknn.npu.memory import Bytes
from openrknn.npu.native.places import Places
from openrknn.npu.native.reading import RefusedError


class Plain(NamedTuple):
    """Weights as [row, column, kernel, channel], depthwise [row, column, channel], and what is added to them."""

    values: npt.NDArray[np.int8] | None
    """None: memory has them in an order that the kernels know."""
    corrections: npt.NDArray[np.int64]
    """Of each kernel."""


def plain(source: cna.Config, places: Places, channels: int) -> Plain:
    """For an output of `channels` channels."""
    corrections = np.zeros(channels, np.int64)
    if not (source.inline_zero_points or source.weight_offset or source.packed_rows):
        return Plain(None, corrections)
    _refuse_mixtures(source)
    if not is_fixed(source, places):
        raise RefusedError("weights in an order of their own that change")
    if source.packed_rows:
        return Plain(np.ascontiguousarray(cna.fetch_weights(source, places.memory).transpose(1, 2, 0, 3)), corrections)
    if not source.inline_zero_points:
        available = source.packed_channels or source.channels
        kernels = min(source.weight_channels, available) if source.depthwise else source.kernels
        corrections[:kernels] = source.weight_offset
        return Plain(None, corrections)
    raw = decode(cna.stored_weights(source, places.memory), source.weight_precision)
    pairs = cna.pairs_of(raw, source.inline_zero_points)
    weights, negated = (
        cna.depthwise_weights(np.ascontiguousarray(pairs[:, part]).reshape(-1), source) for part in (0, 1)
    )
    count = min(len(weights), channels)
    corrections[:count] = _one_each(negated)[:count]
    return Plain(np.ascontiguousarray(weights.transpose(1, 2, 0)), corrections)


def _refuse_mixtures(source: cna.Config) -> None:
    """Each order was seen with one kind of convolution; with another, NumPy says what comes out."""
    if source.is_float:
        raise RefusedError("floating point weights in an order of int8 weights")
    if source.packed_rows and source.depthwise:
        raise RefusedError("depthwise weights in the rows of an image kernel")
    if source.inline_zero_points and not source.depthwise:
        raise RefusedError("zero points between weights that are not depthwise")


def is_fixed(source: cna.Config, places: Places) -> bool:
    """Whether the weights never change."""
    if source.compression is None:
        return places.is_fixed(source.weight_address, source.weight_bytes)
    return all(places.is_fixed(stream.address, stream.size) for stream in source.compression.streams)


def stored(source: cna.Config, places: Places) -> Bytes:
    """The bytes of the weights as the kernels find them: in memory, or decompressed once."""
    if source.compression is None:
        return places.read(source.weight_address, source.weight_bytes, "CNA weights")
    if not is_fixed(source, places):
        raise RefusedError("compressed weights that change")
    for stream in source.compression.streams:
        places.read(stream.address, stream.size, "CNA compressed weights")
    weights = cna.stored_weights(source, places.memory)
    places.keep(weights)
    return weights


def _one_each(negated: Numbers) -> npt.NDArray[np.int64]:
    """The zero point of each channel; it stands at every tap."""
    flat = negated.reshape(len(negated), -1).astype(np.int64)
    if np.any(flat != flat[:, :1]):
        raise RefusedError("zero points that differ within a channel")
    return np.where(flat[:, 0] == cna.NOT_A_BYTE, -cna.NOT_A_BYTE, flat[:, 0])
