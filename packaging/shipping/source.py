"""What packages say about the source tree, beside what `packing.sources` reads from it."""

from __future__ import annotations

import re
from pathlib import Path

from packing import sources


def debian_version(version: str, release: int) -> str:
    """A version in Debian's words: 1.0.dev0 and 1.0rc1 come before 1.0, and Debian 13's package after Debian 12's."""
    return re.sub(r"\.?(dev|a|b|rc)(\d+)", r"~\1\2", version) + f"+deb{release}"


def revision(root: Path) -> str:
    """The commit, or nothing outside a clone."""
    return sources.git(root, "rev-parse", "HEAD").strip() if sources.in_git(root) else ""
