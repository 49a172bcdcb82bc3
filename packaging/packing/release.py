"""What has to be true before a version is released, and the steps that release it."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from packing import archives, changelog, chart, environment, provenance, sbom, sources
from packing.errors import PackingError

__all__ = ["SUMS", "check", "compare", "describe", "notes", "prepare", "release", "tag_of", "twine_check", "write_sums"]

SUMS = "SHA256SUMS"
_RELEASED = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
Build = Callable[[Path, Path], None]
"""Makes all packages of a clone in a folder."""


def tag_of(version: str) -> str:
    """The tag of a version."""
    return f"v{version}"


def check(root: Path, tag: str | None = None) -> changelog.Section:
    """Whether the version that the sources say can be released; its section of the changelog.

    `tag`: the tag is there already (a workflow runs because of it) and has to be that of the version.
    """
    version = sources.version(root)
    if not _RELEASED.fullmatch(version):
        raise PackingError(f"{version} is no version to release; `packaging/release prepare 1.2.3` sets one")
    if tag is not None and tag != tag_of(version):
        raise PackingError(f"the tag is {tag}; {sources.VERSION_FILE} says {version}, whose tag is {tag_of(version)}")
    text = (root / "CHANGELOG.md").read_text("utf-8")
    entry = changelog.section(text, version)
    unreleased, newest = changelog.sections(text)[:2]
    if unreleased.text:
        raise PackingError("CHANGELOG.md has unreleased changes; they belong to the version, or to another branch")
    if newest.version != version:
        raise PackingError(f"CHANGELOG.md: {newest.version} is newer than {version}, which is to be released")
    notes(root)
    return entry


def check_clone(root: Path) -> None:
    """Whether this clone is in a state to release from: on main, nothing uncommitted, the version not tagged."""
    if not sources.in_git(root):
        raise PackingError(f"{root} is no clone; releases are made from one")
    branch = sources.git(root, "rev-parse", "--abbrev-ref", "HEAD").strip()
    if branch != "main":
        raise PackingError(f"this is the branch {branch}; releases are made from main")
    if changed := sources.git(root, "status", "--porcelain").strip():
        raise PackingError(f"there are changes that are not committed:\n{changed}")
    tag = tag_of(sources.version(root))
    if sources.git(root, "tag", "--list", tag).strip():
        raise PackingError(f"{tag} is there already; a version is released once")


def prepare(root: Path, version: str, date: str) -> None:
    """Set the version, and give the unreleased changes to it. Nothing is committed."""
    if not _RELEASED.fullmatch(version):
        raise PackingError(f"{version} is no version to release: 1.2.3, or 1.2.3rc1")
    log, file = root / "CHANGELOG.md", root / sources.VERSION_FILE
    begun = changelog.begin(log.read_text("utf-8"), version, date)
    text = file.read_text("utf-8")
    file.write_text(text.replace(f'__version__ = "{sources.version(root)}"', f'__version__ = "{version}"'), "utf-8")
    chart.set_version(root, version)
    log.write_text(begun, "utf-8")


def release(
    root: Path,
    out: Path,
    build: Build,
    *,
    twine: Callable[[Sequence[Path]], None],
    is_dry: bool,
    say: Callable[[str], None],
) -> str:
    """Check everything, build twice, compare, describe, and tag (not if `is_dry`). Returns the tag."""
    check_clone(root)
    check(root)
    tag = tag_of(sources.version(root))
    if out.exists() and any(out.iterdir()):
        raise PackingError(f"{out} is not empty; name another folder with --out")
    say(f"building {tag}")
    build(root, out)
    with tempfile.TemporaryDirectory() as work:
        # Another folder, and nothing in it but the commit.
        again = Path(work) / "elsewhere" / "clone"
        sources.git(root, "clone", "--quiet", "--no-hardlinks", str(root), str(again))
        say("building it again, elsewhere")
        build(again, Path(work) / "dist")
        compare(out, Path(work) / "dist")
    packages = [path for path in sorted(out.iterdir()) if path.name.endswith((".whl", ".tar.gz"))]
    twine(packages)
    describe(root, out)
    if changed := sources.git(root, "status", "--porcelain").strip():
        raise PackingError(f"the build changed the clone:\n{changed}")
    if not is_dry:
        sources.git(root, "tag", "--annotate", tag, "--message", f"openrknn {sources.version(root)}")
    return tag


def compare(first: Path, second: Path) -> None:
    """Refuse two builds that differ in a file."""
    one, two = ({path.name: archives.sha256(path) for path in sorted(folder.iterdir())} for folder in (first, second))
    if different := sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name)):
        raise PackingError(f"two builds of one commit differ: {', '.join(different)}")
    if not one:
        raise PackingError("the build made nothing")


def describe(root: Path, folder: Path) -> list[Path]:
    """Write beside the packages what they are made of, where they come from, and their checksums (in this order)."""
    about = [sbom.write(root, folder), provenance.write(root, folder, sources.homepage(root))]
    return [*about, write_sums(folder)]


def notes(root: Path) -> str:
    """The release notes of the version: a page of its own, because the changelog is for those who look something up."""
    path = root / f"docs/releases/{sources.version(root)}.md"
    if not path.is_file():
        raise PackingError(f"there is no {path.relative_to(root)}: write what users should know about this release")
    return path.read_text("utf-8")


def write_sums(folder: Path) -> Path:
    """SHA256SUMS of a folder, as sha256sum writes and checks it."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS and path.is_file()]
    sums = folder / SUMS
    sums.write_text("".join(f"{archives.sha256(path)}  {path.name}\n" for path in files), "utf-8")
    return sums


def twine_check(packages: Sequence[Path]) -> None:
    """What the registry would say about them."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, packages)]
    done = subprocess.run(command, env=environment.tools(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackingError(f"twine check failed:\n{done.stdout}{done.stderr}")
