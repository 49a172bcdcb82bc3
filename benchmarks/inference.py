"""How fast whole networks run: our Session beside ONNX Runtime int8 and the vendor's simulator, in one run.

    python benchmarks/inference.py --onnxruntime PYTHON --simulator PYTHON [--rounds 30] [--json] [--page FILE]

Every engine lives in a process of its own, and they take turns: a few inferences each, round after round, so that
whatever else the machine does hits all of them. What counts is the best inference of each: others only add to it.
With one thread that is the time of the processor, which on a quiet machine is the time that passes; what two threads
gain is told by the time that passes. Virtual processors often share one real one: what two processes with one thread
each gain when they run at the same time is told too, and nobody can gain more. On a busy machine `--realtime` (as root)
puts the turn of each engine before everything else.
`--hide-avx512` hides AVX-512 and AMX from all engines (hidden_cpuid.c), so that this processor stands for one without:
with AVX-VNNI if it has that, else with AVX2. It is still this processor, with its caches and its clock.
PYTHON is an interpreter that has onnxruntime (or rknn-toolkit2 2.5.0); an engine that is not there is said to be
missing.

Bars: 5 times as fast as the simulator, as fast as ONNX Runtime int8 (one thread each), two threads 1.7 times as fast as
one, peak memory at most model + activations + 64 MB above the interpreter.
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
import textwrap
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import IO, Any

import sections
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PEERS = Path(__file__).resolve().parent / "peers"
MODELS = ROOT.parent / "shared" / "models"
NETS = {
    "MobileNetV2 224": ("bench/mbv2_rk3588_i8.rknn", "bench/mbv2_qdq.onnx"),
    "ResNet18 224": ("bench/resnet18_rk3588_i8.rknn", "bench/resnet18_qdq.onnx"),
    "YOLOv8n-shaped 640": ("bench/v8n_rk3588_i8.rknn", "bench/v8n_qdq.onnx"),
    "YOLOX-nano 416": ("yolox_nano_rk3588_i8.rknn", "bench/yolox_nano_416_qdq.onnx"),
    "EfficientNet-Lite0 224": ("effnet_lite0_rk3588_i8.rknn", "bench/effnet_lite0_qdq.onnx"),
}
ONE, TWO, ORT, SIMULATOR = "openrknn, 1 thread", "openrknn, 2 threads", "ONNX Runtime int8", "vendor simulator"
PROCESSES = "two processes"
ROOM_BYTES = 64 << 20
TURN_SECONDS = 0.05
"""How long an engine works in one round, at least one inference."""
BARS = {SIMULATOR: 5.0, ORT: 1.0, TWO: 1.7}


@dataclass
class Engine:
    """A process that runs one net."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    passed: list[float] = field(default_factory=list)
    """Seconds of the best inference of each round."""
    busy: list[float] = field(default_factory=list)
    """The same in time of the processor."""
    error: str = ""
    _process: subprocess.Popen[str] | None = None
    _runs: int = 1

    def start(self) -> None:
        """Load the model; `error` says why there is none."""
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | self.environment,
        )  # fmt: skip
        try:
            self.about = json.loads(self._pipe("stdout").readline())
            self._runs = max(1, int(TURN_SECONDS / min(passed for passed, _ in self._ask(3))))
        except (ValueError, BrokenPipeError):
            _, words = self._process.communicate()
            self.error = (words.strip().splitlines() or ["ended without a word"])[-1]
            self._process = None

    def turn(self) -> None:
        """One round."""
        if self._process is not None:
            runs = self._ask(self._runs)
            self.passed.append(min(passed for passed, _ in runs))
            self.busy.append(min(busy for _, busy in runs))

    def together(self, other: Engine) -> float:
        """Seconds of an inference while another process of the same kind does the same."""
        for engine in (self, other):
            engine._send(self._runs)
        mine, theirs = self._receive(), other._receive()
        return max(min(passed for passed, _ in mine), min(passed for passed, _ in theirs))

    def stop(self) -> None:
        """End the process and take its last word, the peak memory."""
        if self._process is not None:
            rest, _ = self._process.communicate()
            self.about |= json.loads(rest)

    def result(self) -> dict[str, Any]:
        """For JSON."""
        if self.error:
            return {"error": self.error}
        best = min(self.passed if self.name == TWO else self.busy)
        return {"milliseconds": best * 1e3, "passed": self.passed, "busy": self.busy, **self.about}

    def _ask(self, count: int) -> list[tuple[float, float]]:
        self._send(count)
        return self._receive()

    def _send(self, count: int) -> None:
        requests = self._pipe("stdin")
        requests.write(f"{count}\n")
        requests.flush()

    def _receive(self) -> list[tuple[float, float]]:
        seconds: list[tuple[float, float]] = json.loads(self._pipe("stdout").readline())
        return seconds

    def _pipe(self, name: str) -> IO[str]:
        pipe: IO[str] = getattr(self._process, name)
        return pipe


