"""Copies of the vendor's library, and of openrknn's replacement."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.doctor.libraries import Library

__all__ = ["check_libraries"]


def check_libraries(facts: Facts) -> Iterator[Finding]:
    """Which there are, and whether they contradict each other."""
    for library in facts.libraries:
        who = "openrknn's own" if library.is_open else "the vendor's"
        text = f"{library.path}: {who} {library.name} {library.version or 'of unknown version'}"
        # Whether it can be loaded is a question for the machine that it is on.
        problem = library.problem if facts.is_this_machine else None
        yield Finding("library", Severity.OK, text + (f" ({problem})" if problem else ""))
    for name in ("librknnrt", "librknnmrt"):
        found = [library for library in facts.libraries if library.name == name and library.version]
        copies = [library for library in found if not library.is_open]
        if 0 < len(copies) < len(found):
            yield _both(found)
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


def _both(found: list[Library]) -> Finding:
    listed = ", ".join(f"{'openrknn' if library.is_open else 'the vendor'}'s in {library.path}" for library in found)
    return Finding(
        "both-libraries",
        Severity.NOTE,
        f"two kinds of {found[0].name}: {listed}",
        "which one a program takes depends on its search path",
        ("openrknn's for one program: openrknn exec --open -- PROGRAM",),
    )
