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
        text = str(error)
        raise CommandError(text if text.startswith(f"{path} ") else f"{path}: {text}") from error


def example_for(bundle: Bundle) -> list[Fed]:
    """Made-up numbers for every input."""
    from openrknn.analysis.parted.feed import example_inputs
    from openrknn.cli.common.inputs import Fed

    return [Fed(name, "random", array, "") for name, array in example_inputs(bundle).items()]


def parted_arrays(bundle: Bundle, words: Sequence[str]) -> list[Fed]:
    """What `--input` gives, for every input of the model, in its order: .npy, .npz, raw bytes."""
    from openrknn.analysis.parted.report import port_text
    from openrknn.cli.common.inputs import collected

    ports = {port.name: port for port in bundle.inputs}
    return collected(
        words,
        list(ports),
        "; ".join(f"{port.name}: {port_text(port)}" for port in bundle.inputs),
        largest_bytes=_LARGEST_BYTES,
        raw=lambda name, data, path: _raw(bundle, ports[name], data, path),
        other=_refused,
    )


def _refused(_: str, path: str) -> Fed:
    raise CommandError(
        f"{path}: a model in parts takes arrays (.npy, .npz, .bin) as its ONNX model does; what a picture's numbers "
        "have to be only its author knows"
    )


def _raw(bundle: Bundle, port: Port, data: bytes, path: str) -> Array:
    """Bytes without a header, in the input's own type; one open dimension may follow from their number."""
    import numpy as np

    from openrknn.runtime.parted.types import DTYPES

    kind: Any = DTYPES.get(port.type)
    if kind is None:
        raise CommandError(f"{path}: the input {port.name!r} is {port.type}, which raw bytes cannot be")
    sizes = [size if isinstance(size, int) else -1 for size in port.shape]
    if sizes.count(-1) > 1:
        sizes = list(bundle.plans[0].shapes.get(port.name, ()))
    known, item = math.prod(size for size in sizes if size >= 0), np.dtype(kind).itemsize
    if len(data) % item or not known or (len(data) // item) % known or (-1 not in sizes and len(data) != known * item):
        raise CommandError(f"{path}: {len(data)} bytes are no {np.dtype(kind).name} numbers for {port.name!r}")
    return np.frombuffer(data, kind).reshape(sizes)
