"""Debian's packages of another suite and another architecture, fetched and read without installing anything."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from packing.errors import PackingError

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Packages:
    """The packages of one suite for one architecture, with apt's state in a folder of its own. Needs no root."""

    def __init__(self, suite: str, architecture: str, work: Path) -> None:
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise PackingError(f"{tool} is not here: images are made on Debian and its relatives")
        if not _KEYS.exists():
            raise PackingError(f"{_KEYS} is not here; apt install debian-archive-keyring")
        self.work = work
        for name in ("state/lists/partial", "cache/archives/partial"):
            (work / name).mkdir(parents=True, exist_ok=True)
        (work / "status").touch()
        mirror, security = _archives()
        lines = [(mirror, suite), (mirror, f"{suite}-updates"), (security, f"{suite}-security")]
        text = "".join(f"deb [signed-by={_KEYS}] {address} {name} main\n" for address, name in lines)
        (work / "sources.list").write_text(text)
        settings = {
            "APT::Architecture": architecture, "APT::Architectures": architecture, "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "", "Acquire::Languages": "none", "Acquire::Check-Valid-Until": "false",
            "Acquire::Retries": "3", "Dir::State": str(work / "state"), "Dir::State::status": str(work / "status"),
            "Dir::Cache": str(work / "cache"), "Dir::Etc::sourcelist": str(work / "sources.list"),
            "Dir::Etc::sourceparts": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null", "Dir::Log": str(work),
        }  # fmt: skip
        self._options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        self._apt("update")

    def _apt(self, *arguments: str, folder: Path | None = None) -> None:
        command = ["apt-get", "-qq", *self._options, *arguments]
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            command, cwd=folder or self.work, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PackingError(f"apt-get {arguments[0]} failed:\n{done.stderr[-2000:]}")

    def closure(self, names: Sequence[str]) -> list[Path]:
        """The files of these packages and of all that they depend on, sorted."""
        self._apt("install", "--download-only", "--yes", *names)
        return sorted((self.work / "cache/archives").glob("*.deb"))

    def alone(self, names: Sequence[str]) -> list[Path]:
        """The files of these packages without what they depend on, sorted."""
        folder = self.work / "alone"
        folder.mkdir(exist_ok=True)
        self._apt("download", *names, folder=folder)
        return sorted(folder.glob("*.deb"))


def files(package: Path) -> bytes:
    """The tar of a package's files."""
    return _read("--fsys-tarfile", package)


def control(package: Path) -> tuple[str, bytes]:
    """A package's name and its fields."""
    with tarfile.open(fileobj=io.BytesIO(_read("--ctrl-tarfile", package))) as archive:
        source = archive.extractfile("./control")
        text = source.read() if source else b""
    return next(line[9:].strip() for line in text.decode().splitlines() if line.startswith("Package: ")), text


def _read(what: str, package: Path) -> bytes:
    done = subprocess.run(["dpkg-deb", what, str(package)], capture_output=True, check=False)
    if done.returncode:
        raise PackingError(f"dpkg-deb cannot read {package.name}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def _archives() -> tuple[str, str]:
    """Where this machine has Debian's packages and their security updates from, for whichever suite."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    known = [address.rstrip("/") for address in done.stdout.split()]
    plain = next((address for address in known if address.endswith("/debian")), None)
    if plain is None:
        raise PackingError("apt's sources name no archive of Debian: images are made on Debian")
    return plain, next((address for address in known if address.endswith("/debian-security")), f"{plain}-security")
