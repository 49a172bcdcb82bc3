"""A repository of small models, and what `Session` says about them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.runtime.session import Session

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests" / "goldens"
Array = npt.NDArray[Any]

FILES = {
    "picture": GOLDENS / "image_rk3588_i8.rknn",  # UINT8 [1, 16, 16, 3] -> FP32 [1, 16, 16, 16]
    "half": GOLDENS / "conv_rk3588_fp.rknn",  # float16 inside
    "two": GOLDENS / "two_inputs_rk3588_i8.rknn",
    "pairs": GOLDENS / "image_rk3588_i8_batch2.rknn",  # rknn_batch_size 2
    "dynamic": GOLDENS / "dynamic_rk3588_i8.rknn",
    "argmax": GOLDENS / "cpu_argmax_rk3588_i8.rknn",  # has an INT64 output
}


def fill(folder: Path) -> Path:
    """Write the repository."""
    for name, file in FILES.items():
        shutil.copy(file, folder / f"{name}.rknn")
    for version in (1, 2, 10):
        (folder / "many" / str(version)).mkdir(parents=True)
        shutil.copy(FILES["picture"], folder / "many" / str(version) / "model.rknn")
    (folder / "many" / "model.toml").write_text('versions = [1, 10]\ninstances = 1\n')
    (folder / "scene").mkdir()
    shutil.copy(ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn", folder / "scene" / "model.rknn")
    shutil.copy(ROOT / "examples/models/imagenet_labels.txt", folder / "scene" / "labels.txt")
    (folder / "scene" / "model.toml").write_text("instances = 1\n")
    return folder


def random_inputs(name: str, seed: int = 0) -> dict[str, Array]:
    """Inputs that a model likes."""
    rng = np.random.default_rng(seed)
    with Session(FILES[name]) as session:
        return {
            spec.name: rng.integers(0, 256, spec.shape, np.uint8)
            if spec.is_image
            else rng.normal(size=spec.shape).astype(np.float32)
            for spec in session.inputs
        }


def expected(name: str, inputs: dict[str, Array], **options: Any) -> dict[str, Array]:
    """What `Session.run` gives."""
    with Session(FILES[name]) as session:
        if session.model.is_dynamic:
            session.set_shapes({key: value.shape for key, value in inputs.items()})
        return session.run(inputs, **options)
