"""Text to speech with a voice of Piper's shape: exactness, share of the NPU, real-time factor, estimate for RK3588.

    python -m benchmarks.voice_speech [--size medium | --voice VOICE.onnx] [--phonemes 25 61 121] [--set FOLDER]

Without --voice the voice is one of `tools.vits`: Piper's graph and sizes, weights by chance. The witness is the whole
graph in ONNX Runtime, one thread, its operators of chance replaced by inputs: both hear the same noise. Stages
are measured each with the float inputs of the stage before, then one after the other. Durations are whole: where
fp16 moves one across a border the sentence is longer or shorter by a frame, so they are counted, and the sound is
compared with the float model's durations.

Bars: whole graph >= 40 dB, no stage below it. Exit status 1: missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import openrknn
from openrknn.container.bundle import read_bundle
from openrknn.partition.prepare import prepare
from openrknn.runtime.cost import cost_of
from openrknn.voice.make.piper import make
from openrknn.voice.make.vits.cut import Stages, cut_vits
from openrknn.voice.piper.engine import StagedEngine, regulate
from openrknn.voice.piper.windows import windows_of
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.talkers import Scales
from tools.vits import SIZES, write_voice

BAR = 40.0
SCALES = Scales(0.667, 1.0, 0.8)


@dataclass
class Result:
    """Of one sentence."""

    phonemes: int
    frames: int
    seconds: float
    moved: int
    """Durations that differ from the float model's."""
    whole: float
    """Decibels."""
    stages: dict[str, float] = field(default_factory=dict)
    ours: dict[str, float] = field(default_factory=dict)
    """Seconds by the clock."""
    ours_cpu: float = 0.0
    reference: float = 0.0
    """Seconds of the processor: other programs do not count. Both have one thread."""
    estimate: dict[str, float] = field(default_factory=dict)
    """Milliseconds on an RK3588, one core."""


def decibels(right: Any, made: Any) -> float:
    """Signal to error."""
    right, made = np.asarray(right, np.float64), np.asarray(made, np.float64)
    return float(10 * np.log10((right**2).sum() / max(1e-30, ((right - made) ** 2).sum())))


def session(model: Any) -> Any:
    """ONNX Runtime in float, one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def witness(model: Any) -> Any:
    """The whole graph with noise as inputs and durations as a second output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    chance = [node for node in graph.node if node.op_type == "RandomNormalLike"]
    for node, name in zip(chance, ("noise_w", "noise_z")[-len(chance) :], strict=True):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, None]))
        for reader in graph.node:
            reader.input[:] = [name if value == node.output[0] else value for value in reader.input]
        graph.node.remove(node)
    ceil = next(node for node in graph.node if node.op_type == "Ceil")
    graph.output.append(helper.make_tensor_value_info(ceil.output[0], TensorProto.FLOAT, None))
    return session(copy)


