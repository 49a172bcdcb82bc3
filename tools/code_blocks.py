"""The code blocks of Markdown pages, for the tests and for `tools/walk.py`. Needs nothing but Python.

- A `python` block is a program.
- In a `console` block each line that starts with `$ ` is a command. Lines below it are what it prints; `...` stands for
  any text, and a command without such lines may print what it likes.
- `<!-- not run: reason -->` on the line before a block is the only way to leave it out.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MISSPELT", "ROOT", "Block", "collect", "commands", "compare", "pages"]

ROOT = Path(__file__).resolve().parents[1]
# Other names for what is run: a block must not escape by its spelling.
MISSPELT = {"": "text", "bash": "console", "sh": "console", "shell": "console", "py": "python", "pycon": "python"}
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n\s*)?^```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_code(self) -> bool:
        """A program or commands."""
        return self.language in ("python", "console")


def pages(root: Path = ROOT) -> list[Path]:
    """The pages whose code is run."""
    # Translations have the blocks of their originals (tests/docs/test_translations.py): once is enough.
    docs = [path for path in root.glob("docs/**/*.md") if not {"_build", "zh"} & set(path.parts)]
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted(docs)]


def collect(page: str, markdown: str) -> list[Block]:
    """All fenced blocks of a page."""
    blocks = []
    for match in FENCE.finditer(markdown):
        line = markdown.count("\n", 0, match.start("language")) + 1
        blocks.append(Block(page, line, match["language"], match["text"], match["reason"]))
    return blocks


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    head, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts, "a console block needs a line that starts with '$ '"
    assert not head, f"output before the first command: {head!r}"
    return [(command, expected) for command, _, expected in (part.partition("\n") for part in parts)]


def compare(command: str, expected: str, output: str) -> None:
    """An AssertionError says how the output differs from what the page shows."""
    if not expected.strip():
        return
    want, got = ("".join(f"{line.rstrip()}\n" for line in text.strip().splitlines()) for text in (expected, output))
    same = doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)
    assert same, f"`{command}` prints\n{got}and the page shows\n{want}"
