"""`Parted`: a model of any kind, ready to run on NPU and CPU together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.compiler.importer.read import read_model
from openrknn.partition.options import PartitionOptions

__all__ = ["Parted", "Port"]


class Port(NamedTuple):
    """An input or an output of the whole model."""

    name: str
    type: str
    """As ONNX Runtime writes it: tensor(float), tensor(int64), ..."""
    shape: tuple[int | str | None, ...]
    """Open dimensions have a name, or None."""


class Parted(Closing):
    """A model split into parts. One thing runs at a time, from whichever thread."""

    def __init__(self, source: str | os.PathLike[str] | bytes | Any, options: PartitionOptions | None = None) -> None:
        import onnxruntime

        self.options = options or PartitionOptions()
        self.source = read_model(source)
        self._whole = onnxruntime.InferenceSession(
            self.source.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        self.inputs = tuple(Port(one.name, one.type, tuple(one.shape)) for one in self._whole.get_inputs())
        self.outputs = tuple(Port(one.name, one.type, tuple(one.shape)) for one in self._whole.get_outputs())

    def run(
        self, feed: Mapping[str, npt.NDArray[np.generic]], wanted: Sequence[str] | None = None
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Outputs by name, with the types that the model says."""
        names = list(wanted) if wanted else [port.name for port in self.outputs]
        return dict(zip(names, self._whole.run(names, dict(feed)), strict=True))

    def close(self) -> None:
        """Give everything back."""
