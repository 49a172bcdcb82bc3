"""What packages say about the source tree, beside what `packing.sources` reads from it."""

from __future__ import annotations

import re
from pathlib import Path

from packing import sources
from packing.errors import PackingError


def debian_version(version: str, release: int) -> str:
    """A version in Debian's words: 1.0.dev0 and 1.0rc1 come before 1.0, and Debian 13's package after Debian 12's."""
    return re.sub(r"\.?(dev|a|b|rc)(\d+)", r"~\1\2", version) + f"+deb{release}"


def homepage(root: Path) -> str:
    """The project's address, from pyproject.toml; Python 3.10 has no reader of TOML."""
    text = (root / "pyproject.toml").read_text("utf-8")
    found = re.search(r'^Repository *= *"([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise PackingError(f"{root / 'pyproject.toml'} has no Repository in [project.urls]")
    return found[1]


def revision(root: Path) -> str:
    """The commit, or nothing outside a clone."""
    return sources.git(root, "rev-parse", "HEAD").strip() if sources.in_git(root) else ""
