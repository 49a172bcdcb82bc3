"""Measures `RKNNLite.inference` of whichever package is asked for; `rknnlite.py` starts it and tells it when.

    python rknnlite_inside.py vendor|ours MODEL.rknn FOLDER_OF_PACKAGES ...

For each line on standard input it makes so many calls as the line says, and prints medians in microseconds: of nhwc, of
nchw, and of one bare ioctl (0 for ours, which makes none on the idle device).
"""

from __future__ import annotations

import fcntl
import logging
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

GET_VERSION = 0xC0086440


def median_us(call: Callable[[], object], count: int) -> float:
    """Of so many calls."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def main(who: str, model: str, *packages: str) -> None:
    """Get ready, then obey."""
    sys.path[:1] = packages  # not the folder of this file: `rknnlite.py` is there
    import numpy as np

    lite, ping = _vendor(model) if who == "vendor" else _ours(model)
    lite.rknn_log.logger.setLevel(logging.ERROR)
    attribute = lite.rknn_runtime.get_tensor_attr(0)
    picture = np.zeros(list(attribute.dims[: attribute.n_dims]), np.uint8)
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        numbers = (
            median_us(lambda: lite.inference([picture]), count),
            median_us(lambda: lite.inference([planes], data_format="nchw"), count),
            median_us(ping, count) if ping else 0.0,
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
