"""The vendor's unmodified library inside a Python process, on a device that computes nothing or on one that computes.

    board = Board.find()                        # BoardMissingError says what is not on this machine
    report = board.run("checks_context.py")     # a script of `tests/vendor/inside`
    report = board.compute("computed_rk3588.py")      # the same on the software NPU, below `openrknn exec`
    report.failed                               # {} or check -> traceback

The library is aarch64. On such a machine the scripts run in this very Python; on any other in an aarch64 Python under
qemu's user mode emulation, which `tools/setup-arm64-python` puts into the user's cache. Either way it is a process of
its own: the device comes by LD_PRELOAD, and the library may crash.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import HARDWARE_VERSIONS, Witness

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSIDE = HERE / "inside"


class BoardMissingError(Exception):
    """Something is not on this machine; the text says what, and how to get it."""


@dataclass(frozen=True)
class Report:
    """What a script of checks said."""

    passed: tuple[str, ...]
    failed: Mapping[str, str]
    """Check -> traceback. A check that killed the process is in here with the signal."""
    output: str
    events: tuple[Mapping[str, object], ...]
    """What the library asked of the kernel."""


@dataclass(frozen=True)
class Board:
    """An aarch64 Python, the vendor's library and the device."""

    python: tuple[str, ...]
    packages: tuple[Path, ...]
    witness: Witness

    @classmethod
    def find(cls) -> Board:
        """Find the parts; `BoardMissingError` names the first one that is not there."""
        try:
            witness = Witness.find()
        except WitnessMissingError as missing:
            raise BoardMissingError(str(missing)) from None
        if not witness.emulator:
            return cls((sys.executable,), (), witness)
        root = cache_folder() / "root"
        if not (root / "packages" / "numpy").exists():
            raise BoardMissingError("no aarch64 Python for the emulator; run tools/setup-arm64-python")
        emulator = witness.emulator[0]
        return cls((emulator, "-L", str(root), str(root / "usr/bin/python3")), (root / "packages",), witness)

    def run(self, script: str, *arguments: str, chip: str = "rk3588", timeout: float = 300) -> Report:
        """Run one script of checks in a process of its own."""
        with tempfile.TemporaryDirectory(prefix="openrknn-board-") as name:
            folder = Path(name)
            environment = self._environment(folder, chip)
            runner, report = INSIDE / "runner.py", folder / "report"
            command = [*self.python, str(runner), str(INSIDE / script), str(report), *arguments]
            process = subprocess.run(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=timeout, check=False,
            )  # fmt: skip
            return _read(folder, process)

    def compute(self, script: str, *arguments: str, chip: str = "rk3588", timeout: float = 600) -> Report:
        """Run one script of checks on the emulated device that computes."""
        with tempfile.TemporaryDirectory(prefix="openrknn-board-") as name:
            folder = Path(name)
            library = str(self.witness.library)
            words = [sys.executable, "-m", "openrknn.cli", "exec", "--chip", chip, "--library", library]
            words += ["--", self.python[-1], str(INSIDE / "runner.py"), str(INSIDE / script), str(folder / "report")]
            environment = self._common() | {"OPENRKNN_KERNELS": "numpy"}  # the specification of the fast ones
            if self.witness.emulator:
                environment["QEMU_LD_PREFIX"] = self.python[2]
            # `exec` is a Python of this machine: what is for the other one comes in another variable.
            environment["OPENRKNN_BOARD_PATH"] = environment.pop("PYTHONPATH")
            process = subprocess.run(
                [*words, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=timeout, check=False,
            )  # fmt: skip
            return _read(folder, process)

    def _common(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RKNN_", "LD_", "OPENRKNN_"))}
        return kept | {
            "OPENRKNN_LIBRARY": str(self.witness.library),
            "OPENRKNN_GOLDENS": str(ROOT / "tests" / "goldens"),
            "PYTHONPATH": os.pathsep.join(map(str, (*self.packages, ROOT / "src", ROOT))),
            "PYTHONPYCACHEPREFIX": str(cache_folder() / "bytecode"),
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUTF8": "1",
        }

    def _environment(self, folder: Path, chip: str) -> dict[str, str]:
        preload = str(self.witness.device)
        emulated = {"QEMU_SET_ENV": f"LD_PRELOAD={preload}"} if self.witness.emulator else {"LD_PRELOAD": preload}
        witness = {
            "OPENRKNN_WITNESS_LOG": str(folder / "log"),
            "OPENRKNN_WITNESS_HARDWARE": hex(HARDWARE_VERSIONS[chip]),
        }
        return self._common() | emulated | witness


def cache_folder() -> Path:
    """Where `tools/setup-arm64-python` unpacks Python."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "openrknn-arm64-python"


def _lines(path: Path) -> list[dict[str, object]]:
    """JSON lines; the last one may be cut off by a crash."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(errors="replace").split("\n")[:-1]]


def _read(folder: Path, process: subprocess.CompletedProcess[bytes]) -> Report:
    output = process.stdout.decode("utf-8", "replace")
    passed: list[str] = []
    failed: dict[str, str] = {}
    running = "the start"
    for line in _lines(folder / "report"):
        running = str(line["check"])
        if line["state"] == "passed":
            passed.append(running)
            running = ""
        elif line["state"] == "failed":
            failed[running] = str(line["trace"])
            running = ""
    if process.returncode and (running or not failed):
        code = process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        failed[running or "the end"] = f"{how}\n{output[-4000:]}"
    return Report(tuple(passed), failed, output, tuple(_lines(folder / "log")))
