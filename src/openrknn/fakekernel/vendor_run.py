"""The vendor's unmodified runtime on an emulated device, for comparison: a model and inputs in, stored bytes out.

The library is for AArch64 and is never loaded into this process: a small C program (vendor_run.c) calls it, on other
machines below qemu.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.errors import UnsupportedError
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import find_vendor_library, machine_of, prepare
from openrknn.fakekernel.preload import build, host_machine

__all__ = ["VendorRuntime"]

Array = npt.NDArray[Any]

_SOURCE = Path(__file__).with_suffix(".c")
_FLAGS = ("-std=gnu11", "-O2", "-ldl")
_NHWC, _UNDEFINED = 1, 3
"""rknn_tensor_format."""
_SECONDS = 600.0
_ENOUGH = 2


@dataclass(frozen=True)
class VendorRuntime:
    """A library, and the program that calls it."""

    library: Path
    program: Path

    @classmethod
    def find(cls, library: str | os.PathLike[str] | None = None) -> VendorRuntime:
        """`library`, else OPENRKNN_LIBRARY, else that of the package `rknpu`; an error says what is missing."""
        named = library if library is not None else os.environ.get("OPENRKNN_LIBRARY")
        place = Path(named) if named else find_vendor_library()
        if place is None:
            raise UnsupportedError("librknnrt.so is not here; name it with --library or OPENRKNN_LIBRARY")
        if not place.is_file():
            raise UnsupportedError(f"{place}: no such file; name librknnrt.so with --library or OPENRKNN_LIBRARY")
        machine = machine_of(place)
        if machine != "aarch64":
            raise UnsupportedError(f"{place} is not a library for AArch64; there is no runtime for other machines")
        return cls(place.resolve(), build(machine, "vendor_run", [_SOURCE], _FLAGS))

    def run(
        self, chip: str, model: bytes, runs: Sequence[Sequence[Array]], *,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[bytes]]:  # fmt: skip
        """The stored outputs of each run. Inputs are numbers; those of four dimensions are [N, H, W, C].

        `shapes` of the inputs are for models that have several.
        """
        layouts = [str(_NHWC if array.ndim == 4 else _UNDEFINED) for array in runs[0]]
        if shapes is not None:
            layouts = [f"{layout}:{','.join(map(str, shape))}" for layout, shape in zip(layouts, shapes, strict=True)]
        with tempfile.TemporaryDirectory(prefix="openrknn-") as name, Device(chip, library=self.library) as device:
            folder = Path(name)
            path = folder / "model.rknn"
            path.write_bytes(model)
            for number, arrays in enumerate(runs):
                for index, array in enumerate(arrays):
                    (folder / f"{number}.{index}.in").write_bytes(np.ascontiguousarray(array, np.float32).tobytes())
            words = [str(self.program), str(self.library), str(path), str(folder), str(len(runs)), *layouts]
            self._execute(words, device, folder)
            return [
                [file.read_bytes() for file in sorted(folder.glob(f"{number}.*.out"), key=_index)]
                for number in range(len(runs))
            ]

    def _execute(self, words: list[str], device: Device, folder: Path) -> None:
        command = prepare(words, device.environment, device.folder)
        environment = {**command.environment, "RKNN_LOG_LEVEL": "0"}
        try:
            done = subprocess.run(
                command.arguments, executable=command.path, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnsupportedError(f"the vendor's runtime did not finish within {_SECONDS:.0f} s") from None
        if done.returncode:
            said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            hint = ""
            if host_machine() != "aarch64" and "libstdc++" in done.stderr:
                hint = " (Debian: apt install libstdc++6-arm64-cross)"
            reason = "; ".join(said[-_ENOUGH:]) or f"exit code {done.returncode}"
            raise UnsupportedError(f"the vendor's runtime failed: {reason}{hint}")


def _index(path: Path) -> int:
    return int(path.name.split(".")[1])
