"""The first answer of a process: opening a model and running it once, beside ONNX Runtime, in one run.

    python benchmarks/cold.py [--onnxruntime PYTHON] [--rounds 7] [--realtime] [--json] [--page FILE]

Every start is a process of its own; the kinds take turns, and what counts is the best of each. "without cache" decodes
the model and packs its weights, "with cache" finds the program that an earlier process left. ONNX Runtime opens the
same network in int8 (QDQ): as it is, and as the optimized model that it saved before, which is its own way of doing the
work once. Each kind tells what passes in its process: importing, opening (a session), the first run, the second run;
"from the start" is everything from the birth of the process to the first answer, as the parent sees it.
The bar: with the cache, open and first run take at most 100 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT.parent / "shared" / "models" / "bench"
NETS = {
    "YOLOv8n-shaped 640": ("v8n_rk3588_i8.rknn", "v8n_qdq.onnx"),
    "ResNet18 224": ("resnet18_rk3588_i8.rknn", "resnet18_qdq.onnx"),
    "MobileNetV2 224": ("mbv2_rk3588_i8.rknn", "mbv2_qdq.onnx"),
}
WITHOUT, WITH, ORT, SAVED = "without cache", "with cache", "ONNX Runtime", "ONNX Runtime, optimized model saved"
PHASES = ("import", "open", "first", "second")
BAR_MILLISECONDS = 100.0
BEGIN, END = "<!-- written by benchmarks/cold.py -->", "<!-- end -->"

OURS = """
import sys, time
begun = time.perf_counter()
import numpy as np
from openrknn import Session
imported = time.perf_counter()
session = Session(sys.argv[1], "software")
opened = time.perf_counter()
feeds = [np.full(one.shape, 7, np.uint8) for one in session.inputs]
def run():
    return session.run(feeds)
"""
THEIRS = """
import sys, time
begun = time.perf_counter()
import numpy as np
import onnxruntime
imported = time.perf_counter()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
options.log_severity_level = 3
if sys.argv[3] == "write":
    options.optimized_model_filepath = sys.argv[4]
if sys.argv[3] == "read":
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(sys.argv[4] if sys.argv[3] == "read" else sys.argv[1], options)
opened = time.perf_counter()
feeds = {one.name: np.full(one.shape, 0.5, np.float32) for one in session.get_inputs()}
def run():
    return session.run(None, feeds)
"""
REST = """
ready = time.perf_counter()
run()
first = time.perf_counter()
answered = time.time()
run()
second = time.perf_counter()
import json
print(json.dumps({"import": imported - begun, "open": opened - imported, "first": first - ready,
                  "second": second - first, "answered": answered}))
"""


def start(command: list[str], realtime: bool, **environment: str) -> dict[str, float]:
    """One process; milliseconds of its phases, and from its start to the first answer."""
    prefix = ["chrt", "-f", "1"] if realtime else []
    # An installed package has its bytecode; a shell of developers may say that none is to be written.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables = inherited | {"OPENBLAS_NUM_THREADS": "1"} | environment
    begun = time.time()
    done = subprocess.run([*prefix, *command], env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["ended without a word"])[-1])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {**{name: found[name] * 1e3 for name in PHASES}, "all": (found["answered"] - begun) * 1e3}


def measure(net: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The best start of each kind."""
    ours, theirs = (str(arguments.models / name) for name in NETS[net])
    threads, saved = str(len(os.sched_getaffinity(0))), str(folder / "saved.onnx")
    mine = [sys.executable, "-c", OURS + REST, ours]
    ort = [arguments.onnxruntime or sys.executable, "-c", THEIRS + REST, theirs, threads]
    cache, bytecode = str(folder / "cache"), {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    kinds: dict[str, tuple[list[str], dict[str, str]]] = {
        WITHOUT: (mine, {"OPENRKNN_CACHE": "off", **bytecode}),
        WITH: (mine, {"OPENRKNN_CACHE": cache, **bytecode}),
        ORT: ([*ort, "plain"], bytecode),
        SAVED: ([*ort, "read", saved], bytecode),
    }
    starts: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    missing: dict[str, str] = {}
    start(mine, arguments.realtime, OPENRKNN_CACHE=cache, **bytecode)
    try:
        start([*ort, "write", saved], arguments.realtime, **bytecode)
    except RuntimeError as error:
        missing = {ORT: str(error), SAVED: str(error)}
    for _ in range(arguments.rounds):
        for kind, (command, environment) in kinds.items():
            if kind not in missing:
                starts[kind].append(start(command, arguments.realtime, **environment))
    best = {kind: _best(found) for kind, found in starts.items() if found}
    size = sum(path.stat().st_size for path in Path(cache).rglob("*.kept"))
    return {"net": net, "best": best, "missing": missing, "kept_bytes": size, "model_bytes": os.path.getsize(ours)}


def _best(starts: list[dict[str, float]]) -> dict[str, float]:
    """Each phase at its best, and open + first of the start where that was best."""
    answer = min(one["open"] + one["first"] for one in starts)
    return {**{name: min(one[name] for one in starts) for name in (*PHASES, "all")}, "answer": answer}


COLUMNS = ("net", "start", "import", "open", "first run", "open + first run", "second run", "from the start")


def rows(result: dict[str, Any]) -> list[list[str]]:
    """Cells of the table; a star where the bar is missed."""
    found = []
    for kind in (WITHOUT, WITH, ORT, SAVED):
        best = result["best"].get(kind)
        if best is None:
            found.append([result["net"], kind, *["missing"] * 6])
            continue
        star = " *" if kind == WITH and best["answer"] > BAR_MILLISECONDS else ""
        cells = [f"{best[name]:.0f} ms" for name in ("import", "open", "first")]
        found.append([result["net"], kind, *cells, f"{best['answer']:.0f} ms{star}", f"{best['second']:.0f} ms",
                      f"{best['all']:.0f} ms"])  # fmt: skip
    return found


def ratios(result: dict[str, Any]) -> str:
    """What the cache gains, and how it stands beside ONNX Runtime."""
    best = result["best"]
    gains = [f"{kind} {best[kind]['answer'] / best[WITH]['answer']:.1f} x" for kind in best if kind != WITH]
    kept = f"{result['kept_bytes'] / 1e6:.1f} MB kept for a file of {result['model_bytes'] / 1e6:.1f} MB"
    return f"{result['net']}: open + first run as multiples of the start with the cache: {', '.join(gains)}; {kept}."


def page(results: list[dict[str, Any]], rounds: int) -> str:
    """The part of the documentation page between the marks."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = found[1] if found else platform.machine()
    lines = [
        BEGIN, "",
        f"{machine}, {len(os.sched_getaffinity(0))} processors, {date.today()}, {rounds} starts of each kind.", "",
        "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for result in results for row in rows(result)),
        "", *(f"{ratios(result)}\n" for result in results), END,
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="a Python with onnxruntime (default: this one)")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--net", choices=NETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--realtime", action="store_true", help="each start before everything else; needs root")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    arguments = parser.parse_args()
    if not arguments.models.is_dir():
        parser.error(f"there is no folder {arguments.models}; --models says where the models are")
    results = []
    for net in arguments.net or NETS:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(net, arguments, Path(folder)))
    text = page(results, arguments.rounds)
    print(json.dumps(results, indent=2) if arguments.json else text)
    if arguments.page:
        whole = arguments.page.read_text()
        begin, end = whole.index(BEGIN), whole.index(END) + len(END)
        arguments.page.write_text(whole[:begin] + text + whole[end:])


if __name__ == "__main__":
    main()
