"""Nothing grows: no garbage for the collector, no memory, over thousands of calls."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.runtime import Spares
from tests.compat.lab import Lab

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
CALLS = 2000
PICTURE = np.zeros((1, 16, 16, 3), np.uint8)
PLANES = np.zeros((1, 3, 16, 16), np.float32)
OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nhwc": (PICTURE, {}),
    "nchw": (PLANES, {"data_format": "nchw"}),
    "reused": (PICTURE, {"reuse_outputs": True}),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_inference_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    array, options = OPTIONS[kind]
    lite = Lab(GOLDENS, tmp_path).open("image_rk3588_i8")
    for _ in range(20):
        lite.inference([array], **options)
    gc.disable()
    tracemalloc.start()
    try:
        gc.collect()  # also empties Python's free lists, which are no growth
        objects, before = len(gc.get_objects()), tracemalloc.get_traced_memory()[0]
        for _ in range(CALLS):
            lite.inference([array], **options)
        new_objects = len(gc.get_objects()) - objects
        cyclic = gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()
    assert new_objects < 20  # not per call: the vendor's wheel leaves 12 to 17 at each
    assert cyclic < 20
    assert grown < 2 * CALLS  # bytes


def test_runtimes_come_and_go(tmp_path: Path) -> None:
    lab = Lab(GOLDENS, tmp_path)
    lab.open("image_rk3588_i8").release()
    gc.collect()
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(8):
            lite = lab.open("image_rk3588_i8")
            lite.inference([PICTURE])
            lite.release()
            del lite
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[3] < 16 * 1024


def test_memory_is_used_again_only_when_nobody_holds_it() -> None:
    pool = Spares((64, 1024))
    first = pool.take()
    address = first.ctypes.data
    view = first[3:5]
    del first
    second = pool.take()
    assert second.ctypes.data != address  # a view of it is still there
    del view
    assert pool.take().ctypes.data == address
    held = [pool.take() for _ in range(10)]
    assert len({array.ctypes.data for array in held} | {second.ctypes.data}) == 11


def test_small_arrays_are_always_new() -> None:
    pool = Spares((4, 4))
    assert pool.take().flags.owndata
