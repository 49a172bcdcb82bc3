"""The vendor's runtime, unmodified, on an emulated device: what comes out, and what our own Session makes of the same.

The runtime and the small C program that calls it are those of tests/witness; there the device computes nothing, here
it computes.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.runtime.session import Session
from tests.runtime.cases import answers
from tests.witness.testimony import LAYOUTS, TYPES, Input
from tests.witness.witness import Witness

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """What the runtime returned."""

    codes: dict[str, int]
    """Calls that failed."""
    outputs: tuple[bytes, ...]
    text: str


def run(
    device: Device,
    witness: Witness,
    model: Path,
    inputs: Sequence[Input] = (),
    options: Sequence[str] = (),
    *,
    log_level: int = 0,
) -> Answer:
    """rknn_init, inputs_set, run, outputs_get on the device."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "outputs").mkdir()
        words = [str(witness.driver), str(witness.library), str(model), str(folder / "report")]
        words += ["--outputs", str(folder / "outputs"), *options]
        for index, value in enumerate(inputs):
            place = folder / f"input{index}"
            place.write_bytes(value.data)
            words += ["--input", f"{place}:{TYPES.index(value.type)}:{LAYOUTS.index(value.layout)}:{int(value.raw)}"]
        command = prepare(words, device.environment, device.folder)
        done = subprocess.run(
            command.arguments, executable=command.path, env={**command.environment, "RKNN_LOG_LEVEL": str(log_level)},
            cwd=folder, capture_output=True, text=True, errors="replace", timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in (folder / "report").read_text().splitlines()]
        outputs = sorted((folder / "outputs").iterdir(), key=lambda path: int(path.name))
        return Answer(
            {line["call"]: line["code"] for line in lines if line.get("code")},
            tuple(path.read_bytes() for path in outputs),
            done.stdout + done.stderr,
        )


def both(
    device: Device, witness: Witness, model: Path, options: Sequence[str] = (), values: Sequence[Array] | None = None
) -> list[tuple[str, bytes, bytes]]:
    """Each output of the inputs (the stored ones): its name, our bytes, those of the vendor's runtime."""
    if values is None:
        values, _ = answers(model)
    arrays = [_as_fed(value) for value in values]
    with Session(model) as session:
        layout = "nhwc" if any(array.ndim == 4 for array in arrays) else None
        ours = session.run(arrays, outputs="raw", layout=layout)
        names = [spec.name for spec in session.outputs]
    theirs = run(device, witness, model, [_input(array) for array in arrays], options)
    assert theirs.codes == {}, theirs.text
    results = []
    for name, data in zip(names, theirs.outputs, strict=True):
        raw = ours[name].tobytes()
        results.append((name, raw, data[: len(raw)]))  # the runtime's buffer may be larger than the tensor
    return results


def _as_fed(value: Array) -> Array:
    """Pictures are uint8 NHWC already; the runtime takes feature maps in NHWC too."""
    if value.dtype == np.uint8:
        return value
    moved = value.transpose(0, 2, 3, 1) if value.ndim == 4 else value
    return np.ascontiguousarray(moved, np.float32)


def _input(array: Array) -> Input:
    return Input(
        array.tobytes(),
        "uint8" if array.dtype == np.uint8 else "float32",
        "nhwc" if array.ndim == 4 else "undefined",
    )
