#!/usr/bin/env python3
"""Seconds and memory of a compilation: `openrknn compile` beside the vendor's toolkit, turn by turn in one run.

    python benchmarks/compiler_cost.py PYTHON_OF_THE_TOOLKIT --corpus CORPUS --models MODELS --sources SOURCES
    python benchmarks/compiler_cost.py PYTHON_OF_THE_TOOLKIT --net NET.onnx=BUILD.rknn ... [-- OPTION ...]

CORPUS and MODELS hold networks with the vendor's builds, SOURCES what `acceptance/fetch.py` fetches; what is not there
is left out. BUILD.rknn is the vendor's build of a net, with an input in BUILD.npz: mean and std come from it, and the
input is what both calibrate with. Networks that are there with quantised weights only are made float for this.

Each compilation is a process of its own, from its start to the written file; the memory is the largest resident set of
it. A first round, which fills the caches of both, does not count. Processor time is there for busy machines. The bars:
at most half the seconds, at most half the memory. OPTIONs go to `openrknn compile`; exit status 1: a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from acceptance.toolkit import SCRIPT
from onnx import numpy_helper

import openrknn

BAR = 0.5
LAUNCHER = """
import os, sys, time
started = time.perf_counter()
pid = os.fork()
if not pid:
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - started
print(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Net:
    """One network: its source, and the vendor's build with an input beside it."""

    name: str
    source: Path
    build: Path


def known(corpus: Path | None, models: Path | None, sources: Path | None) -> Iterator[Net]:
    """Networks that everybody has who has the folders."""
    if corpus:
        for name in ("mbv2", "resnet", "yolo"):
            yield Net(f"{name} (corpus)", corpus / f"{name}.onnx", corpus / f"{name}_rk3588_i8.rknn")
    if models:
        yield Net("YOLOX-nano 416", models / "yolox_nano_416.onnx", models / "yolox_nano_rk3588_i8.rknn")
        for name, title in (("resnet18", "ResNet18 224"), ("mbv2", "MobileNetV2 224"), ("v8n", "YOLOv8n-shaped 640")):
            yield Net(title, models / "bench" / f"{name}_qdq.onnx", models / "bench" / f"{name}_rk3588_i8.rknn")
    trained = (("EfficientNet-Lite0", "efficientnet_lite0.onnx", "effnet_lite0"),
               ("PP-OCR detection", "ch_PP-OCRv4_det_infer.onnx", "ppocrv4_det"))  # fmt: skip
    if models and sources:
        for title, file, stored in trained:
            for path in sorted(sources.rglob(file))[:1]:
                yield Net(title, path, models / f"{stored}_rk3588_i8.rknn")


def as_float(path: Path, folder: Path) -> Path:
    """Without the pairs that quantise: weights become floats."""
    model = onnx.load(path)
    graph = model.graph
    if not any(node.op_type == "QuantizeLinear" for node in graph.node):
        return path
    arrays = {entry.name: numpy_helper.to_array(entry) for entry in graph.initializer}
    renamed: dict[str, str] = {}
    made, kept = [], []
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in arrays:
            stored, scale, zero = (arrays[name].astype(np.float32) for name in node.input)
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
            shape = [-1 if number == axis and scale.size > 1 else 1 for number in range(stored.ndim)]
            made.append(numpy_helper.from_array((stored - zero.reshape(shape)) * scale.reshape(shape), node.output[0]))
        elif node.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            renamed[node.output[0]] = renamed.get(node.input[0], node.input[0])
        else:
            for number, name in enumerate(node.input):
                node.input[number] = renamed.get(name, name)
            kept.append(node)
    writers = {renamed[entry.name]: entry.name for entry in graph.output if entry.name in renamed}
    for node in kept:
        node.input[:] = [writers.get(name, name) for name in node.input]
        node.output[:] = [writers.get(name, name) for name in node.output]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    others = [entry for entry in graph.initializer if entry.name in used]
    del graph.initializer[:]
    graph.initializer.extend([*others, *made])
    onnx.save(model, folder / path.name)
    return folder / path.name


def spent(words: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and MB of a process."""
    # Installed packages have compiled modules; so have both here, whatever this process was told.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / f"compiler_cost_{os.getuid()}")
    # A process starts with the largest resident set of the one that started it: that has to be a small one.
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(folder / "log"), *words]
    done = subprocess.run(launcher, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    seconds, processor, kilobytes, code = done.stdout.split()
    if int(code):
        raise SystemExit(f"{words[0]} failed: {(folder / 'log').read_text(errors='replace')[-2000:]}")
    return float(seconds), float(processor), int(kilobytes) / 1024


def commands(net: Net, form: str, toolkit: str, options: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """What to run: ours and theirs."""
    source = as_float(net.source, folder).resolve()
    with np.load(net.build.with_suffix(".npz")) as archive:
        picture = archive["x0"]
    planes = picture.transpose(0, 3, 1, 2) if picture.dtype == np.uint8 else picture  # what the toolkit wants
    np.save(folder / "picture.npy", picture)
    np.save(folder / "planes.npy", np.ascontiguousarray(planes))
    (folder / "dataset.txt").write_text(f"{folder / 'planes.npy'}\n")
    ours = [sys.executable, "-m", "openrknn.cli", "compile", str(source), "-o", str(folder / "ours.rknn"), "--force"]
    ask: dict[str, Any] = {"source": str(source), "config": {}, "load": {}, "quantise": form == "int8",
                           "dataset": str(folder / "dataset.txt"), "target": str(folder / "theirs.rknn")}  # fmt: skip
    if form == "int8":
        ours += ["--calibrate", str(folder / "picture.npy")]
    if picture.dtype == np.uint8:
        norm, channels = openrknn.load(net.build).graphs[0].normalizations[0], picture.shape[-1]
        mean, std = (list(part[:channels]) for part in (norm.mean, norm.std))
        ours += [f"--mean={','.join(map(str, mean))}", f"--std={','.join(map(str, std))}"]
        ask["config"] = {"mean_values": [mean], "std_values": [std]}
    entry = onnx.load(source, load_external_data=False).graph.input[0]
    if not all(dim.dim_value for dim in entry.type.tensor_type.shape.dim):
        ours += ["--shapes", f"{entry.name}={','.join(map(str, planes.shape))}"]
        ask["load"] = {"inputs": [entry.name], "input_size_list": [list(planes.shape)]}
    return [*ours, *options], [toolkit, "-c", SCRIPT, json.dumps(ask)]


def measure(net: Net, form: str, toolkit: str, rounds: int, options: list[str]) -> dict[str, Any]:
    """One row: medians."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = commands(net, form, toolkit, options, folder)
        found = [(spent(ours, folder), spent(theirs, folder)) for _ in range(rounds + 1)][1:]
    mine, other = ([statistics.median(column) for column in zip(*(row[side] for row in found), strict=True)]
                   for side in (0, 1))  # fmt: skip
    return {
        "net": net.name, "form": form, "rounds": rounds,
        "seconds": mine[0], "vendor_seconds": other[0], "seconds_ok": mine[0] <= BAR * other[0],
        "cpu_seconds": mine[1], "vendor_cpu_seconds": other[1],
        "megabytes": mine[2], "vendor_megabytes": other[2], "megabytes_ok": mine[2] <= BAR * other[2],
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """Of the table."""
    pairs = [(row[name], row[f"vendor_{name}"]) for name in ("seconds", "cpu_seconds", "megabytes")]
    words = " ".join("pass" if row[name] else "FAIL" for name in ("seconds_ok", "megabytes_ok"))
    numbers = " | ".join(f"{a:.3g} | {b:.3g} | {b / a:.1f}" for a, b in pairs)
    return f"| {row['net']} | {row['form']} | {numbers} | {words} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkit", help="a Python that can import rknn.api")
    for name in ("corpus", "models", "sources"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--net", action="append", default=[], metavar="NET.onnx=BUILD.rknn")
    parser.add_argument("--only", nargs="*", help="networks whose names contain one of these")
    parser.add_argument("--forms", default="int8,fp16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    arguments = parser.parse_args(given[:at])
    nets = [net for net in known(arguments.corpus, arguments.models, arguments.sources) if net.source.exists()]
    for pair in arguments.net:
        source, _, build = pair.partition("=")
        nets.append(Net(Path(source).stem, Path(source), Path(build)))
    if arguments.only:
        nets = [net for net in nets if any(word.lower() in net.name.lower() for word in arguments.only)]
    out = sys.stderr if arguments.json else sys.stdout
    head = "| net | form | s ours | vendor | times | CPU s ours | vendor | times | MB ours | vendor | times | bars |"
    print(head, "|---" * head.count(" |") + "|", sep="\n", file=out)
    rows = []
    for net in nets:
        for form in arguments.forms.split(","):
            rows.append(measure(net, form, arguments.toolkit, arguments.rounds, given[at + 1 :]))
            print(line(rows[-1]), file=out, flush=True)
    passed = {name: sum(row[name] for row in rows) for name in ("seconds_ok", "megabytes_ok")}
    is_good = bool(rows) and all(count == len(rows) for count in passed.values())
    summary = (f"{'pass' if is_good else 'FAIL'}: at most half the seconds in {passed['seconds_ok']} of {len(rows)}, "
               f"at most half the memory in {passed['megabytes_ok']} of {len(rows)}")  # fmt: skip
    print(summary, file=out)
    if arguments.json:
        print(json.dumps({"rows": rows, "pass": is_good, "summary": summary}))
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
