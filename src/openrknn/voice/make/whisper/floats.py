"""Whisper in float, from its graphs: what it hears in a window, and the logits of a text that is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.float_model import FloatModel
from openrknn.numerics import MASKED
from openrknn.runtime.decoder.decoder import Fed
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint
from openrknn.voice.make.whisper.graphs import GROUP, decoder_graph, room_of, rows_of
from openrknn.voice.whisper.search import Search
from openrknn.voice.whisper.vocabulary import Vocabulary


class FloatSteps:
    """The decoder's step with its caches, in place of `openrknn.Decoder`. One text at a time."""

    def __init__(self, weights: Checkpoint) -> None:
        model = decoder_graph(weights, weights.context, ())
        self._model = FloatModel(model, [entry.name for entry in model.graph.output], fuses=True)
        self._feed = empty_feed(model)
        self._weights = weights
        self.length = 0

    def start(self, states: Mapping[str, Array]) -> None:
        """A new window."""
        put_states(self._feed, states, self._weights)
        self.rewind(0)

    def rewind(self, length: int) -> None:
        """Forget what is behind so many tokens."""
        self.length = length
        self._feed["mask"][0, :length], self._feed["mask"][0, length:] = 0, -MASKED

    def fork(self, beams: int) -> None:
        """Not supported."""
        raise NotImplementedError("greedy only")

    def reorder(self, order: Sequence[int]) -> None:
        """Not supported."""
        raise NotImplementedError("greedy only")

    def step(self, token: int | Sequence[int]) -> Array:
        """The logits behind one token more."""
        at = self.length
        put_tokens(self._feed, [int(np.reshape(token, -1)[0])], self._weights, at)
        found = dict(self._model.run(self._feed))
        for name, value in found.items():
            if name.startswith("new."):
                self._feed[name.replace("new.", "cache.")][..., at] = value[..., 0]
        self._feed["mask"][0, at] = 0
        self.length += 1
        return np.asarray(found["logits"].reshape(-1), np.float32)

    def feed(self, tokens: Sequence[int], outputs: Sequence[str] = ()) -> Iterator[Fed]:
        """Several tokens, one after the other."""
        for at, token in enumerate(tokens):
            yield Fed(at, self.step(int(token))[None], {})


def heard(steps: FloatSteps, vocabulary: Vocabulary, states: Mapping[str, Array], most: int) -> list[int]:
    """Tokens of a window from the beginning mark on, at most so many: greedy, in the language that is detected."""
    search = Search(steps, vocabulary, most)
    steps.start(states)
    chances = search.languages()
    start = vocabulary.start(max(chances, key=lambda code: chances[code]), "transcribe")
    search.begin((), start)
    tokens, _, _ = search.decode(0.0, 1, np.random.default_rng(0))
    return [*start, *tokens][:most]


def text_graph(weights: Checkpoint, tokens: int) -> Any:
    """The decoder for a text of so many tokens at once, without a cache before it."""
    return decoder_graph(weights, GROUP, (), tokens)


def text_feed(model: Any, weights: Checkpoint, states: Mapping[str, Array], tokens: Sequence[int]) -> dict[str, Array]:
    """Inputs of `text_graph`; behind the last token there are others, which those before do not see."""
    feed = empty_feed(model)
    feed["mask"][:] = -MASKED
    put_states(feed, states, weights)
    put_tokens(feed, [*tokens, *[0] * (feed["token"].shape[-1] - len(tokens))], weights, 0)
    return feed


def empty_feed(model: Any) -> dict[str, Array]:
    """Zeros for every input."""
    return {
        entry.name: np.zeros([size.dim_value for size in entry.type.tensor_type.shape.dim], np.float32)
        for entry in model.graph.input
    }


def put_states(feed: dict[str, Array], states: Mapping[str, Array], weights: Checkpoint) -> None:
    """Keys and values of the encoder [1, heads, frames, size], each head in its room."""
    room, rows = room_of(weights), rows_of(weights)
    for name, value in states.items():
        heads, frames, size = value.shape[1:]
        filled = np.zeros((heads, room, rows), np.float32)
        filled[:, :size, :frames] = value[0].transpose(0, 2, 1)
        feed[name][:] = filled.reshape(1, heads * room, 1, rows)
        feed["cross_mask"][0, frames:] = -MASKED


def put_tokens(feed: dict[str, Array], tokens: Sequence[int], weights: Checkpoint, first: int) -> None:
    """Rows of these tokens, and of their positions."""
    places = np.minimum(np.arange(first, first + len(tokens)), weights.context - 1)
    feed["token"][0, :, 0] = weights["decoder.token_embedding.weight"][list(tokens)].T
    feed["position"][0, :, 0] = weights["decoder.positional_embedding"][places].T
