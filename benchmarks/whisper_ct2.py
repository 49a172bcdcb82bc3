"""A Whisper of CTranslate2, for faster-whisper, from the weights that a set was made from.

    python benchmarks/whisper_ct2.py SET CHECKPOINT FOLDER

The packages ctranslate2 and tokenizers write it, so that all engines of `whisper_speed.py` have the same weights. The
tokenizer has no merges: it says what tokens mean, and does not cut texts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.detect import open_checkpoint
from openrknn.voice.sets import open_set
from openrknn.voice.whisper.vocabulary import Vocabulary

_FIRST_SPARE = 256
_PRINTED = (*range(33, 127), *range(161, 173), *range(174, 256))
"""Bytes that GPT-2's alphabet has as they are."""


def write_model(weights: Checkpoint, words: Vocabulary, folder: Path) -> None:
    """model.bin, config.json, vocabulary.json and tokenizer.json; in float32."""
    from ctranslate2.specs.whisper_spec import WhisperSpec

    sides = [(weights.layers(side), weights.head_count(side)) for side in ("encoder", "decoder")]
    spec = WhisperSpec(*sides[0], *sides[1])
    for name in ("conv1", "conv2"):
        _linear(getattr(spec.encoder, name), weights, f"encoder.{name}")
    for side, part, norm in (("encoder", spec.encoder, "ln_post"), ("decoder", spec.decoder, "ln")):
        part.position_encodings.encodings = weights[f"{side}.positional_embedding"]
        _norm(part.layer_norm, weights, f"{side}.{norm}")
        for number, layer in enumerate(part.layer):
            _layer(layer, weights, f"{side}.blocks.{number}.", is_decoder=side == "decoder")
    spec.decoder.embeddings.weight = weights["decoder.token_embedding.weight"]
    spec.decoder.projection.weight = weights.head
    tokens = _texts(words)[: weights.words]
    spec.config.suppress_ids, spec.config.suppress_ids_begin = list(words.suppressed), list(words.blank)
    spec.config.lang_ids = sorted(words.languages.values())
    spec.config.alignment_heads = [list(pair) for pair in weights.alignment]
    spec.register_vocabulary(tokens)
    spec.validate()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    _write_tokenizer(tokens, words.end, folder / "tokenizer.json")


def _layer(layer: Any, weights: Checkpoint, place: str, *, is_decoder: bool) -> None:
    own = ("query", "key", "value")
    _products(layer.self_attention, weights, f"{place}attn", (own, ("out",)))
    _norm(layer.self_attention.layer_norm, weights, f"{place}attn_ln")
    if is_decoder:
        _products(layer.attention, weights, f"{place}cross_attn", (own[:1], own[1:], ("out",)))
        _norm(layer.attention.layer_norm, weights, f"{place}cross_attn_ln")
    _linear(layer.ffn.linear_0, weights, f"{place}mlp.0")
    _linear(layer.ffn.linear_1, weights, f"{place}mlp.2")
    _norm(layer.ffn.layer_norm, weights, f"{place}mlp_ln")


def _products(attention: Any, weights: Checkpoint, place: str, groups: tuple[tuple[str, ...], ...]) -> None:
    """Products with the same input are one; keys have no bias."""
    for spec, names in zip(attention.linear, groups, strict=True):
        arrays = [weights[f"{place}.{name}.weight"] for name in names]
        none = {name: np.zeros(len(array), np.float32) for name, array in zip(names, arrays, strict=True)}
        spec.weight = np.concatenate(arrays)
        spec.bias = np.concatenate([weights.arrays.get(f"{place}.{name}.bias", none[name]) for name in names])


def _linear(spec: Any, weights: Checkpoint, place: str) -> None:
    spec.weight, spec.bias = weights[f"{place}.weight"], weights[f"{place}.bias"].reshape(-1)


def _norm(spec: Any, weights: Checkpoint, place: str) -> None:
    spec.gamma, spec.beta = weights[f"{place}.weight"], weights[f"{place}.bias"]


def _texts(words: Vocabulary) -> list[str]:
    """Tokens in GPT-2's alphabet, which has a character for each byte; special ones as they are."""
    spare = iter(range(_FIRST_SPARE, 2 * _FIRST_SPARE))
    alphabet = [chr(byte if byte in _PRINTED else next(spare)) for byte in range(_FIRST_SPARE)]
    return [
        piece.decode() if number >= words.end else "".join(alphabet[byte] for byte in piece)
        for number, piece in enumerate(words.pieces)
    ]


def _write_tokenizer(tokens: list[str], end: int, path: Path) -> None:
    special = [
        {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for number, text in enumerate(tokens) if number >= end
    ]  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {text: number for number, text in enumerate(tokens)}, "merges": []}
    content = {"version": "1.0", "added_tokens": special, "pre_tokenizer": level, "decoder": level, "model": model}
    path.write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    voice = open_set(given.set)
    words = Vocabulary.read(voice.file("tokens"), multilingual=bool(voice.options["multilingual"]))
    write_model(open_checkpoint(given.checkpoint), words, given.folder)


if __name__ == "__main__":
    main()
