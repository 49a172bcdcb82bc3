"""Writes `docs/hardware/registers/*.md` out of the register table.

    python tools/make_hardware_docs.py
"""

from __future__ import annotations

import json
from pathlib import Path

from openrknn.isa.chipmaps import all_maps
from openrknn.isa.manual import pages

HARDWARE = Path(__file__).parents[1] / "docs" / "hardware"


def manual() -> dict[str, str]:
    """Every page: file name -> Markdown."""
    seen = json.loads((HARDWARE / "seen.json").read_text(encoding="utf-8"))
    return pages(all_maps(), seen)


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
    print(f"{len(written)} pages in {folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
