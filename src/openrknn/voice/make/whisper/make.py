"""A set of Whisper: encoder, decoder with its tables, and the tokens' text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.compiler.options import CompileOptions
from openrknn.compiler.quantise.ranges import Range
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.listener import AUTO
from openrknn.voice.make.recordings import sounds_of
from openrknn.voice.make.whisper.alignment import alignment_heads
from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.detect import open_checkpoint
from openrknn.voice.make.whisper.graphs import GROUP, decoder_graph, encoder_graph, rows_of
from openrknn.voice.make.whisper.mixed import choose
from openrknn.voice.make.whisper.vocabulary import pieces_of
from openrknn.voice.sets import VoiceSet, write_set
from openrknn.voice.tokens import write_pieces

PRECISIONS = ("fp16", "mixed")
WHY = (
    "All of it in int8 would hear other words: there is fp16, and mixed, which has those products in int8 that cost "
    "nearly nothing on recordings, and the rest in fp16"
)
_RATE = 16_000
_SOME = {"product": (0.0, 1.0)}


def make(
    source: Path,
    folder: Path,
    target: str = "rk3588",
    *,
    name: str = "whisper-tiny",
    origin: str = "",
    precision: str = "fp16",
    progress: Callable[[str, int, int], None] | None = None,
    licence: str = "",
    more: Sequence[Path] = (),
    calibrate: Path | None = None,
) -> VoiceSet:
    """From a file or a folder: OpenAI's .pt, whisper.cpp's .bin, CTranslate2's, safetensors, or exported ONNX.

    `precision="mixed"`: products in int8 that cost nearly nothing on the recordings in `calibrate`, or on those in the
    folder of the weights.
    """
    if precision not in PRECISIONS:
        raise VoiceSetError(f"{name}: no precision {precision!r}. {WHY}")
    is_mixed = precision == "mixed"
    if is_mixed:
        CompileOptions(target=target, fp16=True, int8_products=_SOME)  # says which chips cannot
    sounds = sounds_of(calibrate or source, _RATE) if is_mixed else []
    report = progress or (lambda *_: None)
    steps = 4
    report("reading weights", 0, steps)
    weights = open_checkpoint(source, more)
    pieces = pieces_of(weights, source)
    is_many = b"<|de|>" in pieces and weights.words != _ENGLISH
    ranges: Mapping[str, Mapping[str, Range]] = {}
    options: dict[str, Any] = {"mels": weights.mels, "frames": weights.frames, "precision": precision}
    if is_mixed:
        chosen = choose(weights, pieces, sounds, multilingual=is_many, progress=report)
        weights, ranges = chosen.weights, chosen.ranges
        options |= {"int8": sorted(name for found in ranges.values() for name in found), "losses": chosen.losses}
    report("compiling the encoder", 1, steps)
    _compile(encoder_graph(weights), folder / "encoder.rknn", target, ranges.get("encoder"))
    report("compiling the decoder", 2, steps)
    alignment = alignment_heads(weights)
    (folder / "decoder.rknnz").write_bytes(decoder_file(weights, target, alignment, ranges.get("decoder")))
    write_pieces(folder / "tokens.bin", pieces)
    report("done", steps, steps)
    made = VoiceSet(
        folder, name, "whisper", "transcriber", _RATE, AUTO if is_many else "en", target, licence,
        origin or source.name,
        files={"encoder": "encoder.rknn", "decoder": "decoder.rknnz", "tokens": "tokens.bin"},
        options={**options, "multilingual": is_many, "alignment": [list(pair) for pair in alignment]},
    )  # fmt: skip
    write_set(made)
    return made


MANY = 64
"""Tokens of a prompt, or of a text whose words get times, that are computed at once."""
_ENGLISH = 51864
"""Tokens of the models for English only."""


def decoder_file(
    weights: Checkpoint, target: str, alignment: Sequence[tuple[int, int]], int8: Mapping[str, Range] | None = None
) -> bytes:
    """The decoder's step with rows of tokens and positions; `int8`: these of its products, with what they read."""
    from openrknn.compiler.sequence.make import pack_decoder
    from openrknn.compiler.sequence.rewrite import Step
    from openrknn.compiler.sequence.tables import Table

    capacity = -(-weights.context // GROUP) * GROUP
    parts = [f"{layer}.{part}" for layer in range(weights.layers("decoder")) for part in ("key", "value")]
    row = (1, weights.width("decoder"), 1, 1)
    tables: Mapping[str, Any] = {
        "token": Table.of("token", row, weights["decoder.token_embedding.weight"]),
        "position": Table.of("position", row, weights["decoder.positional_embedding"]),
    }
    followed = {layer for layer, _ in alignment}
    step = Step(
        decoder_graph(weights, capacity, followed),
        tables,
        {f"cache.{part}": f"new.{part}" for part in parts},
        tuple(f"cross.{part}" for part in parts),
        {f"{kind}.{part}": 3 for kind in ("cache", "cross") for part in parts},
    )
    many = decoder_graph(weights, capacity, followed, min(MANY, capacity))
    return pack_decoder(
        step, target, capacity=weights.context, frames=rows_of(weights), many=many, fp16=True, cores=1,
        int8_products=int8,
    )  # fmt: skip


def _compile(graph: Any, to: Path, target: str, int8: Mapping[str, Range] | None = None) -> None:
    from openrknn.compiler import compile_onnx
    from openrknn.container.save import save

    save(compile_onnx(graph, target, cores=1, fp16=True, int8_products=int8), to)
