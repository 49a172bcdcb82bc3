"""Python packages of the vendor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from openrknn.doctor.checks.driver import version_numbers
from openrknn.doctor.distributions import needed_tag, wheel_problem
from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity

__all__ = ["check_python", "check_wheel"]

_LAST_WITH_OLD_NUMPY = (2, 3, 2)
"""The newest toolkit whose own list of requirements says numpy <= 1.26.4."""


def check_python(facts: Facts) -> Iterator[Finding]:
    """lite2 beside a NumPy that it does not know."""
    lite = facts.distribution("rknn_toolkit_lite2")
    if lite is None:
        return
    beside = [found for found in facts.distributions if found.folder == lite.folder]
    numpy = next((found for found in beside if found.name == "numpy"), None)
    yield Finding("lite2", Severity.OK, f"rknn-toolkit-lite2 {lite.version} in {lite.folder}")
    if numpy and version_numbers(numpy.version) >= (2,) and version_numbers(lite.version) <= _LAST_WITH_OLD_NUMPY:
        yield Finding(
            "numpy-abi",
            Severity.ERROR,
            f"rknn-toolkit-lite2 {lite.version} and numpy {numpy.version} are installed together",
            'it was built for NumPy 1: "numpy.dtype size changed, may indicate binary incompatibility"',
            ('$ pip install "numpy<2"', "or use openrknn's drop-in rknnlite, which works with any NumPy"),
            "koush/scrypted#1500",
        )
    if not any(library.name == "librknnrt" for library in facts.libraries):
        yield Finding(
            "lite2-without-library",
            Severity.ERROR,
            "rknn-toolkit-lite2 is installed, and librknnrt.so is not",
            "the wheel does not bring the library; it wants /usr/lib/librknnrt.so",
            (
                "install librknnrt.so of the same version to /usr/lib, or use openrknn, which does not need it",
                "openrknn's own takes its place: sudo openrknn library --install /usr",
            ),
            "airockchip/rknn-toolkit2#33",
        )


def check_wheel(path: Path) -> Iterator[Finding]:
    """A wheel that pip refuses."""
    problem = wheel_problem(path.name)
    if problem is None:
        yield Finding("wheel", Severity.OK, f"{path.name} fits this Python ({needed_tag()})")
        return
    tools = "rknn-toolkit2 converts models on a computer, rknn-toolkit-lite2 runs them on a board"
    yield Finding(
        "wheel-tag",
        Severity.ERROR,
        f"pip will say \"{path.name} is not a supported wheel on this platform\": {problem}",
        f"a wheel fits one version of Python and one processor; {tools}",
        (f"take the file whose name ends in {needed_tag()}.whl",),
        "airockchip/rknn-toolkit2#191",
    )
