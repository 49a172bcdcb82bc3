"""Measures `RKNNLite.inference` of whichever package is asked for; `rknnlite.py` starts it and tells it when.

    python rknnlite_inside.py vendor|ours MODEL.rknn FOLDER_OF_PACKAGES ...

For each line on standard input it makes so many calls as the line says, and prints the processor time of one in
microseconds: nhwc, nchw, and a bare ioctl (0 for ours, which makes none on the idle device).
"""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable
from typing import Any

GET_VERSION = 0xC0086440


def mean_us(call: Callable[[], object], count: int) -> float:
    """Processor time of so many calls: other programs on the machine, and waiting for the device, do not count."""
    started = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - started) / count * 1e6


def main(who: str, model: str, *packages: str) -> None:
    """Get ready, then obey."""
    sys.path[:1] = packages  # not the folder of this file: `rknnlite.py` is there
    import numpy as np

    lite, ping = _vendor(model) if who == "vendor" else _ours(model)
    attribute = lite.rknn_runtime.get_tensor_attr(0)
    picture = np.zeros(list(attribute.dims[: attribute.n_dims]), np.uint8)
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        numbers = (
            mean_us(lambda: lite.inference([picture]), count),
            mean_us(lambda: lite.inference([planes], data_format="nchw"), count),
            mean_us(ping, count) if ping else 0.0,
        )
        print(*numbers, flush=True)


def _vendor(model: str) -> tuple[Any, Callable[[], object]]:
    from rknnlite.api import RKNNLite

    lite = RKNNLite()
    if lite.load_rknn(model) or lite.init_runtime(core_mask=1):
        raise SystemExit("the model does not start")
    node = open("/dev/dri/card1", "r+b", buffering=0)  # noqa: SIM115 - open until the end
    action = bytearray(8)
    return lite, lambda: fcntl.ioctl(node, GET_VERSION, action)


def _ours(model: str) -> tuple[Any, None]:
    import openrknn

    openrknn.__path__ += [folder for folder in sys.path if folder.endswith("/out")]  # the library for this processor
    from benchmarks import idle

    with open(model, "rb") as file:
        return idle.start(idle.IdleSource(file.read())), None


if __name__ == "__main__":
    main(*sys.argv[1:])
