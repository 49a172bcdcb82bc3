"""The second door: buffers that users fill and read themselves. Nothing is copied or converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from openrknn.runtime.engine import Runnable
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.io.tensors import Array

__all__ = ["Binding"]


class Binding:
    """Inputs and outputs of a session as they lie in device memory.

        bound = session.bind()
        bound.inputs["images"][...] = frame         # uint8 [N, H, W, C], rows padded as the NPU wants them
        bound.run()
        bound.outputs["boxes"]                      # int8 [N, C1, H, W, C2]; see TensorSpec.quantization

    `inputs` are writable views: pictures of quantized models as raw uint8 pixels (or, with `pixels=False`, in the
    model's own type), feature maps as [N, C1, H, W, C2], the rest in its shape. Lanes behind the last channel are zero
    and stay so. A binding is good until the session is closed or gets other shapes.
    """

    def __init__(
        self, program: Runnable, run: Callable[[Runnable, frozenset[str]], None], *, pixels: bool, owned: bool = False
    ) -> None:
        self.program: Runnable | None = program
        self._owned = owned
        self.pixels = frozenset(port.name for port in program.inputs if pixels and port.takes_pixels)
        self._run = run
        self.inputs: Mapping[str, Array] = MappingProxyType(
            {port.name: port.pixels if port.name in self.pixels else port.stored.native for port in program.inputs}
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

    def close(self) -> None:
        """It can run no more. Memory of the user's is given back; views of it stay valid."""
        program, self.program = self.program, None
        if program is not None and self._owned:
            program.close()
