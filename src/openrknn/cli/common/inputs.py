"""From `--input` on the command line to arrays by name: .npy, .npz, raw bytes and pictures."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.analysis.dependence import random_arrays
from openrknn.analysis.io_reports import input_reports
from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError
from openrknn.container.model import Model, TensorSpec
from openrknn.numpyfiles import NpzFile, read_npy
from openrknn.quantities import shape_text

__all__ = ["Array", "Fed", "arrays_for", "random_inputs", "wanted"]

Array: TypeAlias = npt.NDArray[Any]

_RAW = (".bin", ".raw")
_LARGEST_ELEMENT, _MOST_ITEMS = 16, 4096
"""Bytes of an element, and items of a batch, that a `.npz` may have."""
_RAW_TYPES = {1: np.uint8, 2: np.float16, 4: np.float32}


@dataclass(frozen=True, slots=True)
class Fed:
    """One input, ready for the session."""

    name: str
    source: str
    array: Array
    how: str
    """What was done to a picture; empty for arrays."""


def wanted(model: Model) -> str:
    """What the model takes, in one line."""
    return "; ".join(f"{report.name}: {report.feed}" for report in input_reports(model))


def arrays_for(model: Model, words: Sequence[str], *, fit: str, order: str) -> list[Fed]:
    """The arrays for every input of the model, in its order."""
    if not words:
        raise CommandError(f"give --input FILE for {_names(model)}; the model takes {wanted(model)}")
    found: dict[str, Fed] = {}
    for word in words:
        for fed in _from_word(model, word, taken=found, fit=fit, order=order):
            if fed.name in found:
                raise CommandError(f"the input {fed.name!r} is given twice; give each once, as --input NAME=FILE")
            found[fed.name] = fed
    missing = [spec.name for spec in model.inputs if spec.name not in found]
    if missing:
        raise CommandError(f"no --input for {', '.join(map(repr, missing))}; the model takes {wanted(model)}")
    return [found[spec.name] for spec in model.inputs]


def random_inputs(model: Model, seed: int = 0) -> list[Fed]:
    """Numbers as the model could meet them."""
    return [Fed(name, "random", array, "") for name, array in random_arrays(model, seed).items()]


def _names(model: Model) -> str:
    return ", ".join(repr(spec.name) for spec in model.inputs)


def _from_word(model: Model, word: str, *, taken: Mapping[str, Fed], fit: str, order: str) -> list[Fed]:
    """What one `--input` gives: NAME=FILE, a file for the next input that has none, or a .npz for several."""
    name, separator, path = word.partition("=")
    specs = {spec.name: spec for spec in model.inputs}
    # A file may have a "=" in its name: then it is there.
    is_named = bool(separator) and (name in specs or not os.path.exists(word))
    if not is_named:
        path = word
    elif name not in specs:
        raise CommandError(f"the model has no input {name!r}; it has {_names(model)}")
    free = [spec for spec in model.inputs if spec.name not in taken]
    if path.lower().endswith(".npz"):
        return _from_npz(path, [specs[name]] if is_named else free)
    if not is_named and not free:
        raise CommandError(f"{path}: one --input too many; the model has {_names(model)}")
    spec = specs[name] if is_named else free[0]
    return [_from_file(model, spec, path, fit=fit, order=order)]


def _from_file(model: Model, spec: TensorSpec, path: str, *, fit: str, order: str) -> Fed:
    lower = path.lower()
    if lower.endswith(".npy"):
        try:
            return Fed(spec.name, path, read_npy(path), "")
        except OSError as error:
            raise CommandError(os_problem(error, path)) from error
    if lower.endswith(_RAW):
        return Fed(spec.name, path, _raw(spec, path), "raw bytes")
    return _from_picture(model, spec, path, fit=fit, order=order)


def _from_npz(path: str, specs: Sequence[TensorSpec]) -> list[Fed]:
    """Arrays by the names of the inputs, or x0, x1 ..., or in their order where there are just as many."""
    try:
        archive = NpzFile(path, largest_bytes=_LARGEST_ELEMENT * max(_elements(spec) for spec in specs) * _MOST_ITEMS)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    with archive:
        keys = list(archive.names)
        named = [spec for spec in specs if spec.name in keys]
        if named:
            chosen = {spec.name: spec.name for spec in named}
        elif all(f"x{number}" in keys for number in range(len(specs))):
            chosen = {spec.name: f"x{number}" for number, spec in enumerate(specs)}
        elif len(keys) == len(specs):
            chosen = {spec.name: key for spec, key in zip(specs, keys, strict=True)}
        else:
            shown = ", ".join(repr(spec.name) for spec in specs)
            raise CommandError(f"{path}: has {', '.join(keys) or 'nothing'}; name its arrays {shown} or x0, x1 ...")
        return [Fed(name, f"{path}[{key}]", archive.read(key), "") for name, key in chosen.items()]


def _elements(spec: TensorSpec) -> int:
    return max(math.prod(spec.shape), 1)


def _raw(spec: TensorSpec, path: str) -> Array:
    """Bytes without a header: their number says what they are."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    each, rest = divmod(len(data), _elements(spec))
    if rest or each not in _RAW_TYPES:
        raise CommandError(
            f"{path}: {len(data)} bytes are neither uint8, float16 nor float32 for {shape_text(spec.shape)}"
        )
    return np.frombuffer(data, _RAW_TYPES[each]).reshape(spec.shape)


def _from_picture(model: Model, spec: TensorSpec, path: str, *, fit: str, order: str) -> Fed:
    from openrknn.vision.inputs import picture_for

    array, how = picture_for(model, spec, path, fit=fit, order=order)
    return Fed(spec.name, path, array, how)
