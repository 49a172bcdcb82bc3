"""Heads of the decoder's cross attention that follow the words, by model: what times of words are computed from.

Facts about the trained weights, found by OpenAI and published with the models. Other models (distilled or tuned ones)
take all heads of the upper half of the layers, which is less exact.
"""

from __future__ import annotations

from openrknn.voice.make.whisper.checkpoint import Checkpoint

_ENGLISH = 51864
_NEWEST = 51866
"""Tokens from large-v3 on, which has one language more."""
_KNOWN: dict[tuple[int, int, int, bool], str] = {
    # encoder's layers, decoder's layers, heads, English only: layer.head ...
    (4, 4, 6, True): "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4",
    (4, 4, 6, False): "2.2 3.0 3.2 3.3 3.4 3.5",
    (6, 6, 8, True): "3.3 4.7 5.1 5.5 5.7",
    (6, 6, 8, False): "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6",
    (12, 12, 12, True): "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4",
    (12, 12, 12, False): "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5",
    (24, 24, 16, True): "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 20.9 20.14 "
    "21.12",
    (24, 24, 16, False): "13.15 15.4 15.15 16.1 20.0 23.4",
    (32, 32, 20, False): "10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 22.3 22.9 22.12 "
    "23.5 23.7 23.13 25.5 26.1 26.12 27.15",
    (32, 4, 20, False): "2.4 2.11 3.3 3.6 3.11 3.14",
}
_LARGE_V3 = "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6"


def alignment_heads(weights: Checkpoint) -> tuple[tuple[int, int], ...]:
    """(layer, head) of each: those of the files, unless they are another model's.

    Distilled models (distil-large-v3) come with the list of their teacher, whose decoder has more layers.
    """
    layers, heads = weights.layers("decoder"), weights.head_count("decoder")
    given = weights.alignment
    if given and all(layer < layers and head < heads for layer, head in given):
        return given
    found = _KNOWN.get((weights.layers("encoder"), layers, heads, weights.words <= _ENGLISH))
    if found and weights.words >= _NEWEST and layers == 32:
        found = _LARGE_V3
    if not found:
        return tuple((layer, head) for layer in range(layers // 2, layers) for head in range(heads))
    pairs = (pair.split(".") for pair in found.split())
    return tuple((int(layer), int(head)) for layer, head in pairs)
