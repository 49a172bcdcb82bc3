"""openrknn and what it needs, as pip would install them for another machine and another Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from packing.errors import PackingError

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture, and the wheels' and the kernel's."""
ARCHITECTURES = {machine: name for name, machine in MACHINES.items()}
EXTRAS = ("images", "kubernetes", "serve")
"""What boards and clusters use."""
CONSTRAINTS = "deploy/constraints.txt"
_GLIBC = (17, 24, 26, 27, 28, 31, 34)
"""C libraries that wheels are made for and that Debian 12's, 2.36, is newer than."""


def wheels_in(folder: Path, version: str) -> dict[str, Path]:
    """The native wheels of a folder, by architecture."""
    found = {}
    for architecture, machine in MACHINES.items():
        if paths := sorted(folder.glob(f"openrknn-{version}-*linux*_{machine}.whl")):
            found[architecture] = paths[0]
    if not found:
        machines = " ".join(MACHINES.values())
        raise PackingError(f"{folder} has no native wheel of openrknn {version}: packaging/build {machines}")
    return found


def install(root: Path, wheel: Path, architecture: str, python: str, target: Path) -> None:
    """Fill a folder. Nothing of it is run, so that the other architecture is as good as this one."""
    machine = MACHINES[architecture]
    platforms = [f"{name}_{machine}" for name in (*(f"manylinux_2_{minor}" for minor in _GLIBC), "manylinux2014")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--root-user-action=ignore", "--target", str(target)]
    command += ["--implementation=cp", f"--python-version={python}", *(f"--platform={name}" for name in platforms)]
    command += ["--constraint", str(root / CONSTRAINTS), f"{wheel}[{','.join(EXTRAS)}]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackingError(f"pip cannot get the packages for {machine} and Python {python}:\n{done.stderr[-3000:]}")


def unwanted(path: str) -> bool:
    """Files of an installed package that say how it was installed here, or that only its own tests need."""
    if re.search(r"\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$", path):
        return True
    if "__pycache__" in path.split("/") or path.split("/", maxsplit=1)[0] in ("bin", "share"):
        return True
    return re.match(r"numpy/(.*/)?tests(/|$)", path) is not None
