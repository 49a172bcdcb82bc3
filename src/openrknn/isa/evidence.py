"""Where a fact of the register table comes from: one letter per kind of source."""

from __future__ import annotations

from openrknn.isa.errors import DeclarationError

__all__ = ["GRADES", "check_evidence"]

GRADES = {
    "S": "silicon: with this rule the software NPU gives what a board is publicly recorded to have given",
    "E": "established: a model with this rule reproduces the vendor's simulator or an exact integer model",
    "T": "stated by the public RK3588 technical reference manual",
    "M": "taken from Mesa's register description or driver",
    "K": "taken from the rknpu kernel driver",
    "I": "inferred: the same model compiled for this chip and for RK3588, compared command by command",
    "?": "open: seen or named, but its effect is unknown",
}
"""The grades. A register or field carries one or more of these letters, the strongest first."""


def check_evidence(evidence: str) -> str:
    """Return `evidence` if it consists of known grades, else raise `DeclarationError`."""
    if not all(grade in GRADES for grade in evidence):
        raise DeclarationError(f"evidence {evidence!r} has a grade that is none of {' '.join(GRADES)}")
    return evidence
