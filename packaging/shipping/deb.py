"""Debian packages of the wheels, for Debian 12 and 13 and both architectures, on either.

They bring openrknn's Python packages along, in a folder of their own, because Debian 12 has older ones than it needs;
so each fits the Python of one release. Nothing is compiled here: the native libraries are the wheels'.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from packing import sources
from packing.errors import PackingError

from shipping import site, source
from shipping.tree import Tree

PYTHONS = {12: "3.11", 13: "3.13"}
"""Each release's Python."""
INSTALL = ("library", "--engine", "/usr/bin/openrknn-engine", "--install")
"""What writes the files for programs in C; the prefix follows."""
_PAGES = "usr/share/man/man1"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/openrknn",
    "zsh": "usr/share/zsh/vendor-completions/_openrknn",
    "fish": "usr/share/fish/vendor_completions.d/openrknn.fish",
}
_LIBRARIES = ("librknnrt.so", "librknnmrt.so", "librkllmrt.so")


@dataclass(frozen=True)
class Common:
    """What is the same in all packages: written by openrknn itself, run here."""

    pages: Mapping[str, bytes]
    completions: Mapping[str, bytes]
    library: Mapping[str, bytes]
    """Headers, pkg-config and CMake files and the engine's starter below /usr, without the libraries."""


def build(root: Path, wheels: Path, out: Path) -> list[Path]:
    """Write openrknn_VERSION_ARCH.deb and openrknn-librknnrt_VERSION_ARCH.deb for all wheels that are there."""
    version, time = sources.version(root), sources.epoch(root)
    found = site.wheels_in(wheels, version)
    made = []
    with tempfile.TemporaryDirectory() as name:
        common = _common(root, found, Path(name) / "here")
        for release, python in PYTHONS.items():
            for architecture, wheel in found.items():
                work = Path(name) / f"{release}-{architecture}"
                site.install(root, wheel, architecture, python, work / "site")
                words = {
                    "Version": source.debian_version(version, release), "Architecture": architecture,
                    "Homepage": sources.homepage(root), "Python": python, "NextPython": _next(python),
                }  # fmt: skip
                trees = {
                    "openrknn": _program(root, work / "site", common, time),
                    "openrknn-librknnrt": _library(work / "site", common, time),
                }
                for package, tree in trees.items():
                    made.append(_write(root, package, words, tree, work=work / package, out=out))
    return made


def _next(python: str) -> str:
    major, minor = python.split(".")
    return f"{major}.{int(minor) + 1}"


def _common(root: Path, wheels: Mapping[str, Path], work: Path) -> Common:
    """Install a wheel for this machine's Python, and let openrknn write its pages, completions and files for C."""
    machine = os.uname().machine
    wheel = next((path for name, path in wheels.items() if site.MACHINES[name] == machine), None)
    if wheel is None:
        raise PackingError(f"a wheel for this machine is needed to write the manual: packaging/build {machine} first")
    python = work / "venv/bin/python"
    _call([sys.executable, "-m", "venv", str(work / "venv")])
    _call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    _call([str(python), str(root / "tools/make_man_pages.py"), str(work / "pages")])
    shells = {
        path: _call([str(python), "-m", "openrknn.cli", "completion", shell]) for shell, path in _COMPLETIONS.items()
    }
    prefix = work / "usr"
    _call([str(python), "-m", "openrknn.cli", *INSTALL, str(prefix)])
    files = {path.relative_to(prefix).as_posix(): path.read_bytes() for path in prefix.rglob("*") if path.is_file()}
    return Common(
        {path.name: path.read_bytes() for path in sorted((work / "pages").iterdir())},
        shells,
        {name: data for name, data in files.items() if Path(name).name not in _LIBRARIES},
    )


