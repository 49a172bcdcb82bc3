"""A set of Moonshine: encoder and decoder for all buckets, tables and tokenizer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.decoding import most_tokens
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_graphs import decoder_graph, encoder_graph, rotary_rows
from openrknn.voice.make.moonshine_weights import Array, Weights, decoder_weights, encoder_weights
from openrknn.voice.moonshine import states, stem_frames
from openrknn.voice.sets import VoiceSet, write_set

__all__ = ["BUCKETS", "make"]

BUCKETS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30)
"""Seconds of sound that the encoder has graphs for."""
_STEPS = (2, 4, 6, 10, 15, 30)
"""The same for the decoder: its graphs differ by what is seen of the sound, which costs less."""
_RATE = 16_000
_POSITIONS = 194
"""As many tokens as Moonshine was trained for."""


def make(
    source: Path,
    folder: Path,
    target: str = "rk3588",
    *,
    name: str = "moonshine-tiny",
    origin: str = "",
    precision: str = "fp16",
    progress: Callable[[str, int, int], None] | None = None,
    buckets: Sequence[float] = BUCKETS,
    licence: str = "MIT",
) -> VoiceSet:
    """From a folder with `encoder_model`, `decoder_model_merged` (.ort or .onnx) and `tokenizer.bin`."""
    if precision != "fp16":
        raise VoiceSetError(f"{name}: precision {precision!r} is not made yet; fp16 is")
    report = progress or (lambda *_: None)
    steps = 4
    report("reading weights", 0, steps)
    decoder = _decoder(source)
    where = _find(source, "encoder_model.ort", "encoder_model.onnx", "*moonshine*encoder*.onnx")
    encoder = encoder_weights(_read(where), where.name, decoder.heads)
    tokens = _find(source, "tokenizer.bin", "*tokenizer*.bin")
    report("tables", 1, steps)
    _tables(folder / "tables.npz", encoder, decoder)
    shutil.copyfile(tokens, folder / "tokens.bin")
    report("compiling the encoder", 2, steps)
    times = [stem_frames(round(seconds * _RATE)) for seconds in buckets]
    width, heads = encoder.width, encoder.heads
    shapes: dict[str, list[tuple[int, ...]]] = {
        "frames": [(1, width, time) for time in times],
        "mask": [(1, 1, 1, states(time)) for time in times],
    }
    _compile(encoder_graph(encoder, decoder, times[-1]), folder / "encoder.rknn", target, shapes)
    report("compiling the decoder", 3, steps)
    seconds = [one for one in buckets if one in _STEPS or one == buckets[-1]]
    rows = [states(stem_frames(round(one * _RATE))) for one in seconds]
    capacity = [min(_POSITIONS, most_tokens(one) + 2) for one in seconds]
    shapes = {
        "mask": [(1, 1, 1, size) for size in capacity],
        "cross_mask": [(1, 1, 1, time) for time in rows],
    }
    for layer in range(decoder.layers):
        for part in ("key", "value"):
            shapes[f"cache.{layer}.{part}"] = [(1, heads, size, width // heads) for size in capacity]
            shapes[f"cross.{layer}.{part}"] = [(1, heads, time, width // heads) for time in rows]
    _compile(decoder_graph(decoder), folder / "decoder.rknn", target, shapes)
    report("done", steps, steps)
    made = VoiceSet(
        folder, name, "moonshine", "transcriber", _RATE, "en", target, licence, origin or source.name,
        files={"encoder": "encoder.rknn", "decoder": "decoder.rknn", "tables": "tables.npz", "tokens": "tokens.bin"},
        options={"buckets": list(buckets), "precision": precision},
    )  # fmt: skip
    write_set(made)
    return made


def _find(source: Path, *patterns: str) -> Path:
    for pattern in patterns:
        if found := sorted(source.rglob(pattern)):
            return found[0]
    raise VoiceSetError(f"{source}: no {' or '.join(patterns)} in this folder")


def _decoder(source: Path) -> Weights:
    """From the merged decoder, or from the two halves that it is merged from."""
    try:
        path = _find(source, "decoder_model_merged.ort", "decoder_model_merged.onnx")
    except VoiceSetError:
        first = _find(source, "*decoder_first.onnx", "decoder_model.onnx")
        step = _find(source, "*decoder_step.onnx", "decoder_with_past_model.onnx")
        early, late = _read(first), _read(step)
        # The first step has all weights; the later ones say how many heads there are.
        early.graph.input.extend(entry for entry in late.graph.input if entry.name.startswith("past_key_values"))
        return decoder_weights(early, first.name)
    return decoder_weights(_read(path), path.name)


def _read(path: Path) -> Any:
    """As ONNX, whichever way it is stored."""
    if path.suffix == ".ort":
        from openrknn.compiler.importer.formats import ort

        return ort.read(path)
    import onnx

    try:
        return onnx.load(str(path))
    except Exception as error:  # protobuf's own classes differ between its versions
        raise VoiceSetError(f"{path}: not an ONNX model: {error}") from error


def _tables(path: Path, encoder: Weights, decoder: Weights) -> None:
    """What the CPU looks up. An embedding of 256 levels (the package's models) is kept as such, others as fp16."""
    embed = decoder["embed"]
    levels, places = np.unique(embed, return_inverse=True)
    has_levels = len(levels) <= 256
    kept = np.zeros(256, np.float32)
    kept[: len(levels) if has_levels else 0] = levels[:256] if has_levels else ()
    cos, sin = rotary_rows(decoder, _POSITIONS)
    kernel: Array = encoder["conv1.weight"][:, 0].T
    np.savez(
        path,
        kernel=np.ascontiguousarray(kernel),
        scale=encoder["groupnorm.weight"],
        shift=encoder["groupnorm.bias"],
        cos=cos,
        sin=sin,
        levels=kept,
        embed=places.reshape(embed.shape).astype(np.uint8) if has_levels else embed.astype(np.float16),
    )


def _compile(graph: Any, to: Path, target: str, shapes: dict[str, list[tuple[int, ...]]]) -> None:
    from openrknn.compiler import compile_onnx
    from openrknn.container.save import save

    save(compile_onnx(graph, target, fp16=True, cores=1, check=False, shapes=shapes), to)
