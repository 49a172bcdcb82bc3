"""The second door: buffers that users fill and read themselves. Nothing is copied or converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from openrknn.runtime.errors import ClosedError
from openrknn.runtime.program import Program
from openrknn.runtime.tensors import Array

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

    def __init__(self, program: Program, run: Callable[[Binding], None], *, pixels: bool) -> None:
        self.program: Program | None = program
        self.pixels = frozenset(port.name for port in program.inputs if pixels and port.takes_pixels)
        self._run = run
        self.inputs: Mapping[str, Array] = MappingProxyType(
            {port.name: port.pixels if port.name in self.pixels else port.stored.native for port in program.inputs}
        )
        natives = {port.name: port.stored.native for port in program.outputs}
        self.outputs: Mapping[str, Array] = MappingProxyType(natives)

    def run(self) -> None:
        """Execute the model on what the inputs hold now."""
        if self.program is None:
            raise ClosedError("this binding is closed: its session was closed or given other shapes; bind again")
        self._run(self)

    def execute(self, program: Program) -> None:
        """Called by the session, which holds its lock."""
        for port in program.inputs:
            port.fill_row_ends("pixels" if port.name in self.pixels else "stored")
        program.run(self.pixels)
