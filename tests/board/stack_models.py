"""The goldens that an RK3588 runs, each with inputs and the software NPU's outputs, as files for `stack_program.py`."""

from __future__ import annotations

import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from openrknn import InputWarning, Session, load

__all__ = ["NOT_RUN", "write_models"]

GOLDENS = Path(__file__).parents[1] / "goldens"
NOT_RUN = {"residual_rk3588_i8_no_weights": "its weights were removed"}
"""Goldens for RK3588 that nothing can run -> why. Those of other chips need another chip."""


def write_models(folder: Path) -> list[str]:
    """Their names."""
    found = [path for path in sorted(GOLDENS.rglob("*_rk3588_*.rknn")) if path.stem not in NOT_RUN]
    for path in found:
        shutil.copy(path, folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            inputs, outputs = _expected(path)
        arrays = {f"in_{name}": array for name, array in inputs.items()}
        np.savez(folder / f"{path.stem}.npz", **arrays, **{f"out_{name}": array for name, array in outputs.items()})
    return [path.stem for path in found]


def _expected(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(zlib.crc32(path.stem.encode()))
    with Session(load(path), "software") as session:
        inputs = {}
        for spec in session.inputs:
            if spec.is_image or spec.dtype == "uint8":
                inputs[spec.name] = rng.integers(0, 256, spec.shape).astype(np.uint8)
            else:
                inputs[spec.name] = rng.standard_normal(spec.shape).astype(np.float32)
        return inputs, dict(session.run(inputs, outputs="raw"))
