"""Newer runtimes of the vendor on emulated devices; `tests.witness.runtimes` has them.

Those of RK chips take inputs and give outputs as 1.5.2 does (`tests.fakekernel.vendor`). The one of RV1103 and RV1106
does neither: a program binds memory of its own, pictures in uint8 and everything else as it is stored.
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

from openrknn.container.parts import Quantization
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.runtime.session import Session
from tests.runtime.cases import answers
from tests.witness import runtimes
from tests.witness.testimony import LAYOUTS, TYPES, Layout, Type
from tests.witness.witness import Witness

Array = npt.NDArray[Any]
_SECONDS = 600
_KINDS: dict[str, type] = {"int8": np.int8, "uint8": np.uint8, "float16": np.float16, "float32": np.float32}


def witness_of(version: str) -> Witness:
    """librknnrt of this version, with the program that runs models."""
    return Witness(runtimes.find("rknnrt", version), runtimes.driver("driver"), Path())


@dataclass(frozen=True)
class Product:
    """What rknn_matmul gave."""

    shapes: tuple[tuple[int, ...], ...]
    """dims of A, B and C."""
    result: bytes
    problem: str


def multiply(
    device: Device, version: str, kind: int, shape: tuple[int, int, int], operands: tuple[bytes, bytes], *,
    layouts: tuple[int, int] = (0, 0),
) -> Product:  # fmt: skip
    """One product of A and B; layouts of B, and of A and C."""
    program, library = runtimes.driver("multiply"), runtimes.find("rknnrt", version)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, data in zip("ab", operands, strict=True):
            (folder / part).write_bytes(data)
        numbers = map(str, (kind, *shape, *layouts))
        done = _run(device, [str(program), str(library), *numbers, *(str(folder / part) for part in "abc")], folder)
        shapes = tuple(tuple(json.loads(line)["dims"]) for line in done.stdout.splitlines() if line.startswith("{"))
        result = (folder / "c").read_bytes() if done.returncode == 0 else b""
        return Product(shapes, result, done.stderr if done.returncode else "")


def both_of_mini(
    device: Device, version: str, model: Path, values: Sequence[Array] | None = None
) -> list[tuple[str, Array, Array]]:
    """Each output of the inputs (the stored ones): its name, the numbers of our Session, those of librknnmrt."""
    if values is None:
        values, _ = answers(model)
    arrays = [value if value.dtype == np.uint8 else _moved(value) for value in values]
    stated, _ = _ask(device, version, model, [])
    with Session(model) as session:
        specs, steps = list(session.outputs), [spec.quantization for spec in session.inputs]
        arrays = [_stored(array, step) for array, step in zip(arrays, steps, strict=True)]
        ours = session.run(arrays, outputs="raw", layout="nhwc" if any(array.ndim == 4 for array in arrays) else None)
    fed: list[tuple[Array, Type, Layout, int]] = []
    for array, native in zip(arrays, _tensors(stated, "native_input"), strict=True):
        if array.dtype == np.uint8:
            fed.append((array, "uint8", "nhwc", 0))
        else:
            fed.append((_packed(array, native), TYPES[native["type"]], LAYOUTS[native["layout"]], 1))
    lines, outputs = _ask(device, version, model, fed)
    results = []
    for spec, data, native in zip(specs, outputs, _tensors(lines, "native_output"), strict=True):
        results.append((spec.name, ours[spec.name], _unpacked(data, native, ours[spec.name])))
    return results


def _moved(value: Array) -> Array:
    return np.ascontiguousarray(value.transpose(0, 2, 3, 1) if value.ndim == 4 else value, np.float32)


def _stored(array: Array, step: Quantization | None) -> Array:
    """Pictures as they are; other numbers as the device stores them, which is what this runtime takes."""
    if array.dtype == np.uint8:
        return array
    if step is None:
        return array.astype(np.float16)
    stored: Array = np.clip(np.rint(array / np.float64(step.scale[0])) + step.zero_point[0], -128, 127).astype(np.int8)
    return stored


def _tensors(lines: list[dict[str, Any]], role: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("tensor") == role]


def _packed(array: Array, native: dict[str, Any]) -> Array:
    """Numbers in NHWC as the device has them: NC1HWC2, or as they are."""
    if LAYOUTS[native["layout"]] != "nc1hwc2":
        return array
    count, groups, height, width, lanes = native["dims"]
    whole = np.zeros((count, height, width, groups * lanes), array.dtype)
    whole[..., : array.shape[-1]] = array.reshape(count, height, width, -1)
    return np.ascontiguousarray(whole.reshape(count, height, width, groups, lanes).transpose(0, 3, 1, 2, 4))


def _unpacked(data: bytes, native: dict[str, Any], ours: Array) -> Array:
    """What the device wrote, as an array of the shape of ours."""
    dims, kind = native["dims"], _KINDS[TYPES[native["type"]]]
    array: Array = np.frombuffer(data, kind)[: int(np.prod(dims))]
    if LAYOUTS[native["layout"]] == "nc1hwc2":  # a surface may be longer than its pixels
        count, groups, lanes = dims[0], dims[1], dims[4]
        channels, pixels = ours.shape[1], int(np.prod(ours.shape[2:]))
        surfaces = array.reshape(count, groups, -1, lanes)[:, :, :pixels]
        array = surfaces.transpose(0, 1, 3, 2).reshape(count, groups * lanes, pixels)[:, :channels]
    return array.reshape(ours.shape)


def _ask(
    device: Device, version: str, model: Path, inputs: Sequence[tuple[Array, Type, Layout, int]]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """What the runtime reports, and its outputs; without inputs it does not run the model."""
    program, library = runtimes.driver("driver"), runtimes.find("rknnmrt", version)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "outputs").mkdir()
        words = [str(program), str(library), str(model), str(folder / "report"), "--outputs", str(folder / "outputs")]
        words += ["--zero-copy"] if inputs else ["--no-run"]
        for index, (array, kind, layout, raw) in enumerate(inputs):
            place = folder / f"input{index}"
            place.write_bytes(array.tobytes())
            words += ["--input", f"{place}:{TYPES.index(kind)}:{LAYOUTS.index(layout)}:{raw}"]
        done = _run(device, words, folder)
        lines = [json.loads(line) for line in (folder / "report").read_text().splitlines()]
        assert done.returncode == 0, done.stderr
        assert not [line for line in lines if line.get("code")], done.stderr
        outputs = sorted((folder / "outputs").iterdir(), key=lambda path: int(path.name))
        return lines, [path.read_bytes() for path in outputs]


def _run(device: Device, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = prepare(words, device.environment, device.folder)
    return subprocess.run(
        command.arguments, executable=command.path, env={**command.environment, "RKNN_LOG_LEVEL": "0"}, cwd=folder,
        capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
    )  # fmt: skip
