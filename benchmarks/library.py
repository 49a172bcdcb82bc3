"""What our librknnrt.so costs a C program, beside a Session in Python and the vendor's library: one run, in turns.

    python benchmarks/library.py [MODEL.rknn ...] [--seconds 5] [--soak 100000] [--vendor] [--json]

The C program is benchmarks/library_loop.c, built against the installed library; it and the Session take turns, and the
median call of the best turn of each counts. `bound` is rknn_run on memory of rknn_create_mem, beside `Session.bind`
and `Session.run`; `plain` is rknn_inputs_set, rknn_run and rknn_outputs_get, beside `Session.run`.
--vendor adds bare ctypes calls on the vendor's runtime 1.5.2 (tools/setup-witness, setup-arm64-python) on a device that
computes nothing: emulated where this machine is not Arm, so its microseconds say little here.

Bars: rknn_run on bound memory at most 60 us above Session.run of a tiny model, and nothing that grows with the tensors;
rknn_init at most 20 ms above opening a Session, 250 ms with the start of the engine; 16 programs at once lose less than
10 % of the throughput of 16 Sessions in processes of their own (on the second model); 100,000 runs grow neither side by
a kilobyte. Exit status 1: a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from openrknn import Session
from openrknn.capi.engine_process import running_engine

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT.parent / "shared" / "models" / "bench"
MODELS = (
    ROOT / "tests" / "goldens" / "residual_rk3588_i8.rknn",
    ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn",
    BENCH / "v8n_rk3588_i8.rknn",
)
TURNS = 7
PROGRAMS = 16
RUN_BAR_US, INIT_BAR_MS, START_BAR_MS, LOSS_BAR, GROWTH_BAR_KB = 60.0, 20.0, 250.0, 0.10, 1.0
_SESSION_LOOP = """
import sys, time
from openrknn import Session
with Session(sys.argv[1], device="software") as session:
    bound = session.bind()
    bound.run()
    print("ready", flush=True)
    for line in sys.stdin:
        end, runs = time.perf_counter() + float(line.split()[1]), 0
        while time.perf_counter() < end:
            bound.run()
            runs += 1
        print(runs, flush=True)
"""


@dataclass
class Results:
    """What was measured, and which bars were missed."""

    numbers: dict[str, float] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def judge(self, what: str, value: float, bar: float) -> None:
        """Keep a number that must not be above its bar."""
        self.numbers[what] = value
        if value > bar:
            self.missed.append(f"{what}: {value:.1f}, the bar is {bar:g}")


class Program:
    """library_loop, running."""

    def __init__(self, words: list[str | Path], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = self._process.pid
        self.first = self.answer()

    def ask(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """What it says to it."""
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            raise SystemExit(f"{self._process.args!r} ended with status {self._process.wait()}")
        return text

    def median_us(self, verb: str, count: int) -> float:
        """Of `count` calls."""
        self.ask(f"{verb} {count}")
        return float(self.answer().split()[1]) / 1000

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def program(words: list[str | Path], environment: dict[str, str]) -> Iterator[Program]:
    """A program that ends with the block."""
    running = Program(words, environment)
    try:
        yield running
    finally:
        running.close()


def build(folder: Path) -> Path:
    """The C program, against the library that is installed."""
    options = subprocess.run(
        [sys.executable, "-m", "openrknn", "library", "--cflags", "--libs"], check=True, capture_output=True, text=True
    ).stdout.split()
    made = folder / "library_loop"
    source = ROOT / "benchmarks" / "library_loop.c"
    subprocess.run(["cc", "-O2", "-std=c11", "-o", made, source, *options], check=True)
    return made


def median_us(call: Callable[[], object], count: int) -> float:
    """Of `count` calls in this process."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


@dataclass(frozen=True)
class Setting:
    """What all measurements need."""

    loop: Path
    environment: dict[str, str]
    folder: Path

    def start(self, model: Path, way: str = "bound", **extra: str) -> AbstractContextManager[Program]:
        """The C program on a model."""
        return program([self.loop, model, way], {**self.environment, **extra})


