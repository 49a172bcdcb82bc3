"""Generated inputs for a model in parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.container.bundle import Bundle, Port
from openrknn.errors import UnsupportedError
from openrknn.runtime.parted.types import DTYPES

_MOST_NUMBERS = 2**28


def input_shape(bundle: Bundle, port: Port) -> tuple[int, ...]:
    """What the first plan says; open dimensions of a model without one are 1."""
    planned = bundle.plans[0].shapes.get(port.name)
    return planned if planned is not None else tuple(size if isinstance(size, int) else 1 for size in port.shape)


def example_inputs(bundle: Bundle, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Floats in -1 .. 1; whole numbers and truths are ones, which are good as a token, a length and a mask."""
    chance = np.random.default_rng(seed)
    found = {}
    for port in bundle.inputs:
        kind = DTYPES.get(port.type)
        if kind is None:
            raise UnsupportedError(f"the input {port.name!r} is {port.type}: no numbers can be made up for it; give it")
        shape = input_shape(bundle, port)
        if math.prod(shape) > _MOST_NUMBERS:
            raise UnsupportedError(f"the input {port.name!r} is {shape}: too many numbers to make up; give it")
        if np.dtype(kind).kind == "f":
            found[port.name] = chance.uniform(-1, 1, shape).astype(kind)
        else:
            found[port.name] = np.ones(shape, kind)
    return found
