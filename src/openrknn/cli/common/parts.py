"""Models in parts (`.rknnz`) for commands: the file, and arrays for its inputs in the model's own types."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError
from openrknn.errors import RknnError

if TYPE_CHECKING:
    from openrknn.cli.common.inputs import Array, Fed
    from openrknn.container.bundle import Bundle, Port

__all__ = ["bundle_in", "example_for", "parted_arrays"]

_RAW = (".bin", ".raw")
_LARGEST_BYTES = 2**32
"""Of an array in a `.npz`."""


def bundle_in(path: str) -> Bundle | None:
    """The model in parts that a file holds; None where it is something else, which `load_model` looks at."""
    if not os.path.isfile(path):
        return None
    from openrknn.container.bundle import is_bundle, read_bundle

    if not is_bundle(path):
        return None
    try:
        return read_bundle(path)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    except RknnError as error:
        raise CommandError(f"{path}: {error}") from error


def example_for(bundle: Bundle) -> list[Fed]:
    """Made-up numbers for every input."""
    from openrknn.analysis.parted.feed import example_inputs
    from openrknn.cli.common.inputs import Fed

    return [Fed(name, "random", array, "") for name, array in example_inputs(bundle).items()]


def parted_arrays(bundle: Bundle, words: Sequence[str]) -> list[Fed]:
    """What `--input` gives, for every input of the model, in its order: .npy, .npz, raw bytes."""
    ports = {port.name: port for port in bundle.inputs}
    if not words:
        raise CommandError(f"give --input NAME=FILE; the model takes {_takes(bundle)}")
    found: dict[str, Fed] = {}
    for word in words:
        name, separator, path = word.partition("=")
        is_named = bool(separator) and (name in ports or not os.path.exists(word))
        if is_named and name not in ports:
            raise CommandError(f"the model has no input {name!r}; it takes {_takes(bundle)}")
        free = [port for port in bundle.inputs if port.name not in found]
        chosen = [ports[name]] if is_named else free
        if not chosen:
            raise CommandError(f"{word}: one --input too many; the model takes {_takes(bundle)}")
        for fed in _read(bundle, path if is_named else word, chosen):
            if fed.name in found:
                raise CommandError(f"the input {fed.name!r} is given twice; give each once, as --input NAME=FILE")
            found[fed.name] = fed
    missing = [name for name in ports if name not in found]
    if missing:
        raise CommandError(f"no --input for {', '.join(map(repr, missing))}; the model takes {_takes(bundle)}")
    return [found[name] for name in ports]


def _takes(bundle: Bundle) -> str:
    from openrknn.analysis.parted.report import port_text

    return "; ".join(f"{port.name}: {port_text(port)}" for port in bundle.inputs)


def _read(bundle: Bundle, path: str, ports: Sequence[Port]) -> list[Fed]:
    from openrknn.cli.common.inputs import Fed
    from openrknn.numpyfiles import read_npy

    lower = path.lower()
    try:
        if lower.endswith(".npy"):
            return [Fed(ports[0].name, path, read_npy(path), "")]
        if lower.endswith(".npz"):
            return _from_npz(path, [port.name for port in ports])
        if lower.endswith(_RAW):
            return [Fed(ports[0].name, path, _raw(bundle, ports[0], path), "raw bytes")]
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    raise CommandError(
        f"{path}: a model in parts takes arrays (.npy, .npz, .bin) as its ONNX model does; what a picture's numbers "
        "have to be only its author knows"
    )


def _from_npz(path: str, names: Sequence[str]) -> list[Fed]:
    from openrknn.cli.common.inputs import Fed
    from openrknn.numpyfiles import NpzFile

    with NpzFile(path, largest_bytes=_LARGEST_BYTES) as archive:
        keys = list(archive.names)
        named = [name for name in names if name in keys]
        if not named and len(keys) != len(names):
            raise CommandError(f"{path}: has {', '.join(keys) or 'nothing'}; name its arrays {', '.join(names)}")
        pairs = zip(named, named, strict=True) if named else zip(names, keys, strict=True)
        return [Fed(name, f"{path}[{key}]", archive.read(key), "") for name, key in pairs]


def _raw(bundle: Bundle, port: Port, path: str) -> Array:
    """Bytes without a header, in the input's own type; one open dimension may follow from their number."""
    import numpy as np

    from openrknn.runtime.parted.types import DTYPES

    kind: Any = DTYPES.get(port.type)
    if kind is None:
        raise CommandError(f"{path}: the input {port.name!r} is {port.type}, which raw bytes cannot be")
    with open(path, "rb") as file:
        data = file.read()
    sizes = [size if isinstance(size, int) else -1 for size in port.shape]
    if sizes.count(-1) > 1:
        sizes = list(bundle.plans[0].shapes.get(port.name, ()))
    known, item = math.prod(size for size in sizes if size >= 0), np.dtype(kind).itemsize
    if len(data) % item or not known or (len(data) // item) % known or (-1 not in sizes and len(data) != known * item):
        raise CommandError(f"{path}: {len(data)} bytes are no {np.dtype(kind).name} numbers for {port.name!r}")
    return np.frombuffer(data, kind).reshape(sizes)
