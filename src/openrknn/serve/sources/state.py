"""The state of a mirror: what each of its files is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openrknn.backports import file_digest
from openrknn.serve.sources.address import relative_path
from openrknn.serve.sources.errors import CacheError
from openrknn.wholefiles import write_atomically

__all__ = ["HALF", "LOCK", "STATE", "Kept", "locked", "matching", "read_state", "write_state"]

_LOG = logging.getLogger(__name__)
STATE, LOCK, HALF = ".state.json", ".lock", ".half-"
_STATE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """One file of the mirror."""

    tag: str
    size: int
    sha256: str
    is_promised: bool = False
    """Whether the address, a list, the storage or a .sha256 said what it would be."""


def write_state(folder: Path, state: Mapping[str, Kept], coming: Mapping[str, Kept] | None = None) -> None:
    """Replace it; while files are being renamed, it names what was there and what is coming."""
    names = {*state, *(coming or {})}
    pages = (state, coming) if coming is not None else (state,)
    content = {name: [asdict(page[name]) for page in pages if name in page] for name in sorted(names)}
    try:
        write_atomically(folder / STATE, json.dumps(content), mode=0o600, half=HALF)
    except OSError as error:
        raise CacheError(f"{folder} cannot be written: {error}") from None


def read_state(folder: Path) -> dict[str, list[Kept]]:
    """What each file may be; nothing where the state is damaged."""
    try:
        with (folder / STATE).open("rb") as file:
            content: Any = json.loads(file.read(_STATE_BYTES))
        return {
            name: [
                Kept(str(one["tag"]), int(one["size"]), str(one["sha256"]), one["is_promised"] is True) for one in all_
            ]
            for name, all_ in content.items()
            if relative_path(name) == name
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _LOG.warning("%s is damaged (%s): the models are fetched again", folder / STATE, error)
        return {}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Exclusive access to the mirror."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CacheError(f"{folder} cannot be written: {error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def matching(path: Path, known: Sequence[Kept]) -> Kept | None:
    """What the file is, of all that it may be; None: something else."""
    if not known or path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest = file_digest(file, "sha256").hex()
    except OSError:
        return None
    return next((one for one in known if (one.size, one.sha256) == (size, digest)), None)
