"""What a virtual board needs that is no part of this package: a kernel, its modules, a shell, QEMU.

`openrknn board setup` makes them from Debian's packages, in a folder of the user's cache. Nothing of it is in this
package: the kernel, its drivers and the shell are under the GPL.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from openrknn.errors import DeviceError
from openrknn.folders import cache_folder

__all__ = [
    "FOLDER_VARIABLE", "BoardFiles", "check_version", "default_folder", "find_files", "in_load_order", "module_named",
]  # fmt: skip

FOLDER_VARIABLE = "OPENRKNN_BOARD"
"""The folder of `openrknn board setup`, if it is not in the cache."""
KERNEL, SHELL, MODULES = "vmlinuz", "busybox", "modules"
_VERSION = re.compile(rb"vermagic=([^\0]*)\0")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class BoardFiles:
    """Paths of one kernel and what belongs to it."""

    folder: Path
    kernel: Path
    shell: Path
    """A busybox that needs no libraries."""
    modules: dict[str, Path]
    """Name of a module -> its file."""


def default_folder() -> Path | None:
    """Where `setup` puts the files and `run` looks for them."""
    chosen = os.environ.get(FOLDER_VARIABLE, "")
    return Path(chosen) if chosen else cache_folder("board", make=False, may_be_off=False)


def find_files(folder: Path | None = None) -> BoardFiles:
    """The files in a folder, or in the default one."""
    folder = folder or default_folder()
    missing = _missing(folder)
    if folder is None or missing:
        where = f"{folder} has no {missing}" if folder is not None else "the cache has no files of a board"
        raise DeviceError(f"{where}; `openrknn board setup` makes them from Debian's packages")
    modules = {_name(path): path for path in sorted((folder / MODULES).glob("*.ko"))}
    return BoardFiles(folder, folder / KERNEL, folder / SHELL, modules)


def module_named(name: str, files: BoardFiles) -> Path:
    """A module that `setup` makes."""
    if name not in files.modules:
        raise DeviceError(f"{files.folder} has no module {name!r}; `openrknn board setup` makes it")
    return files.modules[name]


def in_load_order(wanted: list[Path], known: dict[str, Path]) -> list[Path]:
    """Modules with all that they need, each after what it needs."""
    by_name = {**known, **{_name(path): path for path in wanted}}
    order: dict[str, None] = {}
    for path in wanted:
        _add(_name(path), by_name, order, ())
    return [by_name[name] for name in order]


def check_version(module: Path, files: BoardFiles) -> None:
    """A module of another kernel is refused: the kernel would not load it, and the program would find no driver."""
    found = _version(module)
    others = {_version(path) for path in files.modules.values()} - {""}
    if found and others and found not in others:
        advice = "build it against the headers of `openrknn board setup --keep`"
        raise DeviceError(f"{module} is for Linux {found}; {files.folder} has {', '.join(sorted(others))}: {advice}")


def _version(module: Path) -> str:
    found = _VERSION.search(module.read_bytes())
    return found[1].decode(errors="replace").strip() if found else ""


def _add(name: str, known: dict[str, Path], order: dict[str, None], above: tuple[str, ...]) -> None:
    if name in order:
        return
    if name in above:
        raise DeviceError(f"the modules {', '.join(above)} need each other")
    if name not in known:
        wanted = f", which {above[-1]} needs" if above else ""
        raise DeviceError(f"there is no module {name!r}{wanted}; `openrknn board setup` makes those of rocket")
    for needed in _needs(known[name]):
        _add(needed, known, order, (*above, name))
    order[name] = None


def _needs(path: Path) -> list[str]:
    found = _DEPENDS.search(path.read_bytes())
    if found is None:
        raise DeviceError(f"{path} is no kernel module")
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name]


def _name(path: Path) -> str:
    return path.stem.replace("-", "_")


def _missing(folder: Path | None) -> str:
    if folder is None or not folder.is_dir():
        return "files of a board"
    return next((name for name in (KERNEL, SHELL, MODULES) if not (folder / name).exists()), "")
