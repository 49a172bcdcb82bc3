"""Copies of the vendor's library."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity

__all__ = ["check_libraries"]


def check_libraries(facts: Facts) -> Iterator[Finding]:
    """Which there are, and whether they contradict each other."""
    for library in facts.libraries:
        text = f"{library.path}: {library.name} {library.version or 'of unknown version'}"
        # Whether it can be loaded is a question for the machine that it is on.
        problem = library.problem if facts.is_this_machine else None
        yield Finding("library", Severity.OK, text + (f" ({problem})" if problem else ""))
    for name in ("librknnrt", "librknnmrt"):
        copies = [library for library in facts.libraries if library.name == name and library.version]
        versions = sorted({library.version for library in copies if library.version})
        if len(versions) > 1:
            listed = ", ".join(f"{library.version} in {library.path}" for library in copies)
            yield Finding(
                "several-libraries",
                Severity.WARNING,
                f"copies of {name} in different versions: {listed}",
                "which one a program takes depends on its search path; an old one refuses new models "
                '("Invalid RKNN model version 6")',
                (f"keep the newest ({versions[-1]}) and remove the others, or name it: OPENRKNN_LIBRARY=...",),
                "airockchip/rknn-toolkit2#281",
            )
