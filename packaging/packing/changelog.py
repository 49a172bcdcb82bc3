"""CHANGELOG.md: what it may look like, what a version's section says, and how a release begins one."""

import re
from dataclasses import dataclass
from itertools import pairwise

from packing.errors import PackingError

__all__ = ["UNRELEASED", "Section", "begin", "section", "sections"]

UNRELEASED = "Unreleased"
_HEADING = re.compile(r"(?P<version>\d+\.\d+\.\d+(?P<pre>(a|b|rc)\d+)?) - (?P<date>\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True)
class Section:
    """What changed in a version."""

    version: str
    date: str
    text: str

    @property
    def order(self) -> tuple[int | str, ...]:
        """Sorts versions: candidates come before what they are candidates of."""
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?", self.version)
        assert match is not None
        return (*map(int, match.group(1, 2, 3)), match[4] or "release", int(match[5] or 0))


def sections(text: str) -> list[Section]:
    """All sections, the newest first. Anything that is not in order is an error that names the line."""
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    if not head.startswith("# Changelog\n"):
        raise PackingError("CHANGELOG.md: the first line has to be `# Changelog`")
    found: list[Section] = []
    for part in parts:
        title, _, body = part.partition("\n")
        if title == UNRELEASED and not found:
            found.append(Section(UNRELEASED, "", body.strip()))
            continue
        match = _HEADING.fullmatch(title)
        if not match:
            wanted = f"`## {UNRELEASED}` at the top nor `## 1.2.3 - 2026-12-31`"
            raise PackingError(f"CHANGELOG.md: `## {title}` is neither {wanted}")
        found.append(Section(match["version"], match["date"], body.strip()))
    if not found or found[0].version != UNRELEASED:
        raise PackingError(f"CHANGELOG.md: the first section has to be `## {UNRELEASED}`, also when it is empty")
    _check_order(found[1:])
    for entry in found:
        _check_text(entry)
    return found


def section(text: str, version: str) -> Section:
    """That of one version, which must say something."""
    for entry in sections(text):
        if entry.version == version:
            if not entry.text:
                raise PackingError(f"CHANGELOG.md: the section of {version} is empty")
            return entry
    raise PackingError(f"CHANGELOG.md has no section of {version}; `packaging/release prepare {version}` makes it")


def begin(text: str, version: str, date: str) -> str:
    """The text with everything unreleased under a version, and nothing unreleased."""
    known = sections(text)
    if not known[0].text:
        raise PackingError("CHANGELOG.md: nothing is unreleased, so there is nothing to release")
    if version in {entry.version for entry in known}:
        raise PackingError(f"CHANGELOG.md has a section of {version} already")
    begun = text.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {date}\n", 1)
    sections(begun)
    return begun


def _check_order(released: list[Section]) -> None:
    for newer, older in pairwise(released):
        if newer.order <= older.order or newer.date < older.date:
            above, below = (f"{entry.version} ({entry.date})" for entry in (newer, older))
            raise PackingError(f"CHANGELOG.md: {above} stands above {below}; the newest comes first")


def _check_text(entry: Section) -> None:
    """Headings, entries that begin with a hyphen, and their continuations: nothing else."""
    allowed = ("### ", "- ", "  ")
    for line in entry.text.splitlines():
        if line and not line.startswith(allowed):
            raise PackingError(f"CHANGELOG.md, {entry.version}: neither `- an entry` nor `### a heading`: {line!r}")
    if entry.text and "\n- " not in f"\n{entry.text}":
        raise PackingError(f"CHANGELOG.md, {entry.version}: it has headings and no entry")
