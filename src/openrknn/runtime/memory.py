"""How much device memory a session takes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MemoryReport"]


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
