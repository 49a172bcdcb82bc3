"""`Entry`: one version of a model in the table of the repository."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.plane.index import Stamp
from openrknn.serve.plane.served import Served

__all__ = ["Entry"]


@dataclass(slots=True)
class Entry:
    """One version of a model, loaded or not."""

    name: str
    version: int
    state: str = "UNAVAILABLE"
    """LOADING, READY, UNLOADING or UNAVAILABLE."""
    reason: str = ""
    served: Served | None = field(default=None, repr=False)
    stamp: Stamp | None = None

    def as_json(self) -> dict[str, Any]:
        problem = self.served.problem if self.served is not None else ""
        state, reason = ("UNAVAILABLE", problem) if problem else (self.state, self.reason)
        return {"name": self.name, "version": str(self.version), "state": state, "reason": reason}
