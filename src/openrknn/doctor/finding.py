"""One thing that the doctor has to say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from openrknn.backports import StrEnum

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """How bad it is, from good to bad."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What, why it matters, and what to do."""

    code: str
    """A stable name: "node-no-permission"."""
    severity: Severity
    what: str
    why: str = ""
    fix: tuple[str, ...] = ()
    """Lines; those that begin with "$ " are commands."""
    source: str = ""
    """Where others met it: "rockchip-linux/rknn-toolkit2#244"."""

    def as_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {**asdict(self), "severity": str(self.severity), "fix": list(self.fix)}
