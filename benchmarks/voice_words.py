#!/usr/bin/env python3
"""Moonshine on the NPU beside ONNX Runtime: the same words, how fast, how much of it on the NPU.

    python benchmarks/voice_words.py SET SOURCE [RECORDING.wav ...] [--device software] [--sentences 20]

SET is a set of `openrknn voice get moonshine-tiny`, SOURCE a folder with the float graphs (moonshine_tiny_encoder.onnx,
..._decoder_first.onnx, ..._decoder_step.onnx). Recordings are cut into segments as `openrknn transcribe` does; both
hear the same samples, one thread each. espeak-ng, if it is there, says the sentences below.

"float" is ONNX Runtime with basic optimisations: by default it makes products of integers out of DequantizeLinear and
MatMul, which is "ort int8" here, its fastest. Times are of the process, so other programs on the machine count little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from openrknn.evaluate.metrics.text import edits
from openrknn.voice import Transcriber, open_set
from openrknn.voice.audio import read_audio, resample
from openrknn.voice.decoding import most_tokens, search
from openrknn.voice.listener import ListenOptions
from openrknn.voice.moonshine import states, stem_frames
from openrknn.voice.stream import Heard
from openrknn.voice.tokens import Tokenizer

SENTENCES = (
    "Turn on the lights in the kitchen, please.",
    "What is the weather going to be like tomorrow afternoon?",
    "The quick brown fox jumps over the lazy dog.",
    "Set a timer for twenty five minutes.",
    "She sells sea shells by the sea shore.",
    "My phone number is five five five, one two three four.",
    "It was the best of times, it was the worst of times.",
    "Please remind me to call the dentist on Monday at nine o'clock.",
    "The neural network runs on a small computer without a fan.",
    "How many grams are there in a pound?",
    "Stop.",
    "Play some music by Johann Sebastian Bach.",
    "I would like a cup of coffee with milk and no sugar.",
    "The train to Edinburgh leaves from platform seven at ten past eight.",
    "Nineteen hundred and eighty four is a novel by George Orwell.",
    "Open the window, close the door, and turn down the heating.",
    "Could you repeat that more slowly?",
    "A journey of a thousand miles begins with a single step.",
    "The temperature in the living room is twenty one degrees.",
    "Nothing will come of nothing, speak again.",
)
Array = npt.NDArray[np.float32]


class OnnxRuntime:
    """The graphs as they were published, with one thread."""

    def __init__(self, source: Path, tokenizer: Tokenizer, *, is_float: bool) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if is_float:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self._encoder, self._first, self._later = (
            onnxruntime.InferenceSession(str(source / f"moonshine_tiny_{name}.onnx"), options)
            for name in ("encoder", "decoder_first", "decoder_step")
        )
        self._tokenizer = tokenizer
        self._fixed: dict[str, Any] = {}
        self._past: dict[str, Any] = {}

    def hear(self, samples: Array) -> Heard:
        """As Moonshine.hear."""
        mask = np.ones((1, len(samples)), np.int64)
        found = self._encoder.run(None, {"input_values": samples[None], "attention_mask": mask})[0]
        self._fixed = {"encoder_hidden_states": found, "encoder_attention_mask": mask}
        made = search(self, most_tokens(len(samples) / 16_000))
        return Heard(self._tokenizer.text(made.tokens), made.tokens, made.confidence)

    def begin(self, beams: int) -> None:
        """Forget the text before."""
        assert beams == 1
        self._past = {}

    def step(self, tokens: Sequence[int]) -> Array:
        """The next logits."""
        session = self._later if self._past else self._first
        given = {"input_ids": np.array([tokens]), **self._fixed, **self._past}
        names = {entry.name for entry in session.get_inputs()}
        values = session.run(None, {name: value for name, value in given.items() if name in names})
        found = dict(zip([entry.name for entry in session.get_outputs()], values, strict=True))
        for name, value in found.items():
            if ".decoder." in name or (".encoder." in name and session is self._first):
                self._past[name.replace("present", "past_key_values")] = value
        return np.asarray(found["logits"][:, -1], np.float32)

    def reorder(self, order: Sequence[int]) -> None:
        """There is one beam."""


@dataclass
class Row:
    """One recording."""

    name: str
    seconds: float
    words: int = 0
    errors: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    texts: list[tuple[str, str]] = field(default_factory=list)
    tokens: int = 0


def words_of(text: str) -> list[str]:
    """Lower case, without punctuation, as word error rates are counted."""
    return "".join(sign if sign.isalnum() or sign in "'" else " " for sign in text.lower()).split()


def timed(hear: Callable[[Array], Heard], samples: Array) -> tuple[Heard, float]:
    """What is heard, and the seconds of this process."""
    started = time.process_time()
    heard = hear(samples)
    return heard, time.process_time() - started


def measure(path: Path, listen: Transcriber, judges: dict[str, OnnxRuntime]) -> Row:
    """One recording, segment by segment."""
    audio = read_audio(path)
    samples = resample(audio.samples, audio.rate, listen.rate)
    row = Row(path.name, audio.seconds, spent=dict.fromkeys(["openrknn", *judges], 0.0))
    for segment in listen(samples, listen.rate).segments:
        piece = samples[round(segment.start * listen.rate) : round(segment.end * listen.rate)]
        # Again: the first time, programs are prepared.
        heard, spent = timed(lambda part: listen._hear(part, ListenOptions()), piece)
        row.spent["openrknn"] += spent
        wanted = heard
        for name, judge in judges.items():
            told, spent = timed(judge.hear, piece)
            row.spent[name] += spent
            wanted = told if name == "float" else wanted
        row.words += len(words_of(wanted.text))
        row.errors += edits(words_of(heard.text), words_of(wanted.text))
        row.texts.append((wanted.text, heard.text))
        row.tokens += len(heard.tokens)
    return row


def spoken(folder: Path, count: int) -> list[Path]:
    """The sentences, said by espeak-ng."""
    program = shutil.which("espeak-ng")
    if program is None:
        sys.stderr.write("espeak-ng is not installed: no sentences\n")
        return []
    made = []
    for number, text in enumerate(SENTENCES[:count]):
        made.append(folder / f"sentence{number:02}.wav")
        subprocess.run([program, "-s", "150", "-w", str(made[-1]), text], check=True)
    return made


def board(folder: Path, seconds: float, tokens: int) -> list[str]:
    """Share of the products on the NPU, and what a board would take for a segment of so many seconds and tokens."""
    from openrknn.container.load import load
    from openrknn.runtime.cost import cost_of

    voice = open_set(folder)
    lines, total, low, high, npu = [], 0.0, 0.0, 0.0, 0
    frames = stem_frames(round(seconds * 16_000))
    for role, times in (("encoder", 1), ("decoder", tokens)):
        path = voice.file(role)
        if path.suffix == ".rknnz":
            from openrknn.container.sequence import read_decoder

            model, needed = load(read_decoder(path.read_bytes()).step), 0
        else:
            model, needed = load(path), (frames if role == "encoder" else states(frames))
        graphs = [graph for graph in model.graphs if _size(graph) >= needed] or list(model.graphs)
        graph = min(graphs, key=_size)
        cost = cost_of(model, 1, graph)
        npu += cost.macs * times
        assert cost.time_ms is not None, "no board of this chip was measured"
        assert cost.low_ms is not None
        assert cost.high_ms is not None
        total, low, high = total + cost.time_ms * times, low + cost.low_ms * times, high + cost.high_ms * times
        lines.append(
            f"{role}: {cost.macs / 1e6:.0f} M products, {cost.submits} submits, {cost.cpu_operators} operators on the "
            f"CPU, {cost.time_ms:.1f} ms ({cost.low_ms:.1f} to {cost.high_ms:.1f}) on one core of {model.chip.title}"
        )
    stem = frames * 127 * 288
    lines.append(f"share of products on the NPU: {100 * npu / (npu + stem):.1f} % (the stem is computed by the CPU)")
    lines.append(
        f"estimated real-time factor on a board, {seconds:g} s and {tokens} tokens, without the CPU's part: "
        f"{total / seconds / 1000:.3f} ({low / seconds / 1000:.3f} to {high / seconds / 1000:.3f})"
    )
    return lines


def _size(graph: Any) -> int:
    """Frames of the encoder, or states that the decoder sees."""
    shapes = {graph.tensors[index].name: graph.tensors[index].shape for index in graph.inputs}
    for name in ("frames", "cross_mask"):
        if name in shapes:
            return int(max(shapes[name][2:] if name == "frames" else shapes[name]))
    return 0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("set", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("recordings", type=Path, nargs="*")
    parser.add_argument("--device", default="software")
    parser.add_argument("--vad", default="silero-vad")
    parser.add_argument("--sentences", type=int, default=len(SENTENCES))
    arguments = parser.parse_args()
    write = sys.stdout.write
    tokenizer = Tokenizer.read(open_set(arguments.set).file("tokens"))
    judges = {
        "float": OnnxRuntime(arguments.source, tokenizer, is_float=True),
        "ort int8": OnnxRuntime(arguments.source, tokenizer, is_float=False),
    }
    rows: list[Row] = []
    names = ["openrknn", *judges]
    write("| recording | s | words | wrong | equal | " + " | ".join(f"RTF {name}" for name in names) + " |\n")
    write("|---|---|---|---|---|" + "---|" * len(names) + "\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        Transcriber(arguments.set, arguments.device, activity=arguments.vad) as listen,
    ):
        for path in [*arguments.recordings, *spoken(Path(folder), arguments.sentences)]:
            row = measure(path, listen, judges)
            rows.append(row)
            write(_line(row, names))
            for wanted, found in row.texts:
                if wanted != found:
                    write(f"<!-- float: {wanted}\n     ours:  {found} -->\n")
            sys.stdout.flush()
    if rows:
        spent = {name: sum(row.spent[name] for row in rows) for name in names}
        whole = Row("all", sum(row.seconds for row in rows), sum(row.words for row in rows),
                    sum(row.errors for row in rows), spent, [pair for row in rows for pair in row.texts])  # fmt: skip
        write(_line(whole, names))
        write(f"\nword error rate against float: {100 * whole.errors / max(1, whole.words):.2f} %\n")
        write("time of openrknn: " + ", ".join(
            f"{spent['openrknn'] / spent[name]:.2f} x {name}" for name in judges) + "\n")  # fmt: skip
    for line in board(arguments.set, 10, 19):
        write(line + "\n")
    return 0


def _line(row: Row, names: Sequence[str]) -> str:
    equal = sum(wanted == found for wanted, found in row.texts)
    factors = " | ".join(f"{row.spent[name] / row.seconds:.3f}" for name in names)
    return f"| {row.name} | {row.seconds:.1f} | {row.words} | {row.errors} | {equal}/{len(row.texts)} | {factors} |\n"


if __name__ == "__main__":
    sys.exit(main())
