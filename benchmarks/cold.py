"""The first answer of a process: opening a model and running it once, beside ONNX Runtime, in one run.

    python benchmarks/cold.py [--onnxruntime PYTHON] [--rounds 7] [--realtime] [--json] [--page FILE] [--large FILE ...]

Every start is a process of its own; the kinds take turns, and what counts is the best of each. "without cache" decodes
the model and packs its weights, "with cache" finds the program that an earlier process left. ONNX Runtime opens the
same network in int8 (QDQ): as it is, and as the optimized model that it saved before, which is its own way of doing the
work once. Each kind tells what passes in its process: importing, opening (a session), the first run, the second run;
"from the start" is everything from the birth of the process to the first answer, as the parent sees it.
The targets, with a star where one is missed: open and first run take at most 100 ms with the cache, and no longer than
those of ONNX Runtime without it; importing `Session`, and `openrknn run --help`, take at most twice as long as
importing NumPy. Large files (`--large`, a .rknn or the .rknnz of a decoder) open in at most twice the time of reading
their bytes.
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
PHASES = ("numpy", "import", "open", "first", "second")
BAR_MILLISECONDS = 100.0
MOST_OF_NUMPY = 2.0
MOST_OF_READING = 2.0
BEGIN, END = "<!-- written by benchmarks/cold.py -->", "<!-- end -->"

OURS = """
import sys, time
begun = time.perf_counter()
import numpy as np
numpy_imported = time.perf_counter()
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
numpy_imported = time.perf_counter()
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
print(json.dumps({"numpy": numpy_imported - begun, "import": imported - begun,
                  "open": opened - imported, "first": first - ready,
                  "second": second - first, "answered": answered}))
"""
LARGE = """
import json, sys, time
import numpy
from openrknn import Decoder, Session
begun = time.perf_counter()
with open(sys.argv[1], "rb") as file:
    size = len(file.read())
read = time.perf_counter()
opened = Decoder(sys.argv[1], device="software") if sys.argv[1].endswith(".rknnz") else Session(sys.argv[1], "software")
print(json.dumps({"read": read - begun, "open": time.perf_counter() - read, "bytes": size}))
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


def start_up(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Milliseconds of whole processes beyond one that does nothing, the best of each: imports, and a command."""
    kinds = {
        "nothing": ["-c", "pass"],
        "NumPy": ["-c", "import numpy"],
        "Session": ["-c", "from openrknn import Session"],
        "openrknn run --help": ["-m", "openrknn", "run", "--help"],
    }
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    prefix = ["chrt", "-f", "1"] if arguments.realtime else []
    variables = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in range(arguments.rounds + 1):  # the first writes the bytecode
        for kind, command in kinds.items():
            begun = time.perf_counter()
            subprocess.run([*prefix, sys.executable, *command], env=variables, capture_output=True, check=True)
            if number:
                found[kind].append((time.perf_counter() - begun) * 1e3)
    best = {kind: min(times) for kind, times in found.items()}
    return {kind: best[kind] - best["nothing"] for kind in kinds if kind != "nothing"}


def large(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Reading and opening a file that the system has in memory, the best of each in milliseconds."""
    command = [*(["chrt", "-f", "1"] if arguments.realtime else []), sys.executable, "-c", LARGE, str(path)]
    runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(arguments.rounds)]
    return {"name": path.name, "bytes": runs[0]["bytes"],
            **{name: min(run[name] for run in runs) * 1e3 for name in ("read", "open")}}  # fmt: skip


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
        bars = {WITH: BAR_MILLISECONDS, WITHOUT: result["best"].get(ORT, {}).get("answer")}
        star = _star(best["answer"], bars.get(kind))
        cells = [f"{best[name]:.0f} ms" for name in ("open", "first")]
        slow = _star(best["import"], MOST_OF_NUMPY * best["numpy"] if kind in {WITH, WITHOUT} else None)
        found.append([result["net"], kind, f"{best['import']:.0f} ms{slow}", *cells,
                      f"{best['answer']:.0f} ms{star}", f"{best['second']:.0f} ms",
                      f"{best['all']:.0f} ms"])  # fmt: skip
    return found


def _star(value: float, bar: float | None) -> str:
    return " *" if bar is not None and value > bar else ""


def others(started: dict[str, float], files: list[dict[str, Any]]) -> list[str]:
    """The rest of the page: starting a process, and large files."""
    numpy = started["NumPy"]
    texts = [f"{kind} {value:.0f} ms{_star(value, MOST_OF_NUMPY * numpy)}" for kind, value in started.items()]
    lines = [f"A process that only imports, or prints its help, beyond one that does nothing: {', '.join(texts)}.", ""]
    for file in files:
        bar = _star(file["open"], MOST_OF_READING * file["read"])
        what = f"{file['name']} ({file['bytes'] / 1e6:.0f} MB)"
        lines += [f"{what}: read in {file['read']:.0f} ms, opened in {file['open']:.0f} ms{bar}.", ""]
    return lines


def ratios(result: dict[str, Any]) -> str:
    """What the cache gains, and how it stands beside ONNX Runtime."""
    best = result["best"]
    gains = [f"{kind} {best[kind]['answer'] / best[WITH]['answer']:.1f} x" for kind in best if kind != WITH]
    kept = f"{result['kept_bytes'] / 1e6:.1f} MB kept for a file of {result['model_bytes'] / 1e6:.1f} MB"
    return f"{result['net']}: open + first run as multiples of the start with the cache: {', '.join(gains)}; {kept}."


def page(results: list[dict[str, Any]], rounds: int, rest: list[str]) -> str:
    """The part of the documentation page between the marks."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = found[1] if found else platform.machine()
    lines = [
        BEGIN, "",
        f"{machine}, {len(os.sched_getaffinity(0))} processors, {date.today()}, {rounds} starts of each kind.", "",
        "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for result in results for row in rows(result)),
        "", *(f"{ratios(result)}\n" for result in results), *rest, END,
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
    parser.add_argument("--large", type=Path, metavar="FILE", nargs="+", default=[], help="files to open, and to read")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    arguments = parser.parse_args()
    if not arguments.models.is_dir():
        parser.error(f"there is no folder {arguments.models}; --models says where the models are")
    results = []
    for net in arguments.net or NETS:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(net, arguments, Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        started = start_up(arguments, Path(folder))
    files = [large(path, arguments) for path in arguments.large]
    text = page(results, arguments.rounds, others(started, files))
    print(json.dumps(results, indent=2) if arguments.json else text)
    if arguments.page:
        whole = arguments.page.read_text()
        begin, end = whole.index(BEGIN), whole.index(END) + len(END)
        arguments.page.write_text(whole[:begin] + text + whole[end:])


if __name__ == "__main__":
    main()
