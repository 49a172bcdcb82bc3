"""Whisper in one run, one thread each: the software NPU, ONNX Runtime with the same graphs in float, faster-whisper.

    python benchmarks/whisper_speed.py SET CHECKPOINT talk.wav ... [--faster FOLDER] [--runs 2] [--language en]

SET is made by `openrknn voice get`, CHECKPOINT is what it was made from, and FOLDER a model of CTranslate2
(`pip install faster-whisper`), which `whisper_ct2.py` makes of the same weights; left out: it is made in a temporary
folder. Without faster-whisper its rows are left out. At most 30 s of each recording are taken. All decode greedily,
without a speech detector; engines take turns. The least processor time of the runs counts; the real-time factor is that
of all recordings divided by the seconds of sound.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENRKNN_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from whisper_ct2 import write_model

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
Engine = Callable[[Array], str]
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


def own_engines(model: Whisper, weights: Checkpoint, options: ListenOptions) -> dict[str, Engine]:
    """The software NPU, and ONNX Runtime in its place."""
    own = model._encoder, model._decoder
    floats: Any = FloatEncoder(weights), FloatDecoder(weights, set())

    def hear(samples: Array, nets: Any) -> str:
        model._encoder, model._decoder = nets
        model._search._steps = nets[1]
        return model.hear(samples, options).text

    return {
        "software NPU, fp16": lambda samples: hear(samples, own),
        "ONNX Runtime, float": lambda samples: hear(samples, floats),
    }


def faster_engines(folder: Path, language: str) -> dict[str, Engine]:
    """faster-whisper in float32 and in int8."""
    from faster_whisper import WhisperModel

    def engine(kind: str) -> Engine:
        model = WhisperModel(str(folder), device="cpu", compute_type=kind, cpu_threads=1)

        def hear(samples: Array) -> str:
            found, _ = model.transcribe(
                samples, language=language, beam_size=1, temperature=0.0, condition_on_previous_text=False
            )
            return " ".join(segment.text.strip() for segment in found)

        return hear

    return {f"faster-whisper, {kind}": engine(kind) for kind in ("float32", "int8")}


def measured(engines: Mapping[str, Engine], recordings: Sequence[Array], runs: int) -> dict[str, tuple[float, str]]:
    """Seconds of the processor for all recordings, and the text of the first."""
    found: dict[tuple[str, int], tuple[float, str]] = {}
    for number, samples in enumerate(recordings):
        for engine in engines.values():
            engine(samples)  # everything is loaded now
        for _ in range(runs):
            for name, engine in engines.items():
                start = time.process_time()
                text = engine(samples)
                spent = time.process_time() - start
                best, _ = found.get((name, number), (spent, ""))
                found[name, number] = min(best, spent), text
    numbers = range(len(recordings))
    return {name: (sum(found[name, number][0] for number in numbers), found[name, 0][1]) for name in engines}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("audio", type=Path, nargs="+")
    parser.add_argument("--faster", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    heard = [read_audio(path) for path in given.audio]
    recordings = [np.asarray(resample(one.samples, one.rate, RATE), np.float32)[:LONGEST] for one in heard]
    seconds = sum(map(len, recordings)) / RATE
    options = ListenOptions(language=given.language, filters=False, temperatures=(0.0,))
    voice, weights = open_set(given.set), open_checkpoint(given.checkpoint)
    with Whisper(voice, "software") as model, TemporaryDirectory() as temporary:
        engines = own_engines(model, weights, options)
        if importlib.util.find_spec("faster_whisper") is None:
            print("faster-whisper is not installed (pip install faster-whisper): its rows are left out")
        else:
            if given.faster is None:
                write_model(weights, model.vocabulary, Path(temporary))
            engines |= faster_engines(given.faster or Path(temporary), given.language)
        rows = measured(engines, recordings, given.runs)
    size = f"{len(recordings)} recordings, {seconds:.1f} s of sound"
    print(f"{voice.name}, {size}, processor time of one thread, least of {given.runs}")
    for name, (spent, text) in rows.items():
        print(f"{name:24s} {spent:7.2f} s   real-time factor {spent / seconds:.3f}   {text[:60]!r}")


if __name__ == "__main__":
    main()
