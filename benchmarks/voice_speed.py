"""Moonshine on the software NPU against ONNX Runtime, one thread each, in one run: encoder, decoder step, whole.

    python benchmarks/voice_speed.py MODELS [--set moonshine-tiny] [--audio beckett.wav] [--runs 3]

MODELS is a folder with moonshine_tiny_encoder.onnx, moonshine_tiny_decoder_first.onnx, moonshine_tiny_decoder_step.onnx
and beckett.wav; the set is a name of `openrknn voice get`, or a folder. The times are of the processor, and the least
of the runs counts: another program's turn is no part of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENRKNN_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio import read_audio
from openrknn.voice.moonshine import Moonshine
from openrknn.voice.sets import open_set

Array = npt.NDArray[np.float32]
BAR = 1.5
START, END = 1, 2


def least(function: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Seconds of the processor, and what the function gave."""
    best, found = float("inf"), None
    for _ in range(runs):
        start = time.process_time()
        found = function()
        best = min(best, time.process_time() - start)
    return best, found


class Reference:
    """ONNX Runtime's way from sound to tokens."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.encoder, self.first, self.step = (
            ort.InferenceSession(folder / f"moonshine_tiny_{part}.onnx", options, providers=["CPUExecutionProvider"])
            for part in ("encoder", "decoder_first", "decoder_step")
        )

    def encode(self, samples: Array) -> Array:
        """The states."""
        feed = {"input_values": samples[None], "attention_mask": np.ones((1, len(samples)), np.int64)}
        names = {entry.name for entry in self.encoder.get_inputs()}
        given = {name: value for name, value in feed.items() if name in names}
        return np.asarray(self.encoder.run(None, given)[0], np.float32)

    def decode(self, states: Array, samples: int, count: int) -> list[int]:
        """Greedy."""
        tokens, session = [START], self.first
        past: dict[str, Any] = {}
        while len(tokens) <= count:
            feed = {"input_ids": np.array([[tokens[-1]]]), "encoder_hidden_states": states,
                    "encoder_attention_mask": np.ones((1, samples), np.int64), **past}  # fmt: skip
            names = {entry.name for entry in session.get_inputs()}
            given = {name: value for name, value in feed.items() if name in names}
            values = session.run(None, given)
            found = dict(zip([entry.name for entry in session.get_outputs()], values, strict=True))
            carried = {name: value for name, value in found.items() if session is self.first or ".decoder." in name}
            past.update({name.replace("present", "past_key_values"): value for name, value in carried.items()})
            session = self.step
            tokens.append(int(found["logits"][0, -1].argmax()))
            if tokens[-1] == END:
                break
        return tokens[1:]


def main() -> int:
    """Print both times, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--set", default="moonshine-tiny")
    parser.add_argument("--audio", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    audio = read_audio(arguments.audio or arguments.models / "beckett.wav")
    samples = np.ascontiguousarray(audio.samples, np.float32)
    seconds = len(samples) / audio.rate
    reference = Reference(arguments.models)
    with Moonshine(open_set(arguments.set), device="software") as ours:
        text = ours.hear(samples).text  # everything is loaded now
        our_encoder, _ = least(lambda: ours.encode(samples), arguments.runs)
        our_whole, heard = least(lambda: ours.hear(samples), arguments.runs)
    their_encoder, states = least(lambda: reference.encode(samples), arguments.runs + 1)
    their_steps, tokens = least(lambda: reference.decode(states, len(samples), 200), arguments.runs + 1)
    count = max(len(tokens), 1)
    rows = [
        ("encoder", our_encoder, their_encoder),
        ("step", (our_whole - our_encoder) / max(len(heard.tokens) + 1, 1), their_steps / count),
        ("whole", our_whole, their_encoder + their_steps),
    ]
    print(f"{seconds:.2f} s of sound, {count} steps: {text!r}")
    for name, mine, other in rows:
        print(f"{name:8} {mine * 1e3:8.1f} ms   ONNX Runtime {other * 1e3:8.1f} ms   ratio {mine / other:5.2f}")
    print(f"real-time factor {our_whole / seconds:.3f}; ONNX Runtime {(their_encoder + their_steps) / seconds:.3f}")
    return int(rows[-1][1] > BAR * rows[-1][2])


if __name__ == "__main__":
    sys.exit(main())
