"""The table of what was proved, for a terminal, for programs and for a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HEADINGS = ("package", "root", "architecture", "Python", "demo", "install", "run", "size")
_RIGHT = {"install", "run", "size"}


@dataclass(frozen=True)
class Row:
    """One package in one root."""

    package: str
    root: str
    architecture: str
    python: str
    result: str
    """What the demo recognised, or why not."""
    passed: bool
    install_seconds: float
    run_seconds: float
    size: int
    emulated: bool = False
    details: str = ""
    """The end of what was printed, where it failed."""

    def cells(self) -> tuple[str, ...]:
        """The words of the table."""
        architecture = f"{self.architecture} (emulated)" if self.emulated else self.architecture
        result = self.result if self.passed else f"FAILED: {self.result}"
        times = tuple(f"{seconds:.0f} s" if seconds else "" for seconds in (self.install_seconds, self.run_seconds))
        size = f"{self.size / 1e6:.1f} MB" if self.size >= 1e5 else f"{self.size / 1e3:.0f} kB"
        return (self.package, self.root, architecture, self.python, result, *times, size)


def as_json(rows: Sequence[Row]) -> str:
    """Every field of every row."""
    return json.dumps([asdict(row) for row in rows], indent=1) + "\n"


def as_markdown(rows: Sequence[Row]) -> str:
    """A table for a page."""
    lines = [HEADINGS, tuple("---:" if name in _RIGHT else "---" for name in HEADINGS), *(row.cells() for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def show(rows: Sequence[Row]) -> None:
    """A table for a terminal: by rich where it is, else with spaces."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        sys.stdout.write(as_text(rows))
        return
    table = Table(box=None, pad_edge=False)
    for name in HEADINGS:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name in _RIGHT, overflow="fold")
    for row in rows:
        table.add_row(*row.cells(), style="" if row.passed else "red")
    Console().print(table)


def as_text(rows: Sequence[Row]) -> str:
    """Columns of one width each."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def write(rows: Sequence[Row], folder: Path) -> None:
    """Both files, beside each other."""
    (folder / "proved.json").write_text(as_json(rows), "utf-8")
    (folder / "proved.md").write_text(as_markdown(rows), "utf-8")