def _program(root: Path, folder: Path, common: Common, time: int) -> Tree:
    """The command with its packages, pages, completions, rules and units."""
    everything, tree = Tree(time), Tree(time)
    everything.folder_of(folder, "usr/lib/openrknn")
    for path, entry in everything.entries.items():
        if not site.unwanted(path.removeprefix("usr/lib/openrknn/")):
            tree.entries[path] = entry
    debian = root / "deploy/debian/debian"
    for name in ("openrknn", "openrknn-engine"):
        tree.file(f"usr/bin/{name}", (debian / f"{name}.sh").read_bytes(), 0o755)
    for name, page in common.pages.items():
        tree.file(f"{_PAGES}/{name}.gz", gzip.compress(page, 9, mtime=0))
    tree.link(f"{_PAGES}/openrknn-engine.1.gz", "openrknn-library.1.gz")
    for path, script in common.completions.items():
        tree.file(path, script)
    rules = root / "deploy/udev/70-openrknn-npu.rules"
    tree.file(f"usr/lib/udev/rules.d/{rules.name}", rules.read_bytes())
    for unit in sorted((root / "deploy/systemd").glob("*.service")):
        tree.file(f"usr/lib/systemd/system/{unit.name}", unit.read_bytes())
    return tree


def _library(folder: Path, common: Common, time: int) -> Tree:
    """librknnrt.so in the place of the vendor's, for the architecture of the wheel."""
    tree = Tree(time)
    for name, data in common.library.items():
        tree.file(f"usr/{name}", data, 0o755 if data.startswith(b"#!") else 0o644)
    for name in _LIBRARIES:
        tree.file(f"usr/lib/{name}", (folder / "openrknn/_native" / name).read_bytes())
    return tree


def _write(root: Path, package: str, words: Mapping[str, str], tree: Tree, *, work: Path, out: Path) -> Path:
    """Add what every package has, write the files with one time, and let dpkg-deb pack them."""
    debian, doc = root / "deploy/debian/debian", f"usr/share/doc/{package}"
    tree.file(f"{doc}/copyright", (debian / "copyright").read_bytes())
    tree.file(f"{doc}/changelog.gz", gzip.compress(changelog(words["Version"], tree.time).encode(), 9, mtime=0))
    overrides = debian / f"{package}.lintian-overrides"
    if overrides.exists():
        tree.file(f"usr/share/lintian/overrides/{package}", overrides.read_bytes())
    tree.complete()
    files = {path: data for path, (entry, data) in sorted(tree.entries.items()) if entry.isreg()}
    sums = "".join(f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {path}\n" for path, data in files.items())
    size = sum(-(-len(data) // 1024) for data in files.values()) + len(tree.entries)
    text = fields((debian / "control.in").read_text("utf-8"), package, {**words, "Size": str(size)})
    control = Tree(tree.time)
    control.file("DEBIAN/control", text.encode())
    control.file("DEBIAN/md5sums", sums.encode())
    for script in ("preinst", "postinst", "prerm", "postrm"):
        if (path := debian / f"{package}.{script}").exists():
            control.file(f"DEBIAN/{script}", path.read_bytes(), 0o755)
    if package == "openrknn-librknnrt":
        control.file("DEBIAN/triggers", b"activate-noawait ldconfig\n")
    tree.entries.update(control.entries)
    tree.unpack(work)
    target = out / f"{package}_{words['Version']}_{words['Architecture']}.deb"
    # Level 1 takes a fifth of the usual time for a tenth more bytes. The number of threads would change the bytes.
    options = ["--root-owner-group", "-Zxz", "-z1", "--threads-max=1"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(tree.time)}
    _call(["dpkg-deb", *options, "--build", str(work), str(target)], environment)
    return target


def fields(text: str, package: str, words: Mapping[str, str]) -> str:
    """The fields of one package, with @Word@ replaced."""
    paragraph = next((part for part in text.split("\n\n") if part.startswith(f"Package: {package}\n")), None)
    if paragraph is None:
        raise PackingError(f"deploy/debian/debian/control.in has no package {package}")
    for word, value in words.items():
        paragraph = paragraph.replace(f"@{word}@", value)
    if left := re.search(r"@\w+@", paragraph):
        raise PackingError(f"deploy/debian/debian/control.in has {left[0]}, which nobody fills in")
    return paragraph.strip() + "\n"


def changelog(version: str, time: int) -> str:
    """Debian's list of changes, with the one entry that matters to it."""
    people = "openrknn developers <openrknn@users.noreply.github.com>"
    head = f"openrknn ({version}) unstable; urgency=medium"
    return f"{head}\n\n  * CHANGELOG.md says what is new.\n\n -- {people}  {formatdate(time)}\n"


def _call(command: list[str], environment: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise PackingError(f"{' '.join(command)} failed:\n{said[-3000:]}")
    return done.stdout
