"""Whisper in one run, one thread each: the software NPU, ONNX Runtime with the same graphs in float, faster-whisper.

    python benchmarks/whisper_speed.py SET CHECKPOINT talk.wav [--faster FOLDER] [--runs 2] [--language en]

SET is made by `openrknn voice get`, CHECKPOINT is what it was made from, and FOLDER a model of CTranslate2
(`pip install faster-whisper`). At most 30 s of the recording are taken. All decode greedily, without a speech detector.
The least processor time of the runs counts; the real-time factor is that divided by the seconds of sound.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENRKNN_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.numerics import MASKED
from openrknn.runtime.decoder.decoder import Fed
from openrknn.voice.audio import read_audio, resample
from openrknn.voice.listener import ListenOptions
from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.detect import open_checkpoint
from openrknn.voice.make.whisper.graphs import decoder_graph, encoder_graph, rows_of
from openrknn.voice.sets import open_set
from openrknn.voice.whisper import Whisper

Array = npt.NDArray[np.float32]
RATE, LONGEST = 16_000, 30 * 16_000


def session(model: Any) -> Any:
    """ONNX Runtime with one thread."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class FloatEncoder:
    """In place of the encoder's session."""

    def __init__(self, weights: Checkpoint) -> None:
        self._session = session(encoder_graph(weights))
        self._names = [entry.name for entry in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(self._names, self._session.run(None, dict(feed)), strict=True))

    def close(self) -> None: ...


class FloatDecoder:
    """In place of `openrknn.Decoder`: the same step in ONNX Runtime, with caches that are written in place."""

    def __init__(self, weights: Checkpoint, layers: set[int]) -> None:
        self._session = session(decoder_graph(weights, weights.context, layers))
        self._names = [entry.name for entry in self._session.get_outputs()]
        shapes = {entry.name: tuple(entry.shape) for entry in self._session.get_inputs()}
        self._feed = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self._tokens = weights["decoder.token_embedding.weight"]
        self._places = weights["decoder.positional_embedding"]
        self._rows = rows_of(weights)
        self.length = 0

    def start(self, states: Mapping[str, Array]) -> None:
        for name, value in states.items():
            heads, frames, size = value.shape[1:]
            self._feed[name][0, :, 0, :frames] = value[0].transpose(0, 2, 1).reshape(heads * size, frames)
            self._feed["cross_mask"][0, frames:] = -MASKED
        self.rewind(0)

    def rewind(self, length: int) -> None:
        self.length = length
        self._feed["mask"][0, :length], self._feed["mask"][0, length:] = 0, -MASKED

    def fork(self, beams: int) -> None:
        raise NotImplementedError("greedy only")

    def reorder(self, order: Sequence[int]) -> None:
        raise NotImplementedError("greedy only")

    def step(self, token: int | Sequence[int]) -> Array:
        assert isinstance(token, int)
        at = self.length
        self._feed["token"][0, :, 0, 0], self._feed["position"][0, :, 0, 0] = self._tokens[token], self._places[at]
        found = dict(zip(self._names, self._session.run(None, self._feed), strict=True))
        for name, value in found.items():
            if name.startswith("new."):
                self._feed[name.replace("new.", "cache.")][..., at] = value[..., 0]
        self._feed["mask"][0, at] = 0
        self.length += 1
        return np.asarray(found["logits"].reshape(-1), np.float32)

    def feed(self, tokens: Sequence[int], outputs: Sequence[str] = ()) -> Iterator[Fed]:
        for at, token in enumerate(tokens):
            yield Fed(at, self.step(int(token))[None], {})

    def close(self) -> None: ...


def least(function: Callable[[], str], runs: int) -> tuple[float, str]:
    """Seconds of the processor, and the text."""
    best, text = float("inf"), ""
    for _ in range(runs):
        start = time.process_time()
        text = function()
        best = min(best, time.process_time() - start)
    return best, text


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("audio", type=Path)
    parser.add_argument("--faster", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    audio = read_audio(given.audio)
    samples = np.asarray(resample(audio.samples, audio.rate, RATE), np.float32)[:LONGEST]
    seconds = len(samples) / RATE
    options = ListenOptions(language=given.language, filters=False, temperatures=(0.0,))
    rows: list[tuple[str, float, str]] = []
    voice = open_set(given.set)
    with Whisper(voice, "software") as model:
        rows.append(("software NPU, fp16", *least(lambda: model.hear(samples, options).text, given.runs)))
        weights = open_checkpoint(given.checkpoint)
        own = model._encoder, model._decoder, model._search._steps
        model._encoder = FloatEncoder(weights)  # type: ignore[assignment]
        model._decoder = model._search._steps = FloatDecoder(weights, set())  # type: ignore[assignment]
        rows.append(("ONNX Runtime, float", *least(lambda: model.hear(samples, options).text, given.runs)))
        model._encoder, model._decoder, model._search._steps = own
    if given.faster is not None:
        from faster_whisper import WhisperModel

        for kind in ("float32", "int8"):
            other = WhisperModel(str(given.faster), device="cpu", compute_type=kind, cpu_threads=1)

            def text(other: Any = other) -> str:
                found, _ = other.transcribe(samples, language=given.language, beam_size=1, temperature=0.0)
                return " ".join(segment.text.strip() for segment in found)

            rows.append((f"faster-whisper, {kind}", *least(text, given.runs)))
    print(f"{voice.name}, {seconds:.1f} s of sound, processor time of one thread, least of {given.runs}")
    for name, spent, found in rows:
        print(f"{name:24s} {spent:7.2f} s   real-time factor {spent / seconds:.3f}   {found[:60]!r}")


if __name__ == "__main__":
    main()