def engines(net: tuple[str, str], models: Path, arguments: argparse.Namespace) -> list[Engine]:
    """All four, whether or not they can start."""
    ours, quantised = (str(models / name) for name in net)
    found = [
        Engine(name, [sys.executable, str(PEERS / "session.py"), ours, str(threads)])
        for name, threads in ((ONE, 1), (TWO, 2))
    ]
    ort, simulator = arguments.onnxruntime or sys.executable, arguments.simulator
    found.append(Engine(ORT, [ort, str(PEERS / "onnxruntime_int8.py"), quantised, "1"]))
    if simulator:
        found.append(Engine(SIMULATOR, [simulator, str(PEERS / "simulator.py"), quantised]))
    else:
        found.append(Engine(SIMULATOR, [], error="not installed; say which Python has it with --simulator"))
    return found


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One net: milliseconds and memory of each engine, and our ratios."""
    working = engines(NETS[name], arguments.models, arguments)
    by_name = {engine.name: engine for engine in working}
    ours, twin = by_name[ONE], Engine(ONE, by_name[ONE].command)
    for engine in (*working, twin):
        engine.environment = arguments.environment | ({"REALTIME": "1"} if arguments.realtime else {})
    together: list[float] = []
    try:
        for engine in (*working, twin):
            if not engine.error:
                engine.start()
        for _ in range(arguments.rounds):
            for engine in working:
                engine.turn()
            if ours.busy and not twin.error:
                together.append(ours.together(twin))
    finally:
        for engine in (*working, twin):
            engine.stop()
    ratios = {}
    if ours.busy and by_name[TWO].passed:
        ratios[TWO] = min(ours.passed) / min(by_name[TWO].passed)
    if together:
        ratios[PROCESSES] = 2 * min(ours.passed) / min(together)
    for other in (SIMULATOR, ORT):
        if ours.busy and by_name[other].busy:
            ratios[other] = min(by_name[other].busy) / min(ours.busy)
    return {
        "net": name,
        "engines": {engine.name: engine.result() for engine in working},
        "ratios": ratios,
        "memory_bar_bytes": ours.about.get("model_bytes", 0) + ours.about.get("activation_bytes", 0) + ROOM_BYTES,
    }


COLUMNS = (
    "net", "1 thread", "2 threads", "gain", "of two processes", "ONNX Runtime int8", "ratio", "vendor simulator",
    "ratio", "memory", "bar",
)  # fmt: skip


def row(result: dict[str, Any]) -> list[str]:
    """Cells of the table; a star where a bar is missed."""

    def time(name: str) -> str:
        found = result["engines"][name]
        return f"{found['milliseconds']:.1f} ms" if "milliseconds" in found else "missing"

    def ratio(name: str) -> str:
        found = result["ratios"].get(name)
        return "" if found is None else f"{found:.2f} x" + ("" if found >= BARS[name] else " *")

    possible = result["ratios"].get(PROCESSES)
    peak, bar = result["engines"][ONE].get("peak_bytes", 0), result["memory_bar_bytes"]
    memory = f"{peak / 1e6:.0f} MB" + ("" if peak <= bar else " *")
    return [
        result["net"], time(ONE), time(TWO), ratio(TWO),
        "" if possible is None else f"{possible:.2f} x", time(ORT), ratio(ORT), time(SIMULATOR),
        ratio(SIMULATOR), memory, f"{bar / 1e6:.0f} MB",
    ]  # fmt: skip


def processor() -> str:
    """What the machine calls itself."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


