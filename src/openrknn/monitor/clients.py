"""Which processes have a device node open: /proc shows it, for one's own processes or, as root, for all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from openrknn.monitor import files
from openrknn.monitor.reading import Client

__all__ = ["clients"]


def clients(root: Path, nodes: Collection[str]) -> tuple[Client, ...]:
    """One entry per process and node, in the order of process numbers."""
    found: list[Client] = []
    for name in sorted((name for name in files.listed(root, "/proc") if name.isdigit()), key=int) if nodes else ():
        folder = f"/proc/{name}"
        for node in sorted(set(_open_files(root, folder)) & set(nodes)):
            command = (files.text(root, f"{folder}/comm") or "?").strip()
            found.append(Client(int(name), command, _owner(root, folder), node))
    return tuple(found)


def _open_files(root: Path, folder: str) -> Iterator[str]:
    for name in files.listed(root, f"{folder}/fd"):
        try:
            yield os.readlink(files.below(root, f"{folder}/fd/{name}"))
        except OSError:  # closed in between
            continue


def _owner(root: Path, folder: str) -> int | None:
    try:
        return files.below(root, folder).stat().st_uid
    except OSError:
        return None
