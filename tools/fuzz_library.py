#!/usr/bin/env python3
"""Calls all functions of our librknnrt.so from C, in random order with random arguments, with gcc's sanitizers.

    tools/fuzz_library.py                           a million calls in eight runs
    tools/fuzz_library.py --calls 20000 --runs 2    a short look
    tools/fuzz_library.py --seed 7 --calls 5000     one run again
    tools/fuzz_library.py --engine-restarts         the engine is killed now and then, too

The library and the program (tools/fuzzing_library/fuzz.c) are built into build/fuzz-library with AddressSanitizer,
UndefinedBehaviorSanitizer and, at the end of each run, LeakSanitizer. The engine is one of its own. A crash, a leak, a
code that the API does not have, a child of the engine that ends before its program, or one that stays behind is a
failure; exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "goldens"
MODELS = ("conv_rk3588_i8", "two_inputs_rk3588_i8", "dynamic_rk3588_i8", "image_rk3588_i8_batch2", "cpu_sin_rk3588_i8")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")


def build() -> tuple[Path, Path]:
    """The library with the sanitizers, and the program that calls it."""
    folder = ROOT / "build" / "fuzz-library"
    flags = " ".join(SANITIZE)
    configure = ["cmake", "-S", str(ROOT / "native"), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    configure.append(f"-DCMAKE_C_FLAGS={flags}")
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    compile_library = ["cmake", "--build", str(folder), "--target", "rknnrt", "--parallel", "2"]
    subprocess.run(compile_library, check=True, stdout=subprocess.DEVNULL)
    (library,) = folder.rglob("librknnrt.so")
    program = folder / "fuzz"
    source = ROOT / "tools" / "fuzzing_library" / "fuzz.c"
    include = ROOT / "native" / "capi" / "include"
    command = ["gcc", "-std=c11", "-Wall", *SANITIZE, f"-I{include}", "-o", str(program), str(source), str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    return program, library


class Engine:
    """An engine of this run alone."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "engine.socket"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.socket.unlink(missing_ok=True)
        words = [sys.executable, "-m", "openrknn.capi.engine", "--foreground", "--socket", str(self.socket)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        while not self.socket.exists():
            if self._process.poll() is not None:
                raise SystemExit("the engine did not start")
            time.sleep(0.01)

    def kill(self) -> None:
        """As an out-of-memory killer would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def is_alive(self) -> bool:
        """Whether it still takes programs."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[int]:
        """The processes that it has for programs."""
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(word) for word in text.split()]


def fuzz(program: Path, engine: Engine, seed: int, calls: int, *, restarts: bool) -> tuple[int, str, str]:
    """One run: exit status, what it counted, what it complained about."""
    models = [str(GOLDENS / f"{name}.rknn") for name in MODELS]
    environment = {
        **os.environ,
        "OPENRKNN_ENGINE_SOCKET": str(engine.socket), "OPENRKNN_DEVICE": "software", "RKNN_LOG_LEVEL": "0",
        "OPENRKNN_MAX_MEMORY": str(64 << 20), "OPENRKNN_MAX_WORK": str(10**9),
        "OPENRKNN_ENGINE": "/bin/false" if not restarts else f"{sys.executable} -m openrknn.capi.engine",
        "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:handle_segv=1",
    }  # fmt: skip
    with tempfile.TemporaryFile("w+") as errors:
        running = subprocess.Popen(
            [program, str(seed), str(calls), *models], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        stopper = threading.Event()
        killer = threading.Thread(target=_kill_now_and_then, args=(engine, stopper), daemon=True)
        if restarts:
            killer.start()
        counted, _ = running.communicate()
        stopper.set()
        errors.seek(0)
        lines = [line for line in errors if not line.startswith(("E RKNN", "W RKNN"))]
    return running.returncode, counted, "".join(lines[-60:])


def _kill_now_and_then(engine: Engine, stopper: threading.Event) -> None:
    while not stopper.wait(2.0):
        for child in engine.children():
            os.kill(child, signal.SIGKILL)


def main() -> int:
    """Build, run, and say what was called."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=125_000, help="of each run (default: 125000)")
    parser.add_argument("--runs", type=int, default=8, help="with seeds that follow each other (default: 8)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--engine-restarts", action="store_true", help="kill the engine's processes now and then")
    arguments = parser.parse_args()
    console = Console()
    program, _ = build()
    totals: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    failures = []
    with tempfile.TemporaryDirectory() as folder, Progress(console=console) as progress:
        engine = Engine(Path(folder))
        engine.start()
        bar = progress.add_task("calls", total=arguments.runs * arguments.calls)
        try:
            for seed in range(arguments.seed, arguments.seed + arguments.runs):
                status, counted, complaint = fuzz(
                    program, engine, seed, arguments.calls, restarts=arguments.engine_restarts
                )
                for line in counted.splitlines():
                    name, calls, bad = line.split()
                    totals[name] += int(calls)
                    refused[name] += int(bad)
                if status:
                    failures.append(f"seed {seed}: exit status {status}\n{complaint}")
                if not engine.is_alive:
                    failures.append(f"seed {seed}: the engine ended")
                    break
                progress.advance(bar, arguments.calls)
            if totals["rknn_init"] - refused["rknn_init"] < totals["rknn_init"] // 4:
                failures.append("most calls of rknn_init were refused: not much was tried")
            deadline = time.monotonic() + 5
            while engine.is_alive and engine.children() and time.monotonic() < deadline:
                time.sleep(0.05)
            if engine.is_alive and engine.children():
                failures.append(f"{len(engine.children())} processes of the engine stayed behind")
        finally:
            engine.kill()
    table = Table("function", "calls", "refused", title=f"{sum(totals.values()):,} calls")
    for name in sorted(totals):
        table.add_row(name, f"{totals[name]:,}", f"{refused[name]:,}")
    console.print(table)
    for failure in failures:
        console.print(failure, markup=False, highlight=False)
    console.print("failed" if failures else "no crash, no leak, nothing left behind")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
