"""Matcha and its vocoder as a set: the products of both for the NPU in windows, the rest for the CPU."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.onnxgraph import OnnxGraph
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import find_below
from openrknn.voice.make.products import LEAST, split
from openrknn.voice.matcha.speaking import read_tokens
from openrknn.voice.sets import VoiceSet, write_set

Progress = Callable[[str, int, int], None]
_USUAL = 120
"""Numbers of a usual sentence, for the sizes of windows."""
_FRAMES = 300
"""Frames of its spectrogram."""


def make(
    source: Path, folder: Path, target: str = "rk3588", *, name: str = "matcha", origin: str = "", least: int = LEAST,
    progress: Progress | None = None,
) -> VoiceSet:  # fmt: skip
    """From a folder with model-steps-*.onnx, a HiFi-GAN vocoder and tokens.txt. Durations are computed in float."""
    acoustic = _read(find_below(source, "model-steps-*.onnx"))
    vocoder = _read(find_below(source, "*hifigan*.onnx", "*vocoder*.onnx"))
    tokens = find_below(source, "tokens.txt")
    highest = max(number for numbers in read_tokens(tokens).values() for number in numbers)
    said = {entry.key: entry.value for entry in acoustic.metadata_props}
    rate = said.get("sample_rate", "22050")
    graph = OnnxGraph(acoustic)
    if set(graph.inputs) != {"x", "x_length", "noise_scale", "length_scale"} or not rate.isdecimal():
        raise VoiceSetError(
            f"{source}: inputs {', '.join(list(graph.inputs)[:6])}; Matcha of sherpa-onnx has x, x_length, noise_scale "
            "and length_scale, and says its sample_rate"
        )
    entries = OnnxGraph(vocoder).inputs
    if len(entries) != 1 or len(vocoder.graph.output) != 1:
        raise VoiceSetError(
            f"{source}: a vocoder with one input and one output (HiFi-GAN) is needed; Vocos is not read"
        )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tokens, folder / "tokens.txt")
    sample = {
        "x": np.arange(_USUAL, dtype=np.int64)[None] % (highest + 1), "x_length": np.array([_USUAL], np.int64),
        "noise_scale": np.array([0.667], np.float32), "length_scale": np.ones(1, np.float32),
    }  # fmt: skip
    split(acoustic, folder / "acoustic", target, sample, float_above=_durations, least=least, progress=progress)
    (only,) = entries
    shape = [entry.dim_value for entry in entries[only].type.tensor_type.shape.dim]
    mel = np.zeros((1, shape[1] if len(shape) > 1 and shape[1] > 0 else 80, _FRAMES), np.float32)
    split(vocoder, folder / "vocoder", target, {only: mel}, float_above=lambda _: set(), least=least, progress=progress)
    made = VoiceSet(
        folder, name, "matcha", "speaker", int(rate), language=said.get("language", "en")[:40], target=target,
        source=origin or source.name,
        files={"acoustic": "acoustic/plan.json", "vocoder": "vocoder/plan.json", "tokens": "tokens.txt"},
        options={"espeak": said.get("voice", "en-us")},
    )  # fmt: skip
    write_set(made)
    return made


def _durations(graph: OnnxGraph) -> set[int]:
    """All that the lengths are computed from."""
    return graph.above(node.output[0] for node in graph.nodes if node.op_type in ("Ceil", "Round"))


def _read(path: Path) -> Any:
    from openrknn.compiler import read_model
    from openrknn.errors import RknnError

    try:
        return read_model(path)
    except RknnError as error:
        raise VoiceSetError(f"{path}: cannot be read: {error}") from error
