"""The switch of the pages from "not on PyPI yet" to "on PyPI": `packaging/release published`, after the upload.

Before the upload the pages install from the repository. What changes is marked in them:

    <!-- until the upload -->        this text is shown now
    text
    <!-- after the upload:           this one takes its place; it is a comment until then
    text
    -->

Lines with `openrknn[EXTRAS] @ git+ADDRESS`, `rev: main # until the upload` and, in the source, `"docs/"  # until the
upload: ADDRESS` change by themselves. The version has to have its tag by then. The other direction is `git revert`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from packing import sources
from packing.errors import PackingError

__all__ = ["is_published", "pages", "publish", "published"]

_BLOCK = re.compile(r"<!-- until the upload -->\n(?P<before>.*?)<!-- after the upload:\n(?P<after>.*?)-->\n", re.DOTALL)
_ADDRESS = re.compile(r"(openrknn(?:\[[\w,]+\])?) @ git\+https://[\w./-]+?/openrknn(?=[\"'])")
_REVISION = re.compile(r"rev: main # until the upload")
_BASE = re.compile(r'"docs/"  # until the upload: (\S+)')
_PLACES = (
    "README*.md", "docs/**/*.md", "examples/**/*.py", "examples/**/*.md", "src/openrknn/cli/common/explained.py"
)  # fmt: skip


def pages(root: Path) -> Iterator[Path]:
    """Everything that tells a reader how to install, and the addresses that the command line prints."""
    for place in _PLACES:
        yield from sorted(path for path in root.glob(place) if "_build" not in path.parts)


def published(text: str, version: str) -> str:
    """The text of a page after the upload."""
    text = _BLOCK.sub(lambda match: match["after"], text)
    if "the upload -->" in text or "after the upload:" in text:
        raise PackingError("a mark `until the upload` has no `after the upload`, or the other way round")
    text = _BASE.sub(r'"\1"', text)
    text = _ADDRESS.sub(r"\1", text)
    return _REVISION.sub(f"rev: v{version}", text)


def is_published(root: Path) -> bool:
    """Whether the pages install from PyPI: no page has a mark of the switch any more."""
    return all("until the upload" not in path.read_text("utf-8") for path in pages(root))


def publish(root: Path) -> list[Path]:
    """Rewrite all pages; those that changed."""
    version = sources.version(root)
    if "dev" in version:
        raise PackingError(f"{version} is never uploaded; `packaging/release prepare` sets a version")
    changed = []
    for path in pages(root):
        text = path.read_text("utf-8")
        try:
            new = published(text, version)
        except PackingError as error:
            raise PackingError(f"{path.relative_to(root)}: {error}") from None
        if new != text:
            path.write_text(new, "utf-8")
            changed.append(path)
    if not changed:
        raise PackingError("the pages install from PyPI already")
    return changed
