#!/usr/bin/env python3
"""ONNX models through the ONNX Runtime API: does each run, where, how close to float, and how fast does it start again?

    python benchmarks/face_models.py FOLDER-OR-FILES... [--state face.jsonl] [--shapes NAME=1,64] [--markdown OUT.md]

Every model is a process of its own; its result is kept in the state file, and a second run does only what is missing.
Inputs are random (integers: 0 and 1), open dimensions 1 unless --shapes says otherwise. The witness is ONNX Runtime's
CPU provider on the same numbers. No time here is of an NPU: "first" and "again" are seconds to open the session without
and with the cache; the software NPU then decodes its commands at the first run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
}  # fmt: skip
_PATIENCE = 1800


def main() -> int:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--state", type=Path, default=Path("face.jsonl"))
    parser.add_argument("--shapes", action="append", default=[], metavar="NAME=N,...")
    parser.add_argument("--value", action="append", default=[], metavar="NAME=NUMBER", help="all of an input")
    parser.add_argument("--prefer", default="cost", choices=("cost", "npu"))
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shapes = {text.partition("=")[0]: tuple(map(int, text.partition("=")[2].split(","))) for text in arguments.shapes}
    values = {text.partition("=")[0]: float(text.partition("=")[2]) for text in arguments.value}
    if arguments.one:
        print(json.dumps(_measure(arguments.models[0], shapes, values, arguments.prefer)))
        return 0
    done = {}
    if arguments.state.exists():
        done = {entry["model"]: entry for entry in map(json.loads, arguments.state.read_text().splitlines())}
    files = [
        path for given in arguments.models for path in (sorted(given.glob("*.onnx")) if given.is_dir() else [given])
    ]  # fmt: skip
    for path in files:
        if path.stem not in done:
            done[path.stem] = _isolated(path, arguments)
            with arguments.state.open("a") as file:
                file.write(json.dumps(done[path.stem]) + "\n")
        print(_line(done[path.stem]), flush=True)
    if arguments.markdown:
        arguments.markdown.write_text(_markdown([done[path.stem] for path in files]))
    return int(any("error" in done[path.stem] for path in files))


def _isolated(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(path), "--prefer", arguments.prefer]
    for option, texts in (("--shapes", arguments.shapes), ("--value", arguments.value)):
        for text in texts:
            command += [option, text]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"model": path.stem, "error": f"not done after {_PATIENCE} s"}
    if result.returncode:
        return {"model": path.stem, "error": (result.stderr.strip().splitlines() or ["?"])[-1]}
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def _measure(
    path: Path, shapes: dict[str, tuple[int, ...]], values: dict[str, float], prefer: str
) -> dict[str, Any]:
    import onnxruntime

    import openrknn.onnxruntime as face

    real = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = _feed(real, shapes, values)
    wanted = real.run(None, feed)
    with tempfile.TemporaryDirectory() as cache:
        options: dict[str, Any] = {"device": "software", "cache": cache, "prefer": prefer}
        if any(not isinstance(size, int) for entry in real.get_inputs() for size in entry.shape):
            options["shapes"] = [{name: value.shape for name, value in feed.items()}]
        providers: list[Any] = [("RknnExecutionProvider", options), "CPUExecutionProvider"]
        began = time.perf_counter()
        session = face.InferenceSession(path, providers=providers)
        first = time.perf_counter() - began
        found = session.run(None, feed)
        assert session.parted is not None
        bundle = session.parted.plans[0]
        began = time.perf_counter()
        again = face.InferenceSession(path, providers=providers)
        second = time.perf_counter() - began
        del again
    return {
        "model": path.stem, "share": bundle.npu_share, "macs": bundle.macs,
        "npu": sum(part.kind == "npu" for part in bundle.parts),
        "cpu": sum(part.kind == "cpu" for part in bundle.parts),
        "snr": _snr(found, wanted), "first": first, "again": second,
        "reasons": [part.reason for part in bundle.parts if part.kind == "cpu"],
    }  # fmt: skip


def _feed(session: Any, shapes: dict[str, tuple[int, ...]], values: dict[str, float]) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    feed: dict[str, Any] = {}
    for entry in session.get_inputs():
        shape = shapes.get(entry.name) or tuple(size if isinstance(size, int) else 1 for size in entry.shape)
        kind = _TYPES[entry.type]
        numbers = generator.normal(size=shape) if np.dtype(kind).kind == "f" else generator.integers(0, 2, shape)
        if entry.name in values:
            numbers = np.full(shape, values[entry.name])
        feed[entry.name] = np.asarray(numbers).astype(kind)
    return feed


def _snr(found: list[Any], wanted: list[Any]) -> float:
    """Of the worst float output; integers have to be equal, or it is 0."""
    worst = 200.0
    for mine, theirs in zip(found, wanted, strict=True):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return -999.0
        if mine.dtype.kind != "f":
            worst = min(worst, 200.0 if np.array_equal(mine, theirs) else 0.0)
            continue
        noise = float(np.linalg.norm(mine.astype(float) - theirs))
        signal = float(np.linalg.norm(theirs.astype(float)))
        worst = min(worst, 20 * float(np.log10(signal / noise)) if noise and signal else 200.0)
    return worst


def _line(entry: dict[str, Any]) -> str:
    if "error" in entry:
        return f"{entry['model']}: FAILED: {entry['error']}"
    return (
        f"{entry['model']}: {entry['share']:.1%} of {entry['macs'] / 1e6:.0f} M products on the NPU, {entry['npu']} "
        f"NPU and {entry['cpu']} CPU parts, {entry['snr']:.1f} dB; opens in {entry['first']:.1f} s, again in "
        f"{entry['again']:.2f} s"
    )


def _markdown(entries: list[dict[str, Any]]) -> str:
    lines = ["| model | products on the NPU | NPU, CPU parts | SNR | first start, again |", "|---|---|---|---|---|"]
    for entry in entries:
        if "error" in entry:
            lines.append(f"| {entry['model']} | **fails** | | | {entry['error']} |")
            continue
        lines.append(
            f"| {entry['model']} | {entry['share']:.1%} of {entry['macs'] / 1e6:.0f} M | {entry['npu']}, {entry['cpu']}"
            f" | {entry['snr']:.1f} dB | {entry['first']:.1f} s, {entry['again']:.2f} s |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
