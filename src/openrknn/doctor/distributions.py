"""Python packages that matter, from the names of their dist-info folders; and what a wheel's name promises."""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from openrknn.doctor.libraries import python_folders

__all__ = ["Distribution", "find_distributions", "needed_tag", "wheel_problem"]

_NAMES = frozenset({"rknn_toolkit_lite2", "rknn_toolkit2", "numpy", "openrknn", "openrknn_lite", "openrknn_toolkit"})
_INFO = re.compile(r"([A-Za-z0-9_.]+)-([^-]+)\.dist-info")
_STAND_IN = "+openrknn"
"""openrknn-lite and openrknn-toolkit also go by the vendor's names, with such versions: they are not the vendor's."""
_WHEEL = re.compile(r"[^-]+-[^-]+(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl")


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package."""

    name: str
    version: str
    folder: str


def find_distributions(root: Path) -> tuple[Distribution, ...]:
    """Those that matter, once per folder."""
    found: dict[tuple[str, Path], Distribution] = {}
    for folder in python_folders(root):
        for entry in sorted(folder.glob("*.dist-info")):
            match = _INFO.fullmatch(entry.name)
            name = match[1].lower().replace("-", "_").replace(".", "_") if match else ""
            if match and name in _NAMES and not match[2].endswith(_STAND_IN):
                place = "/" + str(folder.relative_to(root))
                found.setdefault((name, folder.resolve()), Distribution(name, match[2], place))
    return tuple(found.values())


def needed_tag() -> str:
    """The tag of a binary wheel that fits this Python: "cp311-cp311-*_aarch64"."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-*_{sysconfig.get_platform().rpartition('-')[2]}"


def wheel_problem(name: str) -> str | None:
    """Why pip calls a wheel "not a supported wheel on this platform"; None if its name fits."""
    match = _WHEEL.fullmatch(name)
    if not match:
        return "its name is not that of a wheel (NAME-VERSION-PYTHON-ABI-PLATFORM.whl); do not rename wheels"
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    machine = sysconfig.get_platform().rpartition("-")[2]
    if match["python"] not in {python, "py3", "py2.py3"} and match["abi"] != "abi3":
        return f"it is for Python {_readable(match['python'])}, and this is Python {_readable(python)}"
    if match["platform"] != "any" and machine not in match["platform"]:
        return f"it is for {match['platform'].split('.')[0]}, and this machine is {machine}"
    return None


def _readable(tag: str) -> str:
    digits = tag.removeprefix("cp").removeprefix("py")
    return f"{digits[:1]}.{digits[1:]}" if len(digits) > 1 else digits
