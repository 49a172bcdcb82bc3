"""Packages of npm, from the registry that the user's npm has. What comes must have the hash that is known here."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from openrknn.packages.cache import cache_folder, cached, kept
from openrknn.packages.errors import PackageError
from openrknn.packages.unpacking import unpacked_tarball

__all__ = ["fetched_tarball"]

_VARIABLES = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
"""What npm itself listens to."""
_PATIENCE = 60.0
"""Seconds that the other side may be silent."""
_LARGEST = 1 << 29
_PIECE = 1 << 20
_PARTIAL, _NOTHING_LEFT = 206, 416
"""HTTP status codes: a part as asked for, and a range behind the end."""


def fetched_tarball(
    package: str, version: str, integrity: str, progress: Callable[[int, int], None] | None = None
) -> tuple[Path, str]:
    """The files of a package, and where they are from. `integrity` is npm's: "sha512-..." of the tarball.

    A download that was interrupted continues where it stopped: the part stays in the cache until it is complete.
    `progress` gets (bytes, of how many; 0: not known).
    """
    found = cached(package, version)
    if found is not None:
        return found
    name = f"{package.rpartition('/')[2]}-{version}.tgz"
    part = cache_folder() / f".{package.replace('/', '+')}-{version}.tgz.part"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two processes that want the same package: the second finds it
            found = cached(package, version)
            if found is not None:
                return found
            address = f"{_registry(package)}/{package}/-/{name}"
            digest = _download(f"{package} {version}", address, file, progress or (lambda *_: None))
    except OSError as error:
        raise PackageError(f"{part}: cannot be written: {error.strerror or error}") from error
    told = f"sha512-{base64.b64encode(digest).decode()}"
    try:
        if told != integrity:
            raise PackageError(
                f"{package} {version}: the file that came has another hash ({told:.24}...) than it should; try again, "
                "and if it stays so, do not use it"
            )
        origin = f"{package} {version} of npm ({name}, sha512 {digest.hex()[:32]}...)"
        return kept(package, version, origin, lambda half: unpacked_tarball(part, half)), origin
    finally:
        part.unlink(missing_ok=True)


def _download(what: str, address: str, file: BinaryIO, progress: Callable[[int, int], None]) -> bytes:
    """Write the rest of the tarball behind what the file has, and return the SHA-512 of all of it."""
    file.seek(0)
    digest, size = hashlib.sha512(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    wanted: Any = urllib.request.Request(address, headers={"Range": f"bytes={size}-"}) if size else address
    try:
        with urllib.request.urlopen(wanted, timeout=_PATIENCE) as answer:
            if size and getattr(answer, "status", 200) != _PARTIAL:  # all of it comes again
                file.truncate(0)
                digest, size = hashlib.sha512(), 0
            whole = size + int(getattr(answer, "length", 0) or 0)
            while piece := answer.read(_PIECE):
                size += len(piece)
                if size > _LARGEST:
                    raise PackageError(f"{what}: more than {_LARGEST} bytes; not the package it should be")
                digest.update(piece)
                file.write(piece)
                progress(size, whole)
    except urllib.error.HTTPError as error:
        if error.code != _NOTHING_LEFT:  # the part was complete already
            raise _unreachable(what, error) from error
    except (OSError, ValueError) as error:
        raise _unreachable(what, error) from error
    file.flush()
    return digest.digest()


def _unreachable(what: str, error: Exception) -> PackageError:
    reason = getattr(error, "reason", None) or error
    return PackageError(
        f"{what} could not be fetched: {reason!s:.200}. Without a network, copy the package's files to a folder and "
        "give the folder with --source"
    )


def _registry(package: str) -> str:
    """What the environment says, or else npm itself."""
    registry = next((value for name in _VARIABLES if (value := os.environ.get(name))), None) or _asked(package)
    if not registry.startswith(("https://", "http://")):
        raise PackageError(f"npm's registry is {registry!r:.80}, which is no address; see {_VARIABLES[0]}")
    return registry.rstrip("/")


def _asked(package: str) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise PackageError(
            f"{package} is a package of npm, which is not installed here (Debian: apt install npm). Or set "
            f"{_VARIABLES[0]} to the address of a registry, or give a folder with the package's files with --source"
        )
    try:
        done = subprocess.run(
            [npm, "config", "get", "registry"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageError(f"npm could not be asked for its registry: {error}") from error
    return done.stdout.strip()
