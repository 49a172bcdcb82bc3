"""Every network of the shared corpus: compiled, run on the strict software NPU, and as close to float as the vendor's.

corpus_vendor.json has the decibels of the vendor's own builds on the same inputs, as benchmarks/compiler_acceptance.py
measured them on the software NPU. Calibration and evaluation never share an input.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.api import Compiled
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.witness import ask_vendor
from openrknn.container.load import load
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tests.compiler.nets import Array
from tests.runtime.cases import CORPUS, shared_case
from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import cache_folder, find_library

pytestmark = pytest.mark.unchecked

FOLDER = CORPUS / "rk3588"
VENDOR: dict[str, float] = json.loads((Path(__file__).parent / "corpus_vendor.json").read_text())
SLACK_DB, ENOUGH_DB = 0.3, 100.0
BELOW: dict[str, tuple[float, str]] = {
    "resizebil fp": (1.0, "weights of the interpolation in fp16, one rounding more"),
}
"""Cases below the vendor's build by more than the slack: by how much they may be, and why."""
WITNESSED = (
    "conv1x1 i8", "dw fp", "gemm i8", "img3a i8", "layernorm fp", "mbv2 i8", "softmax fp", "transpose i8", "yolo fp",
)  # fmt: skip
SEEN, UNSEEN = (100, 101, 102), (200, 201, 202)


def sources(name: str, seeds: tuple[int, ...]) -> tuple[Any, list[tuple[Array, ...]], dict[str, Any]]:
    """The ONNX model, inputs, and mean and std for pictures."""
    stem, form = name.split()
    stored = shared_case(FOLDER / f"{stem}_rk3588_{form}.rknn")
    proto = onnx.load(FOLDER / f"{stem}.onnx")
    with np.load(stored.with_suffix(".npz")) as archive:
        first = archive[next(key for key in archive.files if key.startswith("x"))]
    chances = [np.random.default_rng(seed) for seed in seeds]
    if first.dtype == np.uint8:
        norm, channels = load(stored).graphs[0].normalizations[0], first.shape[-1]
        pictures = [chance.integers(0, 256, first.shape).astype(np.uint8) for chance in chances]
        return proto, [(picture,) for picture in pictures], {"mean": norm.mean[:channels], "std": norm.std[:channels]}
    shapes = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in proto.graph.input]
    return proto, [tuple(chance.normal(0, 1, shape).astype(np.float32) for shape in shapes) for chance in chances], {}


def compiled(name: str) -> Compiled:
    proto, inputs, options = sources(name, SEEN)
    return compile_model(proto, calibration=inputs if name.endswith(" i8") else None, **options)


def planes(array: Array, options: dict[str, Any]) -> Array:
    if array.dtype != np.uint8:
        return array
    mean, std = (np.float32(options[key]).reshape(1, -1, 1, 1) for key in ("mean", "std"))
    result: Array = (array.astype(np.float32).transpose(0, 3, 1, 2) - mean) / std
    return result


@pytest.mark.parametrize("name", VENDOR)
def test_a_case_of_the_corpus(name: str) -> None:
    proto, runs, options = sources(name, UNSEEN)
    made = compiled(name)
    outputs = [entry.name for entry in proto.graph.output]
    float_model = FloatModel(made.source, outputs)
    wanted, found = [], []
    with Session(made.model, "software") as session:
        names = [spec.name for spec in session.inputs]
        for arrays in runs:
            fed = dict(zip(names, (planes(array, options) for array in arrays), strict=True))
            values = dict(float_model.run(fed))
            wanted += [values[key].reshape(-1) for key in outputs]
            is_picture = arrays[0].dtype == np.uint8
            layout = None if arrays[0].ndim != 4 else "nhwc" if is_picture else "nchw"
            found += [value.reshape(-1) for value in session.run(list(arrays), layout=layout).values()]
    decibels = measure(np.concatenate(found), np.concatenate(wanted)).snr_db
    slack = BELOW.get(name, (SLACK_DB, ""))[0] + SLACK_DB
    assert decibels >= min(ENOUGH_DB, VENDOR[name]) - slack, f"{decibels:.2f} dB, vendor's build {VENDOR[name]:.2f} dB"


@pytest.mark.witness
@pytest.mark.parametrize("name", WITNESSED)
def test_the_vendors_runtime_gives_the_same_bytes(name: str) -> None:
    try:
        library = find_library(cache_folder())
    except WitnessMissingError as missing:
        pytest.skip(str(missing))
    # Inputs within the calibrated range: beyond it, runtime 1.5.2 wraps numbers round where there are not 4 dimensions.
    made, (_, runs, _) = compiled(name), sources(name, SEEN[:1])
    with Session(made.model, "software") as session:
        names = [spec.name for spec in session.inputs]
    arrays = [array.transpose(0, 3, 1, 2) if array.dtype == np.uint8 else array for array in runs[0]]
    assert all(entry.is_same for entry in ask_vendor(made, 0, [dict(zip(names, arrays, strict=True))], library=library))
