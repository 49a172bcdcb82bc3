"""Packages of Debian, fetched by apt and unpacked into a folder: nothing is installed, none of their scripts is run.

apt works here with a configuration of its own: it sees Debian's unstable suite only, and knows of no installed package,
so that it names everything that a package needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from openrknn.errors import DeviceError

__all__ = ["Debian", "system_mirror"]

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SUITE = "sid"
_PROGRAMS = ("apt-get", "apt-cache", "dpkg", "dpkg-deb")
_FORMAT = "$(ORIGIN) $(REPO_URI)"
_CONFIGURATION = """
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "{folder}/state";
Dir::State::Lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Architecture "{architecture}";
APT::Architectures {{ {architectures} }};
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
"""


def system_mirror() -> str:
    """The mirror of Debian that this system uses; empty if it uses none."""
    if shutil.which("apt-get") is None:
        return ""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    for line in listed.stdout.splitlines():
        origin, _, address = line.partition(" ")
        if origin == "Debian" and "security" not in address:
            return address
    return ""


class Debian:
    """Packages of one mirror, for this machine's architecture or for another one."""

    def __init__(self, folder: Path, mirror: str, architecture: str = "") -> None:
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise DeviceError(f"there is no {missing[0]}; this step needs Debian, Ubuntu or a container of one")
        if not _KEYRING.exists():
            raise DeviceError(f"there is no {_KEYRING}; install the package debian-archive-keyring")
        self.architecture = architecture or _output(["dpkg", "--print-architecture"]).strip()
        self._folder = folder.absolute()
        self._packages = self._folder / "packages"
        self._packages.mkdir(parents=True, exist_ok=True)
        for name in ("state", "lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        source = f"deb [signed-by={_KEYRING}] {mirror} {_SUITE} main\n"
        (self._folder / "sources.list").write_text(source)
        known = dict.fromkeys((self.architecture, "arm64"))
        configuration = _CONFIGURATION.format(
            folder=self._folder, architecture=self.architecture, architectures=" ".join(f'"{name}";' for name in known)
        )
        (self._folder / "apt.conf").write_text(configuration)
        self._environment = {**os.environ, "APT_CONFIG": str(self._folder / "apt.conf"), "LC_ALL": "C"}

    def update(self) -> None:
        """Fetch the lists of packages."""
        self._call(["apt-get", "update", "-q"])

    def needs(self, package: str) -> list[str]:
        """The packages that a package depends on directly."""
        lines = self._call(["apt-cache", "depends", package]).splitlines()
        return [line.split()[-1] for line in lines if line.strip().startswith("Depends:")]

    def with_all_needed(self, *packages: str) -> list[str]:
        """These packages and everything that they need."""
        planned = self._call(["apt-get", "--no-install-recommends", "-s", "install", *packages])
        return [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]

    def unpack(self, packages: Sequence[str], target: Path) -> None:
        """Fetch packages and unpack them all into a folder."""
        target.mkdir(parents=True, exist_ok=True)
        addresses = self._call(["apt-get", "download", "--print-uris", *packages]).splitlines()
        files = {line.split()[1].partition("_")[0]: line.split()[1] for line in addresses if line.startswith("'")}
        wanted = [name for name in packages if not (self._packages / files[name.partition(":")[0]]).exists()]
        if wanted:
            self._call(["apt-get", "download", "-q", *wanted], cwd=self._packages)
        for file in files.values():
            _output(["dpkg-deb", "-x", str(self._packages / file), str(target)])

    def _call(self, command: Sequence[str], cwd: Path | None = None) -> str:
        return _output(command, self._environment, cwd)


def _output(command: Sequence[str], environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise DeviceError(f"{' '.join(command[:3])} failed: {said[-1] if said else done.returncode}")
    return done.stdout