class Bench:
    """A voice, its float stages, and the engine."""

    def __init__(self, model: Any, stages: Stages, voice: VoiceSet) -> None:
        self.stages, self.voice = stages, voice
        self.engine = StagedEngine(voice, "software")
        self.whole = witness(model)
        self.floats = {role: session(getattr(stages, role)) for role in ("encoder", "durations", "flow", "decoder")}
        self.random = np.random.default_rng(5)

    def float_stage(self, role: str, feed: dict[str, Any]) -> list[Any]:
        """What float makes of it."""
        net = self.floats[role]
        wanted = {entry.name for entry in net.get_inputs()}
        return list(net.run(None, {name: value for name, value in feed.items() if name in wanted}))

    def sentence(self, count: int) -> Result:
        """One sentence of so many numbers."""
        letters = self.random.integers(3, 150, (count - 3) // 2)
        ids = [1, 0, *(int(number) for letter in letters for number in (letter, 0)), 2]
        count = len(ids)
        row = {} if self.engine.speakers is None else {"speaker": self.engine.speakers[0][None]}
        noise_w = self.random.standard_normal((1, 2, count), np.float32)
        ones = np.ones((1, 1, count), np.float32)
        embedded = self.stages.embedding[ids][None]
        hidden, mean, logs = self.float_stage("encoder", {"embedded": embedded, "mask": ones})
        scales = np.array([SCALES.noise, SCALES.length, SCALES.noise_w], np.float32)
        given = {"hidden": hidden, "mask": ones, "scales": scales, "noise": noise_w, **row}
        durations = self.float_stage("durations", given)[0]
        frames = durations.reshape(-1).astype(np.int64)
        total = int(frames.sum())
        noise_z = self.random.standard_normal((1, self.stages.channels, total), np.float32)
        feed = {"input": np.array([ids]), "input_lengths": np.array([count]), "scales": scales, "noise_z": noise_z,
                "noise_w": noise_w, "sid": np.array([0])}  # fmt: skip
        feed = {entry.name: feed[entry.name] for entry in self.whole.get_inputs()}
        self.whole.run(None, feed)
        start = time.process_time()
        right, said = self.whole.run(None, feed)
        reference = time.process_time() - start
        if not np.array_equal(said.reshape(-1), durations.reshape(-1)):
            raise SystemExit("the float stages do not make the whole graph's durations")
        latent = regulate(mean, logs, frames, noise_z, SCALES.noise)
        z = self.float_stage("flow", {"latent": latent, "mask": np.ones((1, 1, total), np.float32), **row})[0]
        # Each stage alone, on what float gives it.
        engine = self.engine
        ours = engine.encode(ids)
        alone = {
            "encoder": min(decibels(a, b) for a, b in zip((hidden, mean, logs), ours, strict=True)),
            "flow": decibels(z, engine.flow(latent, row)),
            "decoder": decibels(right.reshape(-1), np.concatenate(list(engine.decode(z, row)))),
        }
        # All of them, one after the other.
        engine.times.clear()
        start = time.process_time()
        hidden16, mean16, logs16 = engine.encode(ids)
        moved = int((engine.durations(hidden16, SCALES, noise_w, row) != frames).sum())
        latent16 = regulate(mean16, logs16, frames, noise_z, SCALES.noise)
        made = np.concatenate(list(engine.decode(engine.flow(latent16, row), row)))
        took = time.process_time() - start
        return Result(
            count, total, made.size / self.voice.rate, moved, decibels(right.reshape(-1), made), alone,
            dict(engine.times), took, reference, self.estimate(count, total),
        )  # fmt: skip

    def estimate(self, count: int, frames: int) -> dict[str, float]:
        """Milliseconds of the runs that this sentence takes."""
        engine = self.engine
        size = next(size for size in engine.texts if size >= count)
        runs = {
            "encoder": [size],
            "flow": [window.size for window in windows_of(frames, engine.flows, engine.flow_reach, masked=True)],
            "decoder": [window.size for window in windows_of(frames, engine.decodes, engine.decoder_reach)],
        }
        found: dict[str, float] = {}
        for role, sizes in runs.items():
            if role not in self.voice.files:  # the text encoder of a set in fp16 is float, on the CPU
                continue
            costs = plan_costs(self.voice, role)
            for key, place in (("", 0), ("low ", 1), ("high ", 2)):
                found[key + role] = sum(costs[size][place] for size in sizes)
        return found


_COSTS: dict[str, dict[int, tuple[float, float, float]]] = {}


def plan_costs(voice: VoiceSet, role: str) -> dict[int, tuple[float, float, float]]:
    """Size of a plan -> (time, low, high) in milliseconds, of its parts on the NPU."""
    if role not in _COSTS:
        bundle = read_bundle(voice.file(role))
        _COSTS[role] = {}
        for plan in bundle.plans:
            times = [0.0, 0.0, 0.0]
            for number in plan.parts:
                part = bundle.parts[number]
                if part.kind != "npu":
                    continue
                cost = cost_of(openrknn.load(bundle.files[part.file]))
                for place, value in enumerate((cost.time_ms, cost.low_ms, cost.high_ms)):
                    times[place] += value or 0.0
            size = plan.shapes["embedded"][1] if "embedded" in plan.shapes else next(iter(plan.shapes.values()))[2]
            _COSTS[role][size] = (times[0], times[1], times[2])
    return _COSTS[role]


def shares(voice: VoiceSet, stages: Stages, result: Result) -> dict[str, Any]:
    """Multiplications of a sentence of this length, and how many of them the NPU does."""
    rows: dict[str, Any] = {}
    lengths = {"encoder": result.phonemes, "flow": result.frames, "decoder": result.frames}
    for role, length in lengths.items():
        if role not in voice.files:
            continue
        bundle = read_bundle(voice.file(role))
        plan = bundle.plans[-1]
        size = plan.shapes["embedded"][1] if "embedded" in plan.shapes else next(iter(plan.shapes.values()))[2]
        parts = [bundle.parts[number] for number in plan.parts]
        # A window's overlap is work, but no work of the model: by length, not by runs.
        rows[role] = [sum(part.macs for part in parts) * length / size,
                      sum(part.npu_macs for part in parts) * length / size]  # fmt: skip
    copy = onnx.ModelProto()
    copy.CopyFrom(stages.durations)
    shapes = {"hidden": (1, stages.embedding.shape[1], result.phonemes), "mask": (1, 1, result.phonemes),
              "noise": (1, 2, result.phonemes), "scales": (3,)}  # fmt: skip
    if stages.speakers is not None:
        shapes["speaker"] = (1, stages.speakers.shape[1])
    known = {entry.name for entry in copy.graph.input}
    view = prepare(copy, {name: shape for name, shape in shapes.items() if name in known})
    rows["durations"] = [float(sum(node.macs for node in view.nodes)), 0.0]
    total, npu = (sum(row[place] for row in rows.values()) for place in (0, 1))
    return {"macs": {role: row[0] for role, row in rows.items()}, "share": npu / total}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--voice", help="a real VOICE.onnx with its VOICE.onnx.json")
    parser.add_argument("--phonemes", type=int, nargs="+", default=[25, 61, 121])
    parser.add_argument("--set", help="a folder for the set; one that is there is taken as it is")
    parser.add_argument("--texts", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--flows", type=int, nargs="+", default=[128, 384])
    parser.add_argument("--decodes", type=int, nargs="+", default=[64, 192])
    parser.add_argument("--json", metavar="OUT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments.voice or write_voice(Path(folder) / "voice.onnx", SIZES[arguments.size]))
        model = onnx.load(str(path))
        stages = cut_vits(model)
        place = Path(arguments.set or Path(folder) / "set")
        start = time.perf_counter()
        if not (place / "voice.json").is_file():
            make(path, place, texts=arguments.texts, flows=arguments.flows, decodes=arguments.decodes)
        made_in = time.perf_counter() - start
        bench = Bench(model, stages, open_set(place))
        results = [bench.sentence(count) for count in arguments.phonemes]
        bench.engine.close()
        megabytes = sum(file.stat().st_size for file in place.iterdir()) / 1e6
        share = shares(bench.voice, stages, results[-1])
    print(f"{path.name} {arguments.size if not arguments.voice else ''}: made in {made_in:.0f} s, {megabytes:.1f} MB, "
          f"{share['share']:.2%} of {sum(share['macs'].values()) / 1e9:.2f} GMAC on the NPU")  # fmt: skip
    for result in results:
        took = result.ours_cpu
        print(f"{result.phonemes} numbers, {result.frames} frames, {result.seconds:.2f} s: whole {result.whole:.1f} "
              f"dB, moved durations {result.moved}; " + ", ".join(f"{k} {v:.1f} dB" for k, v in result.stages.items()))
        print(f"    software NPU {took:.2f} s (RTF {took / result.seconds:.2f}; by the clock "
              + ", ".join(f"{k} {v:.2f}" for k, v in result.ours.items())
              + f"), ONNX Runtime {result.reference:.2f} s (RTF {result.reference / result.seconds:.3f})")  # fmt: skip
        low, mid, high = (
            sum(ms for key, ms in result.estimate.items() if key.startswith(prefix) and (prefix or " " not in key))
            for prefix in ("low ", "", "high ")
        )
        print(f"    RK3588, one core, by estimate: {mid:.1f} ms (range {low:.1f} to {high:.1f}), RTF "
              f"{mid / 1e3 / result.seconds:.4f}; durations on the CPU here {result.ours['durations'] * 1e3:.0f} ms")
    if arguments.json:
        rows = {"share": share, "made_in": made_in, "results": [vars(result) for result in results]}
        Path(arguments.json).write_text(json.dumps(rows, indent=1))
    worst = min(min(result.whole, *result.stages.values()) for result in results)
    print(f"lowest: {worst:.1f} dB, bar {BAR:.0f}")
    return int(worst < BAR)


if __name__ == "__main__":
    sys.exit(main())
