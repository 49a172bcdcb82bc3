"""The user's cache and data folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

CACHE_VARIABLE = "OPENRKNN_CACHE"
"""The folder that holds `openrknn/` with everything that can be made again; "off": nothing is kept."""
_OFF = frozenset(("off", "0", "no", "none", "false"))
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(
    *names: str, make: bool = True, may_be_off: bool = True, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """`openrknn/NAMES...` in the user's cache: $OPENRKNN_CACHE, else $XDG_CACHE_HOME, else ~/.cache.

    None where nothing may or can be kept: the variable says "off" (unless `may_be_off` is False: downloads that are
    costly to repeat), there is no home, the disk cannot be written, or the folder is a link, another user's, or can be
    written by others. New folders are private (mode 0700). With `make=False` a folder that is not there is None.
    """
    base = cache_base(environment, may_be_off)
    if base is None:
        return None
    try:
        if make:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = base
        for name in ("openrknn", *names):
            folder = folder / name
            if make:
                folder.mkdir(mode=0o700, exist_ok=True)
            if not is_private(folder):
                return None
    except (OSError, ValueError):
        return None
    return folder


def cache_base(environment: Mapping[str, str] = os.environ, may_be_off: bool = True) -> Path | None:
    """The folder above `openrknn/`, which may not be there yet; None where the cache is off or there is no home."""
    chosen = environment.get(CACHE_VARIABLE, "")
    if chosen.lower() in _OFF:
        if may_be_off:
            return None
        chosen = ""
    # A relative path would be another folder after each chdir; the XDG specification says to ignore such values.
    for value in (chosen, environment.get("XDG_CACHE_HOME", "")):
        if value and os.path.isabs(value):
            return Path(value)
    home = _home(environment)
    # With sudo, HOME may be another user's: folders of root do not belong there.
    return home / ".cache" if home is not None and _owner(home) == os.geteuid() else None


def data_folder(*names: str, environment: Mapping[str, str] = os.environ) -> Path:
    """`openrknn/NAMES...` in $XDG_DATA_HOME or ~/.local/share; it is not made."""
    chosen = environment.get("XDG_DATA_HOME", "")
    base = Path(chosen) if os.path.isabs(chosen) else (_home(environment) or Path("/")) / ".local" / "share"
    return base.joinpath("openrknn", *names)


def is_private(folder: Path) -> bool:
    """Whether it is a folder, not a link, that belongs to this user and that others cannot write."""
    try:
        found = folder.lstat()
    except (OSError, ValueError):
        return False
    mine = found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS
    return mine and stat.S_ISDIR(found.st_mode)


def _home(environment: Mapping[str, str]) -> Path | None:
    value = environment.get("HOME", "")
    if not value:
        try:
            value = str(Path.home())
        except RuntimeError:  # no HOME and no entry in the list of users
            return None
    return Path(value) if os.path.isabs(value) else None


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except (OSError, ValueError):
        return None
