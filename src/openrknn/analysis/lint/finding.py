"""One thing that lint has to say: what, where, why it matters on a board, and what to change."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from openrknn.analysis.reports import Severity

__all__ = ["Finding", "Severity", "Where"]


@dataclass(frozen=True, slots=True)
class Where:
    """A place in the model; what does not apply is empty."""

    operator: int | None = None
    """Index in the graph."""
    operator_type: str = ""
    operator_name: str = ""
    tensor: str = ""
    task: int | None = None
    register: str = ""

    def __str__(self) -> str:
        """ "#6 ConvAdd, 'image', task 7, RDMA_EW_BASE_ADDR"."""
        parts = [f"#{self.operator} {self.operator_type}".rstrip() if self.operator is not None else ""]
        parts += [repr(self.tensor) if self.tensor else "", f"task {self.task}" if self.task is not None else ""]
        return ", ".join(filter(None, (*parts, self.register)))


@dataclass(frozen=True, slots=True)
class Finding:
    """What `openrknn lint` prints one of."""

    code: str
    """Stable name: "layout-mismatch"; `openrknn lint --explain CODE` says more."""
    severity: Severity
    where: Where = field(default_factory=Where)
    what: str = ""
    why: str = ""
    """Why it matters on a board."""
    change: str = ""
    """What to change in the network or in the conversion."""

    def as_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {**asdict(self), "severity": str(self.severity)}
