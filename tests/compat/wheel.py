"""The vendor's unmodified wheel, on the vendor's unmodified runtime, on our emulated NPU.

    wheel = Wheel.find()                # WheelMissingError says what is not on this machine
    report = wheel.run_checks()

Both are aarch64. On such a machine they run in this Python; on any other in the aarch64 Python of
`tools/setup-arm64-python`, under qemu's user mode emulation. `tools/setup-vendor-wheel` fetches the wheel.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.compat.lab import Array
from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import find_library

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 600


class WheelMissingError(Exception):
    """Something is not on this machine; the text says what, and how to get it."""


@dataclass(frozen=True)
class Report:
    """What the checks said, and the outputs that they kept."""

    passed: tuple[str, ...]
    failed: Mapping[str, str]
    outputs: Mapping[str, Array]
    output: str


@dataclass(frozen=True)
class Wheel:
    """A Python that has the wheel, and what it needs."""

    python: Path
    packages: tuple[Path, ...]
    library: Path
    environment: Mapping[str, str]

    @classmethod
    def find(cls) -> Wheel:
        """Find the parts; the first one that is not there is named."""
        unpacked = _cache("openrknn-vendor-wheel") / "packages"
        if not (unpacked / "rknnlite").is_dir():
            raise WheelMissingError("run tools/setup-vendor-wheel")
        try:
            library = find_library(_cache("openrknn-witness"))
        except WitnessMissingError as missing:
            raise WheelMissingError(str(missing)) from None
        if platform.machine() == "aarch64":
            return cls(Path(sys.executable), (unpacked,), library, {})
        root = _cache("openrknn-arm64-python") / "root"
        if not (root / "packages" / "numpy").is_dir():
            raise WheelMissingError("no aarch64 Python for the emulator; run tools/setup-arm64-python")
        packages = (unpacked, root / "packages")
        return cls(root / "usr/bin/python3", packages, library, {"QEMU_LD_PREFIX": str(root)})

    def run_checks(self, *, on_ours: bool = False) -> Report:
        """All of them in one process; `on_ours`: with openrknn's librknnrt.so in the place of the vendor's."""
        library = ["--open", "--driver", "rknpu"] if on_ours else ["--library", str(self.library)]
        with tempfile.TemporaryDirectory(prefix="openrknn-wheel-") as name:
            report, outputs = Path(name, "report"), Path(name, "outputs.npz")
            words = [sys.executable, "-m", "openrknn.cli", "exec", *library, "--"]
            words += [str(self.python), "-B", str(HERE / "inside.py")]
            words += [str(ROOT), str(report), str(outputs), *map(str, self.packages)]
            process = subprocess.run(
                words, cwd=name, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
            )  # fmt: skip
            return read_report(report, outputs, process.stdout.decode("utf-8", "replace"))


def _cache(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name


def read_report(report: Path, outputs: Path, output: str) -> Report:
    """What `inside.py` wrote."""
    passed: list[str] = []
    failed: dict[str, str] = {}
    running = ""
    for line in report.read_text().splitlines() if report.exists() else []:
        entry = json.loads(line)
        running = entry["check"] if entry["state"] == "started" else ""
        if entry["state"] == "passed":
            passed.append(entry["check"])
        elif entry["state"] == "failed":
            failed[entry["check"]] = entry["trace"]
    if running:
        failed[running] = f"the process ended in it\n{output[-4000:]}"
    saved: dict[str, Array] = {}
    if outputs.exists():
        with np.load(outputs) as stored:
            saved = dict(stored)
    return Report(tuple(passed), failed, saved, output)
