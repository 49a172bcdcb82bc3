"""What the emulated device costs: start, one ioctl, and a whole inference of the vendor's runtime beside our Session.

    python benchmarks/exec.py [MODEL ...]

The vendor's runtime is that of tests/witness (`tools/setup-witness`); where it is missing, that part is left out.
Bars: an ioctl at most 30 microseconds (median), a start at most 0.5 s, an inference at most 1.3 times our Session's.
Where the machine is not Arm, qemu interprets the vendor's code on the CPU: the time inside SUBMIT is the emulated
device's, and what is outside says nothing about a board.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from openrknn.fakekernel.device import Device  # noqa: E402
from openrknn.fakekernel.launch import prepare  # noqa: E402
from openrknn.runtime.session import Session  # noqa: E402
from tests.witness.testimony import WitnessMissingError  # noqa: E402
from tests.witness.witness import Witness  # noqa: E402

PING = """
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
int main(void) {
    int npu = open("/dev/dri/card1", O_RDWR);
    for (int turn = 0; turn < 20000; turn++) {
        uint32_t action[2] = {0, 0};
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        if (ioctl(npu, 0xc0086440, action)) return 1;
        clock_gettime(CLOCK_MONOTONIC, &after);
        printf("%ld\\n", (after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec - before.tv_nsec);
    }
}
"""
DEFAULT = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
TURNS = 24
WARM = 4


def compile_c(compiler: str, source: Path, target: Path, *options: str) -> Path:
    """A C program."""
    subprocess.run([compiler, "-O2", "-std=gnu11", *options, "-o", str(target), str(source), "-ldl"], check=True)
    return target


def lines(device: Device, *words: object) -> list[float]:
    """The numbers that a program prints."""
    command = prepare([str(word) for word in words], device.environment, device.folder)
    done = subprocess.run(
        command.arguments, executable=command.path, env=command.environment, capture_output=True, text=True, check=True
    )
    return [float(line) for line in done.stdout.splitlines()]


def starts() -> None:
    """From the shell to the program and back."""
    times = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "openrknn.cli", "exec", "-q", "--", "true"], check=True)
        times.append(time.perf_counter() - started)
    print(f"openrknn exec -- true         {statistics.median(times):.3f} s   (best of {len(times)}: {min(times):.3f})")


def ioctls(folder: Path) -> None:
    """One question to the driver."""
    source = folder / "ping.c"
    source.write_text(PING)
    compilers = [("here", shutil.which("gcc")), ("aarch64, qemu", shutil.which("aarch64-linux-gnu-gcc"))]
    with Device("rk3588") as device:
        for name, compiler in compilers:
            if compiler is None:
                continue
            times = sorted(value / 1000 for value in lines(device, compile_c(compiler, source, folder / "ping")))
            middle, most = times[len(times) // 2], times[len(times) * 99 // 100]
            print(f"ioctl ({name:13s})         {middle:.1f} µs   (99 % below {most:.1f})")


def inferences(model: Path, witness: Witness, folder: Path) -> None:
    """The vendor's runtime on the emulated device and our own, turn by turn beside each other."""
    native = not witness.emulator
    compiler = shutil.which("gcc" if native else "aarch64-linux-gnu-gcc")
    assert compiler is not None
    program = compile_c(compiler, Path(__file__).parent / "exec_loop.c", folder / "loop", "-rdynamic")
    vendor, submits, npu, ours = [], [], [], []
    with Device("rk3588") as device, Session(model) as session:
        inputs = {spec.name: np.zeros(spec.shape, np.uint8) for spec in session.inputs}
        command = prepare([str(program), str(witness.library), str(model)], device.environment, device.folder)
        with subprocess.Popen(
            command.arguments, executable=command.path, env=command.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(TURNS):
                before = device.status.totals.nanoseconds
                process.stdin.write("\n")
                process.stdin.flush()
                whole, submit = map(float, process.stdout.readline().split())
                started = time.perf_counter()
                session.run(inputs)
                ours.append((time.perf_counter() - started) * 1e3)
                vendor.append(whole)
                submits.append(submit)
                npu.append((device.status.totals.nanoseconds - before) / 1e6)
            process.stdin.close()
        jobs = device.status.totals.jobs / TURNS
    print(f"{model.stem}, medians of {TURNS - WARM} turns beside each other ({jobs:.0f} jobs in each turn):")
    session_ms, vendor_ms, submit_ms, npu_ms = (statistics.median(all_[WARM:]) for all_ in (ours, vendor, submits, npu))
    rest = "the vendor's code on the CPU" + ("" if native else ", which qemu interprets here")
    print(f"    Session                   {session_ms:7.1f} ms")
    print(f"    vendor's runtime          {vendor_ms:7.1f} ms   {vendor_ms / session_ms:.2f} times")
    print(f"    ... inside SUBMIT         {submit_ms:7.1f} ms   {submit_ms / session_ms:.2f} times")
    print(f"    ...... on the NPU         {npu_ms:7.1f} ms   {npu_ms / session_ms:.2f} times; the rest is handing over")
    print(f"    ... outside               {vendor_ms - submit_ms:7.1f} ms   {rest}")
    print(f"    the first turn            {vendor[0]:7.1f} ms   Session's {ours[0]:.1f} ms")


def main() -> None:
    """Everything."""
    models = [Path(word).resolve() for word in sys.argv[1:]] or [DEFAULT]
    with tempfile.TemporaryDirectory() as name:
        starts()
        ioctls(Path(name))
        try:
            witness = Witness.find()
        except WitnessMissingError as missing:
            print(f"no vendor's runtime: {missing}")
            return
        for model in models:
            inferences(model, witness, Path(name))


if __name__ == "__main__":
    main()
