"""A detector of a camera recorder, after Frigate: one runner in a process of its own, import inside the method.

    python -m tests.compat.programs.camera MODEL PICTURE.npy CORES      prints the best class of each output
"""

from __future__ import annotations

import contextlib
import re
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


def toolkit_version() -> str:
    """Of the converter, from the file that its package has."""
    import rknn

    with open(f"{rknn.__path__[0]}/VERSION") as file:
        return file.read().strip()


def convert(source: str, target: str, chip: str, name: str, shape: list[int]) -> bool:
    """Make a model on the board itself, without quantization; every step answers 0."""
    from rknn.api import RKNN

    rknn: Any = RKNN(verbose=True)
    rknn.config(mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]], target_platform=chip)
    if rknn.load_onnx(model=source, inputs=[name], input_size_list=[shape]) != 0:
        return False
    if rknn.build(do_quantization=False) != 0:
        return False
    return bool(rknn.export_rknn(target) == 0)


def load(path: str = "/sys/kernel/debug/rknpu/load") -> list[int]:
    """Percent of each core, for the page of statistics: "NPU load:  Core0: 12%, Core1:  0%, ..."."""
    with open(path) as file:
        return [int(number) for number in re.findall(r"(\d+)%", file.read())]


def best(outputs: list[Any]) -> list[int]:
    """Post-processing: an error shows here, because None has no length."""
    return [int(np.argmax(output)) for output in outputs]


def main(model: str, picture: str, cores: str) -> None:
    """The detector process."""
    chip = soc()
    runner = Runner(model, int(cores))
    print(chip, *best(runner.detect(np.load(picture))))
    print(len(load()))


if __name__ == "__main__":
    main(*sys.argv[1:])
