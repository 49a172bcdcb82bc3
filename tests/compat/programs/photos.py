"""Machine learning of a photo library, after Immich: a pool of runtimes behind threads, shapes known to the program."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

SOCS = ("rk3566", "rk3568", "rk3576", "rk3588")
SOCS_WITH_CORES = ("rk3576", "rk3588")

try:
    from rknnlite.api import RKNNLite
except ImportError:
    RKNNLite = None  # type: ignore[assignment,misc]


def soc(path: Path = Path("/proc/device-tree/compatible")) -> str | None:
    """The chip, if it is one with a known NPU."""
    try:
        text = path.read_text()
    except OSError:
        return None
    return next((name for name in SOCS if name in text), None)


def start(path: str, chip: str | None) -> Any:
    """One runtime."""
    lite = RKNNLite()
    lite.rknn_log.logger.setLevel(logging.ERROR)  # the vendor's wheel warns at each call with nchw
    if lite.load_rknn(path) != 0:
        raise RuntimeError("Failed to load RKNN model")
    with_cores = chip in SOCS_WITH_CORES
    code = lite.init_runtime(core_mask=RKNNLite.NPU_CORE_AUTO) if with_cores else lite.init_runtime()
    if code != 0:
        raise RuntimeError("Failed to inititalize RKNN runtime environment")
    return lite


def infer(lite: Any, arrays: list[Any]) -> list[Any]:
    """One run."""
    contiguous = [np.ascontiguousarray(array) for array in arrays]
    outputs: list[Any] | None = lite.inference(inputs=contiguous, data_format="nchw")
    if outputs is None:
        raise RuntimeError("RKNN inference failed!")
    return outputs


class Pool:
    """Runtimes take turns; results come in the order of the requests."""

    def __init__(self, path: str, threads: int, chip: str | None) -> None:
        self.threads = threads
        self.queue: Queue[Future[list[Any]]] = Queue()
        self.lites = [start(path, chip) for _ in range(threads)]
        self.executor = ThreadPoolExecutor(max_workers=threads)
        self.number = 0

    def put(self, arrays: list[Any]) -> None:
        """Ask."""
        self.queue.put(self.executor.submit(infer, self.lites[self.number % self.threads], arrays))
        self.number += 1

    def get(self) -> list[Any] | None:
        """The oldest result; None if nothing was asked."""
        return None if self.queue.empty() else self.queue.get().result()

    def release(self) -> None:
        """The end."""
        self.executor.shutdown()
        for lite in self.lites:
            lite.release()

    def __del__(self) -> None:
        self.release()
