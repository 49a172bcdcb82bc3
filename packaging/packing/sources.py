"""What packages are made of: the files that Git knows, their time, and the version."""

import os
import posixpath
import re
import shutil
import subprocess
from pathlib import Path

from packing.errors import PackingError

__all__ = ["absolute_links", "epoch", "homepage", "in_git", "repository", "stage", "tracked", "version"]

VERSION_FILE = "src/openrknn/__init__.py"
_RELATIVE = re.compile(r"(?P<mark>!?\[[^]\[]*\]\()(?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def repository() -> Path:
    """The folder of the project that this file belongs to."""
    return Path(__file__).resolve().parents[2]


def version(root: Path) -> str:
    """The version of all packages; there is no other place that says it."""
    found = _VERSION.findall((root / VERSION_FILE).read_text("utf-8"))
    if len(found) != 1:
        raise PackingError(f'{VERSION_FILE} has to have one line `__version__ = "..."`; it has {len(found)}')
    return str(found[0])


def homepage(root: Path) -> str:
    """The project's address, from pyproject.toml; Python 3.10 has no reader of TOML."""
    text = (root / "pyproject.toml").read_text("utf-8")
    found = re.search(r'^Repository *= *"([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise PackingError(f"{root / 'pyproject.toml'} has no Repository in [project.urls]")
    return found[1]


def in_git(root: Path) -> bool:
    """Whether it is a clone; an unpacked sdist is none."""
    return (root / ".git").exists()


def git(root: Path, *arguments: str) -> str:
    """What a command of Git prints."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackingError(f"git {' '.join(arguments)} failed in {root}: {done.stderr.strip()}")
    return done.stdout


def epoch(root: Path) -> int:
    """The time of all files in packages: SOURCE_DATE_EPOCH, else that of the last commit, else that of the sdist."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        if not given.isdecimal():
            raise PackingError(f"SOURCE_DATE_EPOCH={given!r} is no number of seconds since 1970")
        return int(given)
    if in_git(root):
        return int(git(root, "log", "-1", "--format=%ct"))
    return int((root / VERSION_FILE).stat().st_mtime)


def tracked(root: Path) -> list[str]:
    """The files of the project, as paths below it, sorted: what Git knows, or everything in an unpacked sdist."""
    if in_git(root):
        names = git(root, "ls-files", "-z", "--cached").split("\0")
        return sorted(name for name in names if name and (root / name).is_file())
    made = {"build", "dist", ".venv"}
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in files if path.parts[0] not in made and "__pycache__" not in path.parts)


def stage(root: Path, target: Path) -> Path:
    """A copy of the project's files and of nothing else, with the same modes whatever the umask was."""
    time = epoch(root)
    for name in tracked(root):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, copy)
        copy.chmod(0o755 if os.access(root / name, os.X_OK) else 0o644)
        if name == "README.md":
            copy.write_text(absolute_links(root, copy.read_text("utf-8")), "utf-8")
        os.utime(copy, (time, time))
    return target


def absolute_links(root: Path, text: str, folder: str = "") -> str:
    """A page for readers elsewhere (PyPI, a release on GitHub): its links to files lead to the repository."""
    number = version(root)
    at = "main" if "dev" in number else f"v{number}"

    def absolute(match: re.Match[str]) -> str:
        path, anchor = posixpath.normpath(posixpath.join(folder, match["path"])), match["anchor"] or ""
        return f"{match['mark']}{homepage(root)}/{'raw' if match['mark'][0] == '!' else 'blob'}/{at}/{path}{anchor})"

    return _RELATIVE.sub(absolute, text)
