"""Sets of SenseVoice and of Paraformer, from a folder with `model.onnx` (or `model.int8.onnx`) and `tokens.txt`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.listener import AUTO
from openrknn.voice.make.content import mentions
from openrknn.voice.make.nets import find_below
from openrknn.voice.make.sanm.graphs import paraformer_decoder, paraformer_encoder, sensevoice_graph
from openrknn.voice.make.sanm.weights import Weights, read_weights
from openrknn.voice.sanm.frontend import FBANK, Frontend
from openrknn.voice.sets import VoiceSet, write_set
from openrknn.voice.transducer import read_tokens
from openrknn.wholefiles import write_atomically

MODELS = ("model.onnx", "model*.onnx")
BUCKETS = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds of sound that a graph of the encoder is made for."""
_QUERIES = 4
_SENSE, _PARA = "sense_voice", "paraformer"
_TAIL = 0.45
"""FunASR's; the graph has it as a factor."""


def is_sensevoice(source: Path) -> bool | None:
    """By the metadata."""
    return _says(source, _SENSE)


def is_paraformer(source: Path) -> bool | None:
    """By the metadata."""
    return _says(source, _PARA)


def _says(source: Path, kind: str) -> bool:
    """Names are searched in the files: reading hundreds of megabytes takes long."""
    if not source.is_dir():
        return False
    found = (path for path in sorted(source.rglob("model*.onnx")) if path.is_file())
    return any(mentions(path, b"lfr_window_size") and mentions(path, kind.encode()) for path in found)


def make(
    source: Path, folder: Path, target: str = "rk3588", *, name: str = "", origin: str = "", licence: str = "",
    progress: Callable[[str, int, int], None] | None = None, buckets: Sequence[float] = BUCKETS, itn: bool = True,
) -> VoiceSet:  # fmt: skip
    """Either of the two, as the metadata says. `itn`: SenseVoice writes numbers as digits and sets punctuation."""
    report = progress or (lambda *_: None)
    report("reading weights", 0, 3)
    weights = read_weights(find_below(source, *MODELS))
    tokens = find_below(source, "tokens.txt")
    read_tokens(tokens)
    window, shift = (weights.number(key, usual) for key, usual in (("lfr_window_size", 7), ("lfr_window_shift", 6)))
    mean, scale = weights.numbers("neg_mean"), weights.numbers("inv_stddev")
    if not len(mean) == len(scale) == window * FBANK.bands:
        raise VoiceSetError(f"{weights.name}: {len(mean)} means for {window} frames of {FBANK.bands} bands")
    frontend = Frontend(mean, scale, window, shift)
    tables: dict[str, Any] = {"mean": mean, "scale": scale}
    options: dict[str, Any] = {"window": window, "shift": shift, "width": weights.width, "buckets": list(buckets)}
    kind = weights.facts.get("model_type", "")
    is_sense = _SENSE in kind
    times = [frontend.vectors(round(seconds * FBANK.rate)) + (_QUERIES if is_sense else 0) for seconds in buckets]
    bands = len(mean)
    shapes: dict[str, list[tuple[int, ...]]] = {
        "frames": [(1, time, bands) for time in times], "mask": [(1, 1, 1, time) for time in times],
        "keep": [(1, time, 1) for time in times],
    }  # fmt: skip
    report("compiling the encoder", 1, 3)
    files = {"encoder": "encoder.rknn", "tables": "tables.npz", "tokens": "tokens.txt"}
    if is_sense:
        family, language = "sensevoice", AUTO
        tables["queries"] = weights["embed.weight"]
        options["style"] = weights.number("with_itn" if itn else "without_itn")
        options["languages"] = _languages(weights)
        _compile(sensevoice_graph(weights), folder / files["encoder"], target, shapes)
    elif _PARA in kind:
        family, language = "paraformer", "zh"
        options["tail"] = _tail(weights)
        _compile(paraformer_encoder(weights), folder / files["encoder"], target, shapes)
        files["decoder"] = "decoder.rknn"
        width = weights.width
        report("compiling the decoder", 2, 3)
        _compile(paraformer_decoder(weights), folder / files["decoder"], target, {
            "tokens": [(1, time, width) for time in times], "states": [(1, time, width) for time in times],
            "mask": shapes["mask"], "token_keep": shapes["keep"],
        })  # fmt: skip
    else:
        raise VoiceSetError(f"{weights.name}: its model_type is {kind!r:.40}; sense_voice_ctc and paraformer are known")
    _write_tables(folder / files["tables"], tables)
    write_atomically(folder / files["tokens"], tokens.read_bytes())
    report("done", 3, 3)
    made = VoiceSet(
        folder, name or family, family, "transcriber", FBANK.rate, language, target, licence, origin or source.name,
        files=files, options=options,
    )  # fmt: skip
    write_set(made)
    return made


def _languages(weights: Weights) -> dict[str, int]:
    """Codes -> rows of the table of questions."""
    pattern = re.compile(r"lang_([a-z]{2,4})")
    found = {match[1]: weights.number(key) for key in weights.facts if (match := pattern.fullmatch(key))}
    if AUTO not in found:
        raise VoiceSetError(f"{weights.name}: no 'lang_auto' in its metadata; sherpa-onnx's exporter adds it")
    return found


def _tail(weights: Weights) -> float:
    """The factor of the predictor that is not 1 and below it."""
    return next((round(one, 6) for one in weights.scalars.values() if 0 < one < 1), _TAIL)


def _write_tables(path: Path, tables: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(value, np.float32) for name, value in tables.items()}
        np.savez(file, **arrays)


def _compile(graph: Any, to: Path, target: str, shapes: dict[str, list[tuple[int, ...]]]) -> None:
    from openrknn.compiler import compile_onnx
    from openrknn.container.save import save

    to.parent.mkdir(parents=True, exist_ok=True)
    save(compile_onnx(graph, target, cores=1, fp16=True, shapes=shapes), to)
