"""The tools that packages are made with, in an environment of their own."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from packing.errors import PackingError

__all__ = ["enter", "tools"]

_INSIDE = "OPENRKNN_PACKAGING"


def enter(root: Path, arguments: list[str]) -> None:
    """Go on in build/packaging/, which has what packaging/requirements.txt names; it is made when it is not there."""
    if os.environ.get(_INSIDE):
        return
    wanted = hashlib.sha256((root / "packaging/requirements.txt").read_bytes() + sys.version.encode()).hexdigest()
    home = root / "build/packaging"
    python = home / "bin/python"
    mark = home / "complete"
    if not mark.is_file() or mark.read_text("utf-8") != wanted:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
             "--requirement", str(root / "packaging/requirements.txt")],
        ):  # fmt: skip
            if subprocess.run(command, check=False).returncode:
                raise PackingError(f"{' '.join(command)} failed. Is there a network? Debian: apt install python3-venv")
        mark.write_text(wanted, "utf-8")
    os.execve(python, [str(python), *arguments], {**os.environ, _INSIDE: "1"})


def tools() -> dict[str, str]:
    """The environment for programs that look for cmake and ninja in PATH."""
    return {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
