"""Which package is proved in which roots."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shipping import roots
from shipping.roots import UBUNTU_MIRROR, Root
from shipping.site import ARCHITECTURES


@dataclass(frozen=True)
class Case:
    """One package in one root."""

    kind: str
    package: Path
    root: Root


def kind_of(name: str) -> tuple[str, str] | None:
    """What a file of the folder is, and its architecture in Debian's words ("" for all); None: nothing to prove."""
    if found := re.fullmatch(r"openrknn_(lite|toolkit)-.*-none-any\.whl", name):
        return found[1], ""
    if re.fullmatch(r"openrknn-.*-none-any\.whl", name):
        return "pure", ""
    if found := re.fullmatch(r"openrknn-.*linux.*_(aarch64|x86_64)\.whl", name):
        return "native", ARCHITECTURES[found[1]]
    if re.fullmatch(r"openrknn-.*\.tar\.gz", name):
        return "sdist", ""
    if found := re.fullmatch(r"openrknn_[^_]*\+deb(\d+)_(arm64|amd64)\.deb", name):
        return f"deb{found[1]}", found[2]
    if re.fullmatch(r"openrknn-.*-image\.tar", name):
        return "image", ""
    return None


def cases(packages: Sequence[Path], pythons: Sequence[Path], architectures: Sequence[str]) -> list[Case]:
    """The matrix. Architectures: this machine's first; Pythons of this machine are for this machine's only."""
    here = architectures[0]
    found: list[Case] = []
    for package in packages:
        if (known := kind_of(package.name)) is None:
            continue
        kind, only = known
        chosen = [name for name in architectures if only in ("", name)]
        if kind == "image":
            found += [Case(kind, package, Root("image", name, label="its own")) for name in chosen]
        elif kind.startswith("deb"):
            found += [Case(kind, package, roots.debian(int(kind[3:]), name)) for name in chosen]
        elif kind == "sdist":
            found += [Case(kind, package, roots.debian(12, here, compiler=compiler)) for compiler in (True, False)]
        elif kind in ("lite", "toolkit"):
            found += [Case(kind, package, roots.debian(release, here)) for release in (12, 13)]
        else:
            for name in chosen:
                found += [Case(kind, package, root) for root in _systems(kind, name, here, pythons)]
    return found


def _systems(kind: str, architecture: str, here: str, pythons: Sequence[Path]) -> list[Root]:
    """Where wheels go. Under emulation NumPy alone would take many minutes: the pure wheel is proved natively."""
    if architecture != here:
        if kind == "pure":
            return []
        systems = [roots.debian(12, architecture), roots.debian(13, architecture)]
        systems += _ubuntu(architecture)
        return [roots.unpacked(root) for root in systems]
    systems = [roots.debian(12, here), roots.debian(13, here)]
    systems += _ubuntu(here)
    return systems + [roots.with_python(systems[0], path) for path in pythons]


def _ubuntu(architecture: str) -> list[Root]:
    """Where an archive of it is known. Ubuntu keeps other architectures than amd64 in another one."""
    return [roots.ubuntu("22.04", architecture)] if architecture == "amd64" and os.environ.get(UBUNTU_MIRROR) else []
