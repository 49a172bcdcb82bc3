"""Paths that lead elsewhere for the programs of one `exec`, on the machine's real devices: no server is needed.

    FOLDER/paths       which paths (native/preload/paths.c reads it)
    FOLDER/root/...    a link for each
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from openrknn.fakekernel.c_header import version

__all__ = ["make_links"]


def make_links(folder: Path, links: Mapping[str, Path]) -> None:
    """Programs that are started with OPENRKNN_EMULATED=`folder` find `links[path]` at `path`."""
    root = folder / "root"
    for path, target in links.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    lines = [f"version {version():08x}", f"root {root}", *(f"prefix {path}" for path in links)]
    (folder / "paths").write_text("\n".join(lines) + "\n")
