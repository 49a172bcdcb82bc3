"""The pages in docs/hardware are those that the table makes."""

from pathlib import Path

from tools.make_hardware_docs import HARDWARE, manual, tables

HINT = "run: python tools/make_hardware_docs.py"


def test_the_manual_is_up_to_date() -> None:
    folder: Path = HARDWARE / "registers"
    written = manual()
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(written), HINT
    stale = [name for name, text in written.items() if (folder / name).read_text(encoding="utf-8") != text]
    assert stale == [], HINT


def test_the_pages_beside_it_are_up_to_date() -> None:
    stale = [name for name, text in tables().items() if (HARDWARE / name).read_text(encoding="utf-8") != text]
    assert stale == [], HINT