def calls(setting: Setting, model: Path) -> dict[str, float]:
    """Microseconds of a run in every way; the ways take turns."""
    with ExitStack() as stack:
        bound = stack.enter_context(setting.start(model))
        plain = stack.enter_context(setting.start(model, "plain"))
        session = stack.enter_context(Session(model, device="software"))
        binding = session.bind()
        pixels = [np.zeros(spec.shape, np.uint8) for spec in session.inputs]
        binding.run()
        session.run(pixels)
        once = median_us(binding.run, 5)
        count = max(10, min(2000, int(200_000 / once)))
        ways: dict[str, Callable[[], float]] = {
            "C bound": lambda: bound.median_us("run", count),
            "Session.bind": lambda: median_us(binding.run, count),
            "C plain": lambda: plain.median_us("run", count),
            "Session.run": lambda: median_us(lambda: session.run(pixels), count),
        }
        found = {name: way() for name, way in ways.items()}
        for _ in range(TURNS - 1):
            found = {name: min(found[name], way()) for name, way in ways.items()}
        return found


def opening(setting: Setting, model: Path) -> dict[str, float]:
    """Milliseconds to open a model: in a program that has others, in a new one, and with the engine's start."""

    def open_session() -> None:
        with Session(model, device="software"):
            pass

    def open_and_run() -> None:
        with Session(model, device="software") as session:
            session.bind().run()

    with setting.start(model) as running:
        ours = min(running.median_us("init", 15) for _ in range(TURNS)) / 1000
        theirs = min(median_us(open_session, 15) for _ in range(TURNS)) / 1000
    whole = min(median_us(open_and_run, 1) for _ in range(TURNS)) / 1000
    started, there = [], []
    for turn in range(TURNS):
        fresh = str(setting.folder / f"fresh{turn}.socket")
        with setting.start(model, OPENRKNN_ENGINE_SOCKET=fresh, OPENRKNN_ENGINE_IDLE="1") as running:
            started.append(float(running.first) / 1e6)
        with setting.start(model) as running:
            there.append(float(running.first) / 1e6)
    return {
        "rknn_init": ours, "Session": theirs, "Session, bind and run": whole,
        "a program's first init, binding and run": min(there), "the same with the engine's start": min(started),
    }  # fmt: skip


def throughput(setting: Setting, model: Path, seconds: float) -> dict[str, float]:
    """Runs in a second of 16 programs at once: C on the engine, and Python processes with a Session each; in turns."""
    peers: list[str | Path] = [sys.executable, "-c", _SESSION_LOOP, model]
    best = {"programs": 0.0, "sessions": 0.0}
    with ExitStack() as stack:
        groups = {
            "programs": [stack.enter_context(setting.start(model)) for _ in range(PROGRAMS)],
            "sessions": [stack.enter_context(program(peers, dict(os.environ))) for _ in range(PROGRAMS)],
        }
        for _ in range(3):
            for name, group in groups.items():
                for one in group:
                    one.ask(f"until {seconds}")
                best[name] = max(best[name], sum(int(one.answer()) for one in group) / seconds)
    return best


