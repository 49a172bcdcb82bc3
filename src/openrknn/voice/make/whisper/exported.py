"""Exported ONNX (optimum, transformers.js): encoder and merged decoder, plain or with weights of integers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.container.onnxdata import check_onnx_file
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_weights import ExportedGraph
from openrknn.voice.make.nets import find_below
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint
from openrknn.voice.make.whisper.folder import alignment, heads
from openrknn.voice.make.whisper.names import openai_name

_PLACE = re.compile(r"layers\.(\d+)/((?:self_attn|encoder_attn)/(?:q|k|v|out)_proj|fc1|fc2)/")
_MERGED = re.compile(r"_merged_\d+")
ENCODERS = ("encoder_model.onnx", "encoder_model_fp16.onnx", "encoder_model_quantized.onnx", "encoder_model*.onnx")
DECODERS = (
    "decoder_model_merged.onnx", "decoder_model.onnx", "decoder_model_merged_fp16.onnx",
    "decoder_model_merged_quantized.onnx", "decoder_model_merged*.onnx", "decoder_model*.onnx",
)  # fmt: skip


def read(folder: Path) -> Checkpoint:
    """The most exact ones of the folder: floats, else half floats, else integers."""
    encoder, decoder = find_below(folder, *ENCODERS), find_below(folder, *DECODERS)
    arrays = {**_arrays(encoder, "encoder"), **_arrays(decoder, "decoder")}
    top = next((one for one in (encoder.parent, *encoder.parents) if (one / "config.json").is_file()), folder)
    top = top if top == folder or folder in top.parents else folder
    return Checkpoint(arrays, decoder.name, alignment=alignment(top), heads=heads(top)).checked()


def _arrays(path: Path, side: str) -> dict[str, Array]:
    graph = ExportedGraph(_read(path), path.name)
    made: dict[str, Array] = {}
    for given, matrix in graph.products():
        if match := _PLACE.search(given):
            place = openai_name(f"{side}.layers.{match[1]}.{match[2].replace('/', '.')}.weight")
            made.setdefault(place, np.ascontiguousarray(np.asarray(matrix, np.float32).T))
    for entry in list(graph.constants):
        stem = re.sub(r"_quantized$", "", entry)
        plain = _MERGED.sub("", stem).removeprefix("model.").removeprefix(f"{side}.")
        place = openai_name(f"{side}.{plain}")
        if place and place not in made and (found := graph.constant(stem)) is not None:
            made[place] = np.asarray(found, np.float32)
    return made


def _read(path: Path) -> Any:
    import onnx

    try:
        check_onnx_file(path)
        return onnx.load(str(path))
    except Exception as error:  # protobuf's own classes differ between its versions
        raise VoiceSetError(f"{path}: not an ONNX model: {error}") from error
