"""An arm64 system for the guest from Debian's packages: Python, NumPy, what openrknn needs, and Mesa's NPU driver.

The packages are only unpacked: none of their scripts runs, so it needs neither root nor an arm64 machine. What those
scripts would have done and programs need is done here: the links of Debian's alternatives.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from openrknn.board.debian import Debian
from openrknn.errors import DeviceError

__all__ = ["PACKAGES", "add_links", "make_root"]

PACKAGES = ("bash", "coreutils", "python3", "python3-numpy", "python3-rich", "mesa-teflon-delegate")
_ARCHITECTURE = "arm64"
_LIBRARIES = "usr/lib/aarch64-linux-gnu"
_LINKS = {
    f"{_LIBRARIES}/libblas.so.3": "blas/libblas.so.3",
    f"{_LIBRARIES}/liblapack.so.3": "lapack/liblapack.so.3",
    "usr/bin/awk": "mawk",
    "usr/bin/sh": "bash",
}
"""What Debian's alternatives would choose, where nothing else is there."""


def make_root(folder: Path, mirror: str, say: Callable[[str], None]) -> None:
    """Make it in a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DeviceError(f"{folder} is not empty; name a new folder with --root")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-packages-") as work:
        debian = Debian(Path(work), mirror, _ARCHITECTURE)
        say("fetching the lists of Debian's packages")
        debian.update()
        packages = debian.with_all_needed(*PACKAGES)
        say(f"{len(packages)} packages")
        debian.unpack(packages, folder)
    add_links(folder)


def add_links(folder: Path) -> None:
    """Those of the alternatives, to what is there."""
    for name, target in _LINKS.items():
        path = folder / name
        if (path.parent / target).exists() and not path.exists() and not path.is_symlink():
            path.symlink_to(target)
