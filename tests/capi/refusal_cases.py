"""How a case of `tests.capi.refusals` is written: its name, its models, and the calls that most begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.capi.asking import CODEC, Script

Case = Callable[[Script, str], None]
"""Adds the calls of a case; the text begins all labels."""

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL = GOLDENS / "residual_rk3588_i8.rknn"
BATCH = GOLDENS / "image_rk3588_i8_batch2.rknn"
DYNAMIC = GOLDENS / "dynamic_rk3588_i8.rknn"
TWO = GOLDENS / "two_inputs_rk3588_i8.rknn"
PICTURE_BYTES = 16 * 16 * 3
OUTPUT_BYTES = 32 * 4 * 4
UINT8, INT8, FLOAT32, INT64 = 3, 2, 0, 8
NCHW, NHWC, NC1HWC2, UNDEFINED = 0, 1, 2, 3
COLLECT_PERF = 0x8
MODEL_INFO_ONLY = 0x100
OUTSIDE = 0x10
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Name a case."""

    def keep(made: Case) -> Case:
        CASES[name] = made
        return made

    return keep


def picture(script: Script, **changes: int) -> int:
    """An rknn_input for `MODEL`, and where it is."""
    pixels = script.buffer(4096, 7)
    values = {"index": 0, "size": PICTURE_BYTES, "type": UINT8, "fmt": NHWC} | changes
    given = script.data(CODEC.encode("rknn_input", values))
    if values.get("buf", 1):
        script.put(given, CODEC.offset("rknn_input", "buf"), f"@{pixels}")
    return given


def fed(script: Script, name: str, path: Path = MODEL, flags: int = 0) -> int:
    """A context with its inputs set."""
    context = script.init(path, flags, f"{name} init")
    given = picture(script)
    script.call(f"{name} inputs", "rknn_inputs_set", f"*{context}", 1, f"@{given}")
    return context


def ran(script: Script, name: str, flags: int = 0) -> int:
    """A context that ran."""
    context = fed(script, name, flags=flags)
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    return context


def gone(script: Script, name: str, context: int) -> None:
    script.call(f"{name} destroy", "rknn_destroy", f"*{context}")
