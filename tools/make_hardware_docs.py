"""Writes `docs/hardware/registers/*.md`, `roundings.md` and `ignored.md` out of their tables.

python tools/make_hardware_docs.py
"""

from __future__ import annotations

import json
from pathlib import Path

from openrknn.chip.manual import pages
from openrknn.chip.maps import all_maps
from openrknn.verify.manual import ignored_page, roundings_page

HARDWARE = Path(__file__).parents[1] / "docs" / "hardware"


def manual() -> dict[str, str]:
    """Every page: file name -> Markdown."""
    seen = json.loads((HARDWARE / "seen.json").read_text(encoding="utf-8"))
    return pages(all_maps(), seen)


def tables() -> dict[str, str]:
    """The pages beside the manual."""
    return {"roundings.md": roundings_page(), "ignored.md": ignored_page()}


def main() -> int:
    """Write the pages and remove those that no longer exist."""
    folder = HARDWARE / "registers"
    folder.mkdir(exist_ok=True)
    written = manual()
    for old in folder.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in tables().items():
        (HARDWARE / name).write_text(text, encoding="utf-8")
    print(f"{len(written)} pages in {folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
