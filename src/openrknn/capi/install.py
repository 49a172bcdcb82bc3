"""Puts the library where compilers and programs look for it, and takes it away again.

    PREFIX/lib/librknnrt.so, librknnmrt.so            the library under its two names
    PREFIX/lib/librkllmrt.so                          the library for language models
    PREFIX/lib/openrknn-engine                        what the library starts: the engine of this installation
    PREFIX/lib/pkgconfig/librknnrt.pc                 cc prog.c $(pkg-config --cflags --libs librknnrt)
    PREFIX/lib/cmake/rknnrt/rknnrtConfig.cmake        find_package(rknnrt), target rknnrt::rknnrt
    PREFIX/include/rknn_api.h ..., rkllm.h            the headers

Each of these files has the word "openrknn" in it; a file of the same name without it is somebody else's, most likely
the vendor's, and is not touched unless that is asked for. The configuration files say nothing of PREFIX, so that a
package can be moved. All files are written beside their places first and then renamed: either all of them are new, or
none was touched.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from openrknn.capi.parts import (
    API_VERSION,
    HEADERS,
    LLM_HEADER,
    LLM_NAME,
    NAMES,
    engine_command,
    header_path,
    library_for,
)  # fmt: skip
from openrknn.errors import RknnError
from openrknn.fakekernel.preload import host_machine

_MARK = b"openrknn"
_ENGINE = "lib/openrknn-engine"
_LIBRARY = f"lib/{NAMES[0]}"
_PROGRAM, _DATA = 0o755, 0o644

_PKG_CONFIG = """\
# openrknn's librknnrt.so; see docs/library.md of openrknn.
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: librknnrt
Description: RKNN C API, openrknn's open implementation
Version: {version}
Libs: -L${{libdir}} -lrknnrt
Cflags: -I${{includedir}}
"""
_CMAKE = """\
# openrknn's librknnrt.so as the imported target rknnrt::rknnrt.
if(NOT TARGET rknnrt::rknnrt)
  get_filename_component(_rknnrt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(rknnrt::rknnrt SHARED IMPORTED)
  set_target_properties(rknnrt::rknnrt PROPERTIES
    IMPORTED_LOCATION "${_rknnrt_prefix}/lib/librknnrt.so"
    IMPORTED_SONAME "librknnrt.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_rknnrt_prefix}/include")
  unset(_rknnrt_prefix)
endif()
"""
_CMAKE_VERSION = """\
# openrknn: any version of the C API up to this one is here.
set(PACKAGE_VERSION "{version}")
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""
_STARTER = """\
#!/bin/sh
# openrknn: librknnrt.so in this folder starts its engine with it.
{variables}exec {command} "$@"
"""


class InstallError(RknnError):
    """Nothing was changed; the message says why and what to do."""


@dataclass(frozen=True)
class Installed:
    """What was done."""

    prefix: Path
    written: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()
    """Files of our names that are not ours."""


@dataclass(frozen=True)
class _File:
    path: Path
    content: bytes = b""
    mode: int = _DATA
    link: str = ""


def is_ours(path: Path) -> bool:
    """Whether a file was written by openrknn; a link to nowhere of our own name counts as ours."""
    try:
        return _MARK in path.read_bytes()
    except FileNotFoundError:
        return path.is_symlink() and os.readlink(path) == NAMES[0]


def install(prefix: Path, *, force: bool = False, machine: str | None = None, engine: str = "") -> Installed:
    """Write all files. `engine` is the program that starts the engine, if not this Python."""
    prefix = prefix.expanduser().absolute()
    files = list(_files(prefix, machine, engine))
    if not force:
        _refuse_foreign([file.path for file in files])
    staged: list[tuple[Path, Path]] = []
    try:
        for file in files:
            staged.append((_staged(file), file.path))
    except OSError as error:
        raise InstallError(_os_problem(error, prefix)) from error
    else:
        while staged:
            temporary, path = staged[0]
            os.replace(temporary, path)
            del staged[0]
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink()
    return Installed(prefix, written=tuple(file.path for file in files))


def uninstall(prefix: Path) -> Installed:
    """Remove what `install` wrote, and the folders that are empty then; what is not ours stays."""
    prefix = prefix.expanduser().absolute()
    there = [path for path in map(prefix.joinpath, _names()) if path.is_symlink() or path.exists()]
    # The link first: it is known by what it leads to.
    ours = [path for path in sorted(there, key=lambda path: not path.is_symlink()) if is_ours(path)]
    if not ours:
        raise InstallError(f"{prefix}: nothing of openrknn's library is installed there")
    try:
        for path in ours:
            path.unlink()
        for folder in ("lib/cmake/rknnrt", "lib/cmake", "lib/pkgconfig", "lib", "include"):
            with contextlib.suppress(OSError):
                (prefix / folder).rmdir()
    except OSError as error:
        raise InstallError(_os_problem(error, prefix)) from error
    return Installed(prefix, removed=tuple(sorted(ours)), left=tuple(path for path in there if path not in ours))


# ---------------------------------------------------------------- what goes where


def _names() -> Iterator[str]:
    yield from (f"lib/{name}" for name in (*NAMES, LLM_NAME))
    yield _ENGINE
    yield "lib/pkgconfig/librknnrt.pc"
    yield from (f"lib/cmake/rknnrt/rknnrtConfig{part}.cmake" for part in ("", "Version"))
    yield from (f"include/{name}" for name in (*HEADERS, LLM_HEADER))


def _files(prefix: Path, machine: str | None, engine: str) -> Iterator[_File]:
    yield _File(prefix / _LIBRARY, library_for(machine).read_bytes(), _PROGRAM)
    yield _File(prefix / "lib" / NAMES[1], link=NAMES[0])
    yield _File(prefix / "lib" / LLM_NAME, library_for(machine, LLM_NAME).read_bytes(), _PROGRAM)
    starter = _starter(engine, machine)
    if starter:  # for another machine nobody here knows where its Python is: the library looks on PATH
        yield _File(prefix / _ENGINE, starter.encode(), _PROGRAM)
    yield _File(prefix / "lib/pkgconfig/librknnrt.pc", _PKG_CONFIG.format(version=API_VERSION).encode())
    yield _File(prefix / "lib/cmake/rknnrt/rknnrtConfig.cmake", _CMAKE.encode())
    version = _CMAKE_VERSION.format(version=API_VERSION).encode()
    yield _File(prefix / "lib/cmake/rknnrt/rknnrtConfigVersion.cmake", version)
    for name in (*HEADERS, LLM_HEADER):
        yield _File(prefix / "include" / name, header_path(name).read_bytes())


def _starter(engine: str, machine: str | None) -> str:
    if engine:
        return _STARTER.format(variables="", command=engine)
    if machine not in {None, host_machine()}:
        return ""
    return _STARTER.format(variables=_variables(), command=shlex.join(engine_command()))


def _variables() -> str:
    """PYTHONPATH, if it is what makes this Python find the package."""
    value = os.environ.get("PYTHONPATH", "")
    places = {os.path.realpath(place) for place in value.split(os.pathsep) if place}
    package = sys.modules["openrknn"].__file__ or ""
    if os.path.dirname(os.path.dirname(os.path.realpath(package))) not in places:
        return ""
    return f"PYTHONPATH={shlex.quote(value)}${{PYTHONPATH:+:$PYTHONPATH}}\nexport PYTHONPATH\n"


# ---------------------------------------------------------------- writing


def _refuse_foreign(paths: Iterable[Path]) -> None:
    foreign = [path for path in paths if (path.is_symlink() or path.exists()) and not _is_ours_or_unreadable(path)]
    if foreign:
        listed = ", ".join(map(str, foreign))
        them = "it is" if len(foreign) == 1 else "they are"
        raise InstallError(
            f"{listed}: {them} not openrknn's (the vendor's?), so nothing was changed; "
            "choose another prefix, or replace with --force"
        )


def _is_ours_or_unreadable(path: Path) -> bool:
    try:
        return is_ours(path)
    except OSError:
        return False


def _staged(file: _File) -> Path:
    """The file under another name beside its place."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    if file.path.is_dir() and not file.path.is_symlink():
        raise IsADirectoryError(21, "is a folder", str(file.path))
    handle, name = tempfile.mkstemp(prefix=f".{file.path.name}.", dir=file.path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(file.content)
            os.fchmod(handle, file.mode)
        if file.link:
            temporary.unlink()
            temporary.symlink_to(file.link)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _os_problem(error: OSError, prefix: Path) -> str:
    what = f"{error.filename or prefix}: {error.strerror}"
    if isinstance(error, PermissionError):
        return f"{what}; nothing was changed; run it as root, or choose a folder of your own, such as ~/.local"
    return f"{what}; nothing was changed; --install takes a folder, such as /usr/local or ~/.local"
