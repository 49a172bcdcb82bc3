"""A detector of a camera recorder, after Frigate: one runner in a process of its own, import inside the method.

    python -m tests.compat.programs.camera MODEL PICTURE.npy CORES      prints the best class of each output
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np

SUPPORTED = ("rk3562", "rk3566", "rk3568", "rk3576", "rk3588")


def soc(path: str = "/proc/device-tree/compatible") -> str:
    """The chip of this board."""
    try:
        with open(path) as file:
            name = file.read().split(",")[-1].strip("\x00")
    except FileNotFoundError:
        raise RuntimeError("Make sure to run docker in privileged mode.") from None
    if name not in SUPPORTED:
        raise RuntimeError(f"{name} is not supported")
    return name


class Runner:
    """A model on the NPU."""

    def __init__(self, path: str, cores: int = 0) -> None:
        from rknnlite.api import RKNNLite  # not above: the vendor's package breaks the logging of the process

        self.rknn: Any = RKNNLite(verbose=False)
        if self.rknn.load_rknn(path) != 0:
            raise RuntimeError("Failed to load the model")
        if self.rknn.init_runtime(core_mask=2**cores - 1) != 0:
            raise RuntimeError("Failed to start the NPU")

    def detect(self, picture: Any) -> Any:
        """The outputs go straight on."""
        return self.rknn.inference(inputs=[picture])

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.rknn.release()


def best(outputs: list[Any]) -> list[int]:
    """Post-processing: an error shows here, because None has no length."""
    return [int(np.argmax(output)) for output in outputs]


def main(model: str, picture: str, cores: str) -> None:
    """The detector process."""
    chip = soc()
    runner = Runner(model, int(cores))
    print(chip, *best(runner.detect(np.load(picture))))


if __name__ == "__main__":
    main(*sys.argv[1:])