MEASURED = """Written by `benchmarks/inference.py`; do not edit. One inference, from NumPy arrays to NumPy arrays. The
engines take turns in one run, and the best inference of each counts: with one thread in time of the processor, with
two in time that passes. *Gain* is what two threads win over one, *of two processes* what two processes with one thread
each win when they run at the same time: virtual processors often share one real one, and nobody can gain more.
The times are those of this machine only: {processor}, kernels `{kernels}`, {day}, {rounds} rounds."""
PEERS_OF_THE_PAGE = """The peers have one thread each: ONNX Runtime {ort} on the same networks in int8 (QDQ), and the
simulator of rknn-toolkit2 {simulator}, which computes in floating point and cannot run a stored `.rknn` at all. Memory
is the peak above a Python that has imported NumPy; its bar is model + activations + 64 MB. A star marks a bar that was
missed: 5 times as fast as the simulator, as fast as ONNX Runtime, 1.7 times as fast with two threads."""


def page(results: list[dict[str, Any]], rounds: int) -> str:
    """The documentation page."""
    about = {name: found for result in results for name, found in result["engines"].items() if "version" in found}
    ort, simulator = (about.get(name, {}).get("version", "(missing)") for name in (ORT, SIMULATOR))
    kernels, wrap = about[ONE]["kernels"], textwrap.TextWrapper(118, break_on_hyphens=False).wrap
    lines = [
        "# How fast it is",
        "",
        *wrap(MEASURED.format(processor=processor(), kernels=kernels, day=date.today(), rounds=rounds)),
        "",
        *wrap(PEERS_OF_THE_PAGE.format(ort=ort, simulator=simulator)),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row(result)) + " |" for result in results),
        "",
    ]
    return "\n".join(lines)


def hiding(folder: Path) -> dict[str, str]:
    """The environment of a process that sees no AVX-512."""
    library = folder / "hidden_cpuid.so"
    source = Path(__file__).with_name("hidden_cpuid.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library)}


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))


def run(folder: Path) -> None:
    """The command; `folder` is there until it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="a Python with onnxruntime (default: this one)")
    parser.add_argument("--hide-avx512", action="store_true", help="hide AVX-512 and AMX from the engines (Intel)")
    parser.add_argument("--simulator", metavar="PYTHON", help="a Python with rknn-toolkit2")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--net", choices=NETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--realtime", action="store_true", help="turns with real-time priority; needs root")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the documentation page")
    arguments = parser.parse_args()
    if arguments.page and arguments.net:
        parser.error("the page shows all nets; leave out --net")
    if arguments.page and arguments.hide_avx512:
        parser.error("the page is about the whole processor; leave out --hide-avx512")
    arguments.environment = hiding(folder) if arguments.hide_avx512 else {}
    if not arguments.models.is_dir():
        parser.error(f"there is no folder {arguments.models}; --models says where the models are")
    table = Table(*COLUMNS)
    results = []
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 150)
    for name in arguments.net or NETS:
        console.print(f"{name} ...", style="dim")
        results.append(measure(name, arguments))
        table.add_row(*row(results[-1]))
        for engine, about in results[-1]["engines"].items():
            if about.get("error"):
                console.print(f"  {engine} is missing: {about['error']}", highlight=False)
    kernels = {found["kernels"] for result in results for found in result["engines"].values() if "kernels" in found}
    table.title = f"one inference, and how many times as fast openrknn is (1 thread, {', '.join(sorted(kernels))})"
    console.print(table)
    if arguments.json:
        print(json.dumps(results, indent=2))
    if arguments.page:
        arguments.page.write_text(page(results, arguments.rounds) + sections.kept(arguments.page))


if __name__ == "__main__":
    main()
