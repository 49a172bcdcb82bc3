"""What a partition is asked for: which device and precision, what is left to the CPU, and where results are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.chips import find_chip, known_chips
from openrknn.compiler.errors import OptionError

PRECISIONS = ("fp16", "int8", "mixed")
PREFERENCES = ("cost", "npu", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """Options of `Parted` and `compile --partition`."""

    target: str = "rk3588"
    """The chip that NPU parts are compiled for."""
    device: str = "auto"
    """Where they run, as `Session` takes it."""
    precision: str = ""
    """fp16, int8 or mixed; empty: int8 with calibration data or a quantised model, else fp16."""
    calibration: Any = None
    """Inputs of the whole model: what `openrknn.compile` takes. Each part is calibrated on what reaches it."""
    prefer: str = "cost"
    """cost: what is faster by estimate; npu: all that can be, however small; cpu: nothing goes to the NPU."""
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()
    """Input shapes to compile ahead (buckets), for models with open dimensions. One mapping is one choice."""
    learn_shapes: bool = True
    """Compile for shapes that were not announced, when they are first seen; else they run on the CPU."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Inputs that are always the same."""
    outputs: Sequence[str] = ()
    """Cut the model here."""
    cache: str | os.PathLike[str] | bool = True
    """A folder for compiled parts; True: the user's cache folder; False: none."""
    compile: Mapping[str, Any] = field(default_factory=dict)
    """More keywords of `openrknn.compile` for the NPU parts; mean, std, order and fit are for calibration pictures."""
    avoid: Sequence[str] = ()
    """Values whose operators stay on the CPU."""
    probe: bool = True
    """Compare the first run with the whole model on the CPU, and leave to it what fp16 cannot hold."""
    session_options: Any = None
    """An `onnxruntime.SessionOptions` for the parts of the CPU."""

    @property
    def digest(self) -> str:
        """What the results depend on, as a text; calibration data come on top."""
        parts = (self.target, self.precision, self.prefer, sorted(self.compile.items(), key=str), tuple(self.outputs),
                 tuple(self.avoid))  # fmt: skip
        constants = {name: np.asarray(value).tolist() for name, value in sorted(self.constants.items())}
        return repr((*parts, constants, [sorted(entry.items()) for entry in self.shapes]))

    def __post_init__(self) -> None:
        if isinstance(self.shapes, Mapping):
            object.__setattr__(self, "shapes", (self.shapes,))
        if self.precision and self.precision not in PRECISIONS:
            raise OptionError(f"precision {self.precision!r} is unknown; the choices are {', '.join(PRECISIONS)}")
        found = find_chip(str(self.target))
        if found is None:
            raise OptionError(f"target {self.target!r} is not a chip that openrknn knows; there are {known_chips()}")
        object.__setattr__(self, "target", found.name)
        if self.prefer not in PREFERENCES:
            raise OptionError(f"prefer={self.prefer!r} is unknown; the choices are {', '.join(PREFERENCES)}")
