"""How much device memory a session takes."""

from __future__ import annotations

from collections.abc import Iterable

from openrknn.device import DeviceBuffer
from openrknn.records import dataclass
from openrknn.runtime.program.program import Program
from openrknn.runtime.program.weights import WeightStore


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes on the device, by use."""

    weights: int
    """Constants; shared between the sessions that `weight_users` counts."""
    commands: int
    internal: int
    """Tensors between the operators, at the places that the compiler chose."""
    inputs: int
    outputs: int
    weight_users: int

    @property
    def total(self) -> int:
        """All of it, the shared weights included."""
        return self.weights + self.commands + self.internal + self.inputs + self.outputs

    def __str__(self) -> str:
        parts = ("weights", "commands", "internal", "inputs", "outputs", "total")
        shared = f" (weights shared by {self.weight_users} sessions)" if self.weight_users > 1 else ""
        return ", ".join(f"{name} {getattr(self, name)}" for name in parts) + " bytes" + shared


def memory_report(store: WeightStore, internal: DeviceBuffer | None, programs: Iterable[Program]) -> MemoryReport:
    """Add the buffers up."""
    ends = {"commands": 0, "inputs": 0, "outputs": 0}
    for program in programs:
        ends = {name: ends[name] + size for name, size in program.sizes().items()}
    return MemoryReport(weights=_bytes(store.buffer), internal=_bytes(internal), weight_users=store.users, **ends)


def _bytes(buffer: DeviceBuffer | None) -> int:
    return buffer.array.nbytes if buffer is not None else 0
