"""The files of a case as arrays, and what is expected of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.fields import near
from openrknn.check.golden import Case
from openrknn.container.model import Model, TensorSpec
from openrknn.errors import FormatError
from openrknn.numpyfiles import NpzFile, read_npy

Array: TypeAlias = npt.NDArray[Any]

SOUNDS = (".wav", ".flac", ".ogg", ".mp3")
_ARRAYS = (".npy", ".npz")
_RAW = (".bin", ".raw")
_RAW_TYPES = {1: np.uint8, 2: np.float16, 4: np.float32}
_LARGEST_ELEMENT, _MOST_ITEMS = 16, 4096
_LARGEST_FILE = 1 << 32


def is_picture(path: Path) -> bool:
    """Whether a file is none of the others."""
    return path.suffix.lower() not in (*_ARRAYS, *_RAW, *SOUNDS)


def arrays_of(case: Case, specs: Sequence[TensorSpec], model: Model | None) -> dict[str, Array]:
    """Name of the input -> its array. `model` knows what is to be done to pictures."""
    by_name = {spec.name: spec for spec in specs}
    found: dict[str, Array] = {}
    for name, path in case.inputs.items():
        if name and name not in by_name:
            raise GoldenError(f"case {case.name!r}: the model has no input {name!r}{near(name, by_name)}")
        if not name and path.suffix.lower() == ".npz":
            found |= read_npz(path, list(specs), "input")
        else:
            found[name or specs[0].name] = _file(path, by_name[name] if name else specs[0], case, model)
    missing = [spec.name for spec in specs if spec.name not in found]
    if missing:
        raise GoldenError(f"case {case.name!r}: nothing for the input {', '.join(map(repr, missing))}; write inputs")
    return found


def expected_outputs(path: Path, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Name of the output -> what is expected; outputs that a file does not have are not looked at."""
    _check_size(path)
    if path.suffix.lower() == ".npy":
        if len(specs) != 1:
            raise GoldenError(f"a .npy is one output, and the model has {len(specs)}; use a .npz", path=str(path))
        return {specs[0].name: _npy(path)}
    return read_npz(path, list(specs), "output", partly=True)


def read_npz(path: Path, specs: Sequence[TensorSpec], what: str, *, partly: bool = False) -> dict[str, Array]:
    """Arrays by the names of inputs or outputs, or x0, x1, ... in their order; with `partly` some may be missing."""
    _check_size(path)
    largest = _LARGEST_ELEMENT * _MOST_ITEMS * max(math.prod(spec.shape) or 1 for spec in specs)
    with NpzFile(path, largest_bytes=largest) as archive:
        names = {spec.name for spec in specs}
        numbered = {f"x{number}": spec.name for number, spec in enumerate(specs)}
        found: dict[str, Array] = {}
        for key in archive.names:
            name = key if key in names else numbered.get(key)
            if name is None and len(archive.names) == len(specs) == 1:
                name = specs[0].name
            if name is None:
                raise GoldenError(f"{key!r:.80} is no {what} of the model{near(key, names)}", path=str(path))
            found[name] = archive.read(key)
    if not found or (not partly and len(found) < len(specs)):
        raise GoldenError(f"it has {len(found)} of {len(specs)} {what}s", path=str(path))
    return found


def _file(path: Path, spec: TensorSpec, case: Case, model: Model | None) -> Array:
    suffix = path.suffix.lower()
    _check_size(path)
    if suffix == ".npy":
        return _npy(path)
    if suffix == ".npz":
        return read_npz(path, [spec], "input")[spec.name]
    if suffix in _RAW:
        return _raw(path, spec)
    if model is None:
        raise CannotCheckError(f"{path}: a model in parts takes arrays; give a .npy or .npz")
    from openrknn.vision.inputs import picture_for

    return picture_for(model, spec, path, fit=case.fit, order=case.order)[0]


def _check_size(path: Path) -> None:
    try:
        if not path.is_file():
            raise GoldenError("no such file; golden.toml names it", path=str(path))
        if path.stat().st_size > _LARGEST_FILE:
            raise GoldenError("larger than 4 GiB", path=str(path))
    except OSError as error:
        raise GoldenError(f"cannot be read: {error.strerror or error}", path=str(path)) from None


def _npy(path: Path) -> Array:
    try:
        return read_npy(path)
    except FormatError as error:
        raise GoldenError(str(error), path=str(path)) from None


def _raw(path: Path, spec: TensorSpec) -> Array:
    data = path.read_bytes()
    each, rest = divmod(len(data), math.prod(spec.shape) or 1)
    if rest or each not in _RAW_TYPES:
        raise GoldenError(f"{len(data)} bytes are neither uint8, float16 nor float32 for {spec}", path=str(path))
    return np.frombuffer(data, _RAW_TYPES[each]).reshape(spec.shape)

