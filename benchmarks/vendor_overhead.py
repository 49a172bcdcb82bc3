"""What `Session(device="vendor")` costs on top of the C API, on devices that compute nothing.

    python benchmarks/vendor_overhead.py [MODEL.rknn ...]       microseconds per call, medians of interleaved rounds
    python benchmarks/vendor_overhead.py --soak 100000          does anything grow?
    python benchmarks/vendor_overhead.py --arrange              NC1HWC2 int8 to NCHW float32, beside memcpy

Two devices: the idle library of tests/vendor in this process, which copies and converts as plain C does; and, where
tools/setup-witness, setup-arm64-python and setup-vendor-wheel were run, the vendor's runtime 1.5.2 itself with the
witness's device below it, in an aarch64 Python (emulated where this machine is not one). On the idle library a bare
call takes next to nothing, so ratios there say little; microseconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import vendor_calls  # noqa: E402
from openrknn import load  # noqa: E402
from openrknn.layout.arrange import Arrangement  # noqa: E402
from tests.vendor.board import Board, BoardMissingError, cache_folder  # noqa: E402
from tests.vendor.idling import idle_library  # noqa: E402

BENCH = ROOT.parent / "shared" / "models" / "bench"
MODELS = (
    ROOT / "tests" / "goldens" / "residual_rk3588_i8.rknn",
    BENCH / "mbv2_rk3588_i8.rknn",
    BENCH / "v8n_rk3588_i8.rknn",
    ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn",
)
YOLO_OUTPUTS = [(channels, size) for size in (80, 40, 20) for channels in (64, 80)]


def compiled(compiler: str, target: Path, *sources: Path, options: tuple[str, ...] = ()) -> Path:
    """A shared library."""
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", *options, "-o", target, *sources, "-lm"], check=True)
    return target


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table, with the ratios that count."""
    print(f"\n{title}")
    for row in rows:
        times = {name: value for name, value in row.items() if name != "model"}
        print(f"  {row['model']:34}" + "".join(f"{name} {value:.1f}   " for name, value in times.items()))
        ratios = {
            "Session.run / ctypes": times["Session.run"] / times["ctypes"],
            "bind + run / C": times["bind + run"] / times["C zero copy"],
            "our outputs / outputs_get": times["our outputs"] / times["outputs_get"],
        }
        if "RKNNLite.inference" in times:
            ratios["RKNNLite / Session.run"] = times["RKNNLite.inference"] / times["Session.run"]
        print(" " * 36 + "".join(f"{name} {value:.2f}   " for name, value in ratios.items()))


def on_idle_library(models: list[Path], seconds: float) -> list[dict[str, Any]]:
    """In this process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        compiler = shutil.which("cc") or "gcc"
        helper = compiled(compiler, Path(folder, "loop.so"), ROOT / "benchmarks" / "vendor_loop.c")
        for model in models:
            library = idle_library(load(model))
            rows.append({"model": model.stem, **vendor_calls.measure(str(model), library, str(helper), seconds)})
    return rows


def on_runtime(models: list[Path], seconds: float) -> list[dict[str, Any]]:
    """The vendor's runtime 1.5.2 on the witness's device."""
    board = Board.find()
    with tempfile.TemporaryDirectory(prefix="openrknn-overhead-") as name:
        folder = Path(name)
        compiler = shutil.which("aarch64-linux-gnu-gcc") if board.witness.emulator else shutil.which("cc")
        if compiler is None:
            raise BoardMissingError("no C compiler for aarch64 (Debian: apt install gcc-aarch64-linux-gnu)")
        helper = compiled(compiler, folder / "loop.so", ROOT / "benchmarks" / "vendor_loop.c")
        environment = board._environment(folder, "rk3588")
        environment["OPENRKNN_WITNESS_LOG"] = os.devnull
        if board.witness.emulator:
            _native_for_arm(compiler, folder)
            environment["VENDOR_NATIVE"] = str(folder)
        wheel = cache_folder().with_name("openrknn-vendor-wheel") / "packages"
        if wheel.is_dir():
            environment["VENDOR_WHEEL"] = str(wheel)
        words = [*board.python, str(ROOT / "benchmarks" / "vendor_calls.py"), str(folder / "report"), str(helper)]
        done = subprocess.run(
            [*words, str(seconds), *map(str, models)], env=environment, cwd=folder, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-4000:])
        return [json.loads(line) for line in (folder / "report").read_text().splitlines()]


def _native_for_arm(compiler: str, folder: Path) -> None:
    native = ROOT / "native"
    (folder / "_native").mkdir()
    names = ("arrange", "convolution", "cpu", "dpu", "element", "half", "run", "scalar", "threads")
    rest = [path.stem for path in native.glob("*.c") if path.stem not in names]
    known = {"avx2", "avxvnni", "vnni", "amx", "neon", "dotprod", "i8mm"}
    sources = [native / f"{name}.c" for name in (*names, *(name for name in rest if name not in known))]
    options = ("-ffp-contract=off", "-fno-math-errno", "-pthread", "-std=gnu11")
    compiled(compiler, folder / "_native" / "libopenrknn.so", *sources, options=options)


def arrange() -> None:
    """The six outputs of a YOLOv8 at 640: 1.21 million elements."""
    random = np.random.default_rng(0)
    ways, results, copies = [], [], []
    for channels, size in YOLO_OUTPUTS:
        native = random.integers(-128, 128, (1, channels // 16, size, size, 16), dtype=np.int8)
        ways.append(Arrangement(native, channels, scale=0.05, zero_point=-7))
        results.append(np.empty((1, channels, size, size), np.float32))
        copies.append(np.empty_like(results[-1]))
    best = [1e9, 1e9]
    for _ in range(300):
        started = time.perf_counter()
        for way, out in zip(ways, results, strict=True):
            way.read(out)
        middle = time.perf_counter()
        for source, target in zip(results, copies, strict=True):
            np.copyto(target, source)
        ended = time.perf_counter()
        best = [min(best[0], middle - started), min(best[1], ended - middle)]
    elements = sum(out.size for out in results)
    print(f"{elements / 1e6:.2f} M elements: arrange {best[0] * 1e3:.3f} ms, memcpy {best[1] * 1e3:.3f} ms, "
          f"{best[0] / best[1]:.2f} x")  # fmt: skip


def main() -> int:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model and way")
    parser.add_argument("--soak", type=int, metavar="CALLS")
    parser.add_argument("--arrange", action="store_true")
    arguments = parser.parse_args()
    models = [path.resolve() for path in arguments.models or MODELS if path.exists()]
    if arguments.arrange:
        arrange()
        return 0
    if arguments.soak:
        print(vendor_calls.soak(str(models[0]), idle_library(load(models[0])), arguments.soak))
        return 0
    show("idle library, in this process (us)", on_idle_library(models, arguments.seconds))
    try:
        show("the vendor's runtime 1.5.2 on a device that computes nothing (us)", on_runtime(models, arguments.seconds))
    except BoardMissingError as missing:
        print(f"\nthe vendor's runtime cannot run here: {missing}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("RKNN_LOG_LEVEL", "0")
    raise SystemExit(main())
