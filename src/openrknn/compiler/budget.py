"""What reading one model may use: the only place that says how much memory and time an import has.

A few bytes can name arrays of many gigabytes. Every reader asks here before it allocates, and the child processes of
the readers that need a framework get the same limits from the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from openrknn.compiler.errors import ModelError
from openrknn.quantities import number_from_environment

MEMORY_VARIABLE, SECONDS_VARIABLE = "OPENRKNN_IMPORT_MEMORY", "OPENRKNN_IMPORT_SECONDS"
LARGEST_VALUE = 1 << 30
"""Elements of one activation: the NPU addresses 4 GB."""
LARGEST_MEASURED = 1 << 27
"""Elements of one activation that the float model computes: half a gigabyte."""
MOST_CHANNELS = 1 << 23
"""Of one activation: the compiler keeps several numbers for each."""
LARGEST_CONSTANT = 64 * 1024 * 1024
"""Elements of a constant that is computed from others, and so is larger than what the file has."""
MOST_TASKS = 1 << 14
"""Tasks of one operator, not of a model, at 1 to 2 ms each. Measured: YOLOv8n 64, a part of a vocabulary of a language
model 1, and a 3x3 convolution of 32 channels in 2160p 1,890 on RK3588 and 8,640 on RK3566."""
_FREE_MEMORY, _MEMORY_PER_BYTE = 3 << 29, 8
_SECONDS = 1800


def memory_for(size_bytes: int) -> int:
    """Bytes that a child may use to convert a file of this size."""
    given = number_from_environment(MEMORY_VARIABLE)
    return _FREE_MEMORY + _MEMORY_PER_BYTE * size_bytes if given is None else given


def seconds_for() -> float:
    """Wall-clock seconds that a child may use."""
    given = number_from_environment(SECONDS_VARIABLE)
    return _SECONDS if given is None else given


def check_array(shape: Sequence[int], who: str) -> None:
    """Before an array of constants is made that the file does not contain."""
    if prod(shape) > LARGEST_CONSTANT:
        raise ModelError(
            f"{who} needs a constant of the shape {list(shape)}: more than {LARGEST_CONSTANT} elements that the file "
            "does not contain. Export the model for smaller sizes",
            operators=(who,),
        )


def refuse_tasks(who: str, *operators: str) -> NoReturn:
    """Of an operator that is cut into more than `MOST_TASKS`."""
    raise ModelError(
        f"{who} needs more than {MOST_TASKS} tasks of the NPU: its input is too large. Choose smaller input shapes "
        "(--shapes)",
        operators=operators,
    )


def filled(shape: Sequence[int], who: str, value: float = 0.0, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """A new array of one number, after `check_array`."""
    check_array(shape, who)
    return np.full(tuple(shape), value, dtype)
