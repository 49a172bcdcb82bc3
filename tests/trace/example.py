"""Records the example of the tutorial: the vendor's runtime with a small model, on the emulated device.

    python -m tests.trace.example        writes examples/traces/tiny.trace and tiny.log again
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from openrknn.fakekernel.device import Device
from openrknn.trace.archive import TraceWriter
from openrknn.trace.recorder import Recorder
from tests.fakekernel.vendor import run
from tests.witness.testimony import Input
from tests.witness.witness import Witness

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "traces"
MODEL = FOLDER / "tiny_rk3588_fp.rknn"
TOLD = re.compile(r"RKNN: \[.{12}\] ((?:allocated memory|ID  User|\d+ +\w+ +\w+ .*\|).*)")


def picture() -> bytes:
    """32 by 32 pixels that are easy to find in memory: each row has its own grey."""
    rows = np.arange(32, dtype=np.uint8)[:, None, None] * 8
    return np.broadcast_to(rows, (1, 32, 32, 3)).tobytes()


def record(path: Path, witness: Witness) -> None:
    """One inference."""
    about = {"chip": "rk3588", "driver": "rknpu", "program": "the vendor's runtime 1.5.2"}
    with TraceWriter(path, **about) as writer, Device("rk3588", hook=Recorder(writer)) as device:
        answer = run(device, witness, MODEL, [Input(picture(), "uint8", "nhwc")])
    assert answer.codes == {}


def log(witness: Witness) -> str:
    """What the runtime says of its memory; the times of day are left out."""
    with Device("rk3588") as device:
        text = run(device, witness, MODEL, [Input(picture(), "uint8", "nhwc")], log_level=4).text
    return "".join(f"{found[1]}\n" for found in TOLD.finditer(text))


if __name__ == "__main__":
    found = Witness.find()
    record(FOLDER / "tiny.trace", found)
    (FOLDER / "tiny.log").write_text(log(found), encoding="utf-8")
