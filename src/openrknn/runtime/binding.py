"""Zero copy: buffers that users fill and read themselves. Nothing is copied or converted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from openrknn.runtime.engine import Runnable
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.io.outputs import OutputKind
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.io.user_memory import DmaBuf

_PICTURE_DIMENSIONS = 4


class InputView(np.ndarray[Any, np.dtype[Any]]):
    """The memory of an input. NumPy would truncate floats silently: a picture of 0 to 1 would become black."""

    name = ""

    def __array_finalize__(self, source: object) -> None:
        self.name = getattr(source, "name", "")

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.dtype.kind in "iu" and getattr(value, "dtype", self.dtype).kind == "f":
            raise TypeError(
                f"input {self.name!r}: the bound memory holds {self.dtype}, and {value.dtype} was written to it; "
                "convert the array first (astype), or use `run`, which normalizes and quantizes"
            )
        super().__setitem__(key, value)


def _named(view: Array, name: str) -> InputView:
    made = view.view(InputView)
    made.name = name
    return made


class Binding:
    """Inputs and outputs of a session as stored in device memory.

        bound = session.bind()
        bound.inputs["images"][...] = frame         # uint8 [N, H, W, C], rows padded as the NPU wants them
        bound.run()
        bound.outputs["boxes"]                      # int8 [N, C1, H, W, C2]; see TensorSpec.quantization

    `inputs` are writable views: pictures of quantized models as raw uint8 pixels (or, with `pixels=False`, in the
    model's own type), feature maps as [N, C1, H, W, C2], the rest in its shape. Lanes behind the last channel are zero
    and stay so. A binding is good until the session is closed or gets other shapes.
    """

    def __init__(
        self,
        program: Runnable,
        run: Callable[[Runnable, frozenset[str]], None],
        *,
        pixels: bool,
        owned: bool = False,
        export: Callable[[Runnable, str], int] | None = None,
    ) -> None:
        self.program: Runnable | None = program
        self._owned = owned
        self.pixels = frozenset(port.name for port in program.inputs if pixels and port.takes_pixels)
        self._run = run
        self._export = export
        self._exported: dict[str, DmaBuf] = {}
        self.inputs: Mapping[str, Array] = MappingProxyType(
            {
                port.name: _named(port.pixels if port.name in self.pixels else port.stored.native, port.name)
                for port in program.inputs
            }
        )
        self._padded = [
            (port, "pixels" if port.name in self.pixels else "stored")
            for port in program.inputs
            if port.stored.padding is not None
        ]
        natives = {port.name: port.stored.native for port in program.outputs}
        self.outputs: Mapping[str, Array] = MappingProxyType(natives)

    def run(self) -> None:
        """Execute the model on what the inputs hold now."""
        program = self.program
        if program is None:
            raise ClosedError("this binding is closed: its session was closed or given other shapes; bind again")
        for port, kind in self._padded:
            port.fill_row_ends(kind)
        self._run(program, self.pixels)

    def dma_buf(self, name: str) -> DmaBuf:
        """The memory of an input as a dma-buf, for devices that write it (RGA); good until the binding is closed."""
        program = self.program
        if program is None or self._export is None:
            raise ClosedError("this binding is closed, or its device exports no memory")
        if name not in self.inputs:
            raise ValueError(f"no input is called {name!r}; the model has {', '.join(self.inputs)}")
        if name not in self._exported:
            view = self.inputs[name]
            stride = view.strides[1] if view.ndim == _PICTURE_DIMENSIONS else None
            self._exported[name] = DmaBuf(self._export(program, name), stride=stride)
        return self._exported[name]

    def read(self, kind: OutputKind = "float") -> dict[str, Array]:
        """The outputs of the last run as `Session.run` gives them ("raw" or "float"), in the model's shapes."""
        program = self.program
        if program is None:
            raise ClosedError("this binding is closed: its session was closed or given other shapes; bind again")
        return {port.name: port.read(kind) for port in program.outputs}

    def close(self) -> None:
        """It cannot run any more. User memory is released; views of it stay valid."""
        program, self.program = self.program, None
        while self._exported:
            os.close(self._exported.popitem()[1].fd)
        if program is not None and self._owned:
            program.close()
