"""Versions of the vendor's library, and where to read them without calling it.

The library has no function that tells its version before a model is loaded, but structs differ from version to
version. So the version is read from the file: every librknnrt and librknnmrt carries the text that it prints at start,
"librknnrt version: 1.5.2 (c6b7b351a@2023-08-23T15:28:22)".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ABI_VARIABLE = "OPENRKNN_ABI"
"""Which version's structs openrknn's own library takes from programs, if not the newest."""

_TEXT = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-.]?(?:beta|b)(\d{0,4}))?")
_IN_FILE = re.compile(rb"librknnm?rt version: ?([0-9][^ \0\n]{1,30})")
_OPEN = re.compile(_IN_FILE.pattern + rb" \(openrknn ")
_BETA_RANK = -10_000
_FINAL = 0


class Version(NamedTuple):
    """A version that compares as one expects: 2.0.0-beta0 comes before 2.0.0."""

    major: int
    minor: int
    patch: int = 0
    rank: int = _FINAL
    """0 for a release; beta N has a negative number."""

    @classmethod
    def parse(cls, text: str) -> Version:
        """From any of the ways in which the vendor writes it: "2.0.0b0 (35a6907d79@...)", "v2.0.0-beta0", "1.5.2"."""
        match = _TEXT.match(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a version such as '1.5.2' or '2.0.0b0'")
        major, minor, patch, beta = match.groups()
        rank = _FINAL if beta is None else _BETA_RANK + int(beta or 0)
        return cls(int(major), int(minor), int(patch or 0), rank)

    def __str__(self) -> str:
        beta = f"-beta{self.rank - _BETA_RANK}" if self.rank != _FINAL else ""
        return f"{self.major}.{self.minor}.{self.patch}{beta}"


KNOWN_VERSIONS: tuple[Version, ...] = tuple(
    Version.parse(text)
    for text in ("1.3.0", "1.4.0", "1.5.0", "1.5.2", "1.6.0", "2.0.0b0", "2.1.0", "2.2.0", "2.3.0", "2.3.2", "2.5.0")
)
"""The versions whose structs and functions the tables of this package describe."""


def version_in_file(path: Path) -> Version | None:
    """The version that the library would print; None if the text is not in the file."""
    text = _found(path, _IN_FILE)
    try:
        return Version.parse(text)
    except ValueError:
        return None


def is_open_library(path: Path) -> bool:
    """Whether the file is openrknn's own library and not the vendor's."""
    return bool(_found(path, _OPEN))


def _found(path: Path, pattern: re.Pattern[bytes]) -> str:
    import mmap

    with open(path, "rb") as stream:
        if stream.seek(0, 2) == 0:
            return ""
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            match = pattern.search(content)
            return match[1].decode("ascii", "replace") if match else ""
