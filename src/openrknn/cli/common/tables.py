"""Tables, bars and titles in the one style of all commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from openrknn.cli.common.output import printable

__all__ = ["bar", "facts", "indented", "table", "title"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table(*columns: str, right: Sequence[str] = (), wrap: Sequence[str] = (), heading: str | None = None) -> Table:
    """A table without a frame; `right` names columns of numbers, `wrap` those that may take several lines."""
    result = Table(
        box=box.SIMPLE_HEAD, title=heading, title_justify="left", title_style="", show_edge=False, pad_edge=False
    )
    for name in columns:
        is_right = name in right
        result.add_column(
            name, justify="right" if is_right else "left", no_wrap=name not in wrap, overflow="fold"
        )
    return result


def title(text: str) -> Text:
    """A heading with an empty line above it."""
    return Text.assemble("\n", (text, "bold"))


def indented(*things: RenderableType) -> Iterable[RenderableType]:
    """Two blanks before each line."""
    for thing in things:
        yield Padding(thing, (0, 0, 0, 2), expand=False)


def facts(rows: Iterable[tuple[str, str]], style: str = "cyan") -> Table:
    """Name and value, the value wrapped in its own column; rows without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value:
            grid.add_row(name, Text(printable(value)))
    return grid


def bar(share: float, cells: int, *, ascii_only: bool = False) -> str:
    """`share` (0..1) of a bar of `cells` characters."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return "#" * round(share * cells)
    whole, rest = divmod(round(share * cells * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
