"""From `--input` on the command line to arrays by name: .npy, .npz, raw bytes and pictures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
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

__all__ = ["Array", "Fed", "arrays_for", "collected", "random_inputs", "wanted"]

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
    specs = {spec.name: spec for spec in model.inputs}
    return collected(
        words,
        list(specs),
        wanted(model),
        largest_bytes=_LARGEST_ELEMENT * _MOST_ITEMS * max((_elements(spec) for spec in specs.values()), default=1),
        raw=lambda name, data, path: _raw(specs[name], data, path),
        other=lambda name, path: _from_picture(model, specs[name], path, fit=fit, order=order),
    )


def collected(
    words: Sequence[str],
    names: Sequence[str],
    takes: str,
    *,
    largest_bytes: int,
    raw: Callable[[str, bytes, str], Array],
    other: Callable[[str, str], Fed],
) -> list[Fed]:
    """What `--input` gives for inputs of these names: NAME=FILE, a file for the next that has none, a .npz for more.

    `raw` makes an array of bytes without a header, `other` reads files of other kinds.
    """
    if not words:
        raise CommandError(f"give --input FILE for {_listed(names)}; the model takes {takes}")
    found: dict[str, Fed] = {}
    for word in words:
        name, separator, path = word.partition("=")
        # A file may have a "=" in its name: then it is there.
        is_named = bool(separator) and (name in names or not os.path.exists(word))
        if is_named and name not in names:
            raise CommandError(f"the model has no input {name!r}; it takes {takes}")
        chosen = [name] if is_named else [one for one in names if one not in found]
        path = path if is_named else word
        if not chosen:
            raise CommandError(f"{path}: one --input too many; the model takes {takes}")
        for fed in _from_file(path, chosen, largest_bytes, raw, other):
            if fed.name in found:
                raise CommandError(f"the input {fed.name!r} is given twice; give each once, as --input NAME=FILE")
            found[fed.name] = fed
    missing = [name for name in names if name not in found]
    if missing:
        raise CommandError(f"no --input for {_listed(missing)}; the model takes {takes}")
    return [found[name] for name in names]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _from_file(
    path: str, names: Sequence[str], largest_bytes: int, raw: Callable[[str, bytes, str], Array],
    other: Callable[[str, str], Fed],
) -> list[Fed]:  # fmt: skip
    lower = path.lower()
    try:
        if lower.endswith(".npz"):
            return _from_npz(path, names, largest_bytes)
        if lower.endswith(".npy"):
            return [Fed(names[0], path, read_npy(path), "")]
        if lower.endswith(_RAW):
            with open(path, "rb") as file:
                return [Fed(names[0], path, raw(names[0], file.read(), path), "raw bytes")]
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    return [other(names[0], path)]


def _from_npz(path: str, names: Sequence[str], largest_bytes: int) -> list[Fed]:
    """Arrays by the names of the inputs, or x0, x1 ..., or in their order where there are just as many."""
    with NpzFile(path, largest_bytes=largest_bytes) as archive:
        keys = list(archive.names)
        chosen = {name: name for name in names if name in keys}
        if not chosen and all(f"x{number}" in keys for number in range(len(names))):
            chosen = {name: f"x{number}" for number, name in enumerate(names)}
        elif not chosen and len(keys) == len(names):
            chosen = dict(zip(names, keys, strict=True))
        if not chosen:
            raise CommandError(
                f"{path}: has {', '.join(keys) or 'nothing'}; name its arrays {_listed(names)} or x0, x1 ..."
            )
        return [Fed(name, f"{path}[{key}]", archive.read(key), "") for name, key in chosen.items()]


def random_inputs(model: Model, seed: int = 0) -> list[Fed]:
    """Numbers as the model could meet them."""
    return [Fed(name, "random", array, "") for name, array in random_arrays(model, seed).items()]


def _elements(spec: TensorSpec) -> int:
    return max(math.prod(spec.shape), 1)


def _raw(spec: TensorSpec, data: bytes, path: str) -> Array:
    """Bytes without a header: their number says what they are."""
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
