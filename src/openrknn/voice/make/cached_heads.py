"""Attention of a decoder step over a cache, in graphs of one token: the same for Moonshine and Whisper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from openrknn.voice.make.writer import GraphWriter

__all__ = ["CachedHeads", "whole"]


class CachedHeads:
    """A layer whose heads have `room` channels each: their numbers, padded to whole groups."""

    graph: GraphWriter
    heads: int
    room: int

    def one(self, row: str) -> str:
        """The heads of a row as matrices of one row."""
        return self.graph.reshape(row, 1, self.heads, 1, self.room)

    def seen(self, cache: str, *, is_key: bool) -> str:
        """[1, heads * room, 1, rows] as matrices of the heads."""
        heads = self.graph.reshape(cache, 1, self.heads, self.room, -1)
        return heads if is_key else self.graph.op("Transpose", heads, perm=[0, 1, 3, 2])

    def over_cache(self, query: str, key: str, new: str, kept: Sequence[str], mask: str) -> str:
        """One softmax over the scores of the cache and of the new row: the cache itself is not copied."""
        graph = self.graph
        before = graph.op("MatMul", query, self.seen(kept[0], is_key=True))
        own = graph.op("MatMul", query, graph.reshape(key, 1, self.heads, self.room, 1))
        scores = graph.op("Softmax", graph.op("Concat", graph.op("Add", before, mask), own, axis=3), axis=-1)
        past = graph.op("Slice", scores, whole(0), whole(-1), whole(3))
        last = graph.op("Slice", scores, whole(-1), whole(2**31 - 1), whole(3))
        mixed = graph.op("MatMul", past, self.seen(kept[1], is_key=False))
        return graph.op("Add", mixed, graph.op("Mul", self.one(new), last))


def whole(*numbers: int) -> npt.NDArray[np.int64]:
    """Integers as ONNX takes them."""
    return np.array(numbers, np.int64)