def soak(setting: Setting, model: Path, runs: int) -> dict[str, float]:
    """Kilobytes that each side grows by in many runs, after a first part that does not count."""
    with setting.start(model) as running:
        engine = _engine_process(setting.environment["OPENRKNN_ENGINE_SOCKET"])
        running.median_us("run", max(runs // 10, 1000))
        before = [_private_kb(running.pid), _private_kb(engine)]
        for _ in range(10):
            running.median_us("run", runs // 10)
        after = [_private_kb(running.pid), _private_kb(engine)]
    return {"program": after[0] - before[0], "engine": after[1] - before[1]}


def _engine_process(socket: str) -> int:
    """The engine's process for the program that started last."""
    engine = running_engine(socket)
    assert engine is not None
    return max(engine.programs)


def _private_kb(pid: int) -> float:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return float(sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Dirty", "Private_Clean"))))


def vendor(models: list[Path]) -> None:
    """Bare ctypes on the vendor's library, on a device that computes nothing."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import vendor_overhead  # here: it needs the witnesses
    from tests.vendor.board import BoardMissingError

    try:
        vendor_overhead.show("the vendor's runtime 1.5.2, idle device (us)", vendor_overhead.on_runtime(models, 1.0))
    except BoardMissingError as missing:
        print(f"the vendor's runtime cannot run here: {missing}")


def main() -> int:
    """Measure, show, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn with 16 programs")
    parser.add_argument("--soak", type=int, default=100_000, metavar="RUNS")
    parser.add_argument("--vendor", action="store_true", help="the vendor's library too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    models = [path.resolve() for path in arguments.models or MODELS if path.exists()]
    results, console = Results(), Console(stderr=arguments.json)
    with tempfile.TemporaryDirectory(prefix="openrknn-library-") as name, ExitStack() as stack:
        folder = Path(name)
        loop = build(folder)
        socket = str(folder / "engine.socket")
        environment = {**os.environ, "OPENRKNN_ENGINE_SOCKET": socket, "OPENRKNN_DEVICE": "software"}
        engine = subprocess.Popen([sys.executable, "-m", "openrknn.capi.engine", "--foreground", "--socket", socket])
        stack.callback(engine.wait)
        stack.callback(engine.kill)
        while not Path(socket).exists():
            time.sleep(0.01)
        setting = Setting(loop, environment, folder)
        _show_calls(console, results, {model.stem: calls(setting, model) for model in models})
        _show_opening(console, results, opening(setting, models[0]))
        for number, model in enumerate(models[:2]):
            runs = throughput(setting, model, arguments.seconds)
            _show_many(console, results, model.stem, runs, is_judged=number == 1)
        _show_growth(console, results, arguments.soak, soak(setting, models[0], arguments.soak))
    if arguments.vendor:
        vendor(models[:1])
    if arguments.json:
        print(json.dumps({"numbers": results.numbers, "missed": results.missed}))
    console.print("all bars kept" if not results.missed else "missed:\n  " + "\n  ".join(results.missed))
    return 1 if results.missed else 0


def _show_calls(console: Console, results: Results, rows: dict[str, dict[str, float]]) -> None:
    table = Table("model", *next(iter(rows.values())), "bound - Session.run", "bound - bind", title="microseconds")
    for model, row in rows.items():
        above, over_bind = row["C bound"] - row["Session.run"], row["C bound"] - row["Session.bind"]
        table.add_row(model, *(f"{value:,.1f}" for value in row.values()), f"{above:+.1f}", f"{over_bind:+.1f}")
        results.numbers |= {f"{model}: {name} us": value for name, value in row.items()}
        results.judge(f"{model}: bound above Session.run, us", above, RUN_BAR_US)
    console.print(table)


def _show_opening(console: Console, results: Results, opened: dict[str, float]) -> None:
    console.print("opening, ms:", {name: round(value, 1) for name, value in opened.items()})
    results.numbers |= {f"{name}, ms": value for name, value in opened.items()}
    whole = opened["Session, bind and run"]
    first, started = opened["a program's first init, binding and run"], opened["the same with the engine's start"]
    results.judge("rknn_init above a Session, ms", opened["rknn_init"] - opened["Session"], INIT_BAR_MS)
    results.judge("a program's first init and run above a Session's, ms", first - whole, INIT_BAR_MS)
    results.judge("the same with the engine's start above a Session's, ms", started - whole, START_BAR_MS)


def _show_many(console: Console, results: Results, model: str, runs: dict[str, float], *, is_judged: bool) -> None:
    """A run of the tiny model is shorter than a call; it is shown, and the network is judged."""
    console.print(
        f"{model}, {PROGRAMS} at once, runs per second:", {name: round(value) for name, value in runs.items()}
    )
    loss = 1 - runs["programs"] / runs["sessions"]
    results.numbers |= {f"{model}: {PROGRAMS} {name}, runs/s": value for name, value in runs.items()}
    results.judge(f"{model}: loss of {PROGRAMS} programs", loss, LOSS_BAR if is_judged else 1.0)


def _show_growth(console: Console, results: Results, runs: int, grown: dict[str, float]) -> None:
    console.print(f"{runs:,} runs, kB more:", grown)
    for side, kilobytes in grown.items():
        results.judge(f"{side} grows by, kB", kilobytes, GROWTH_BAR_KB)


if __name__ == "__main__":
    raise SystemExit(main())
