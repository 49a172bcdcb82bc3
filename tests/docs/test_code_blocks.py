from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.code_blocks import MISSPELT, ROOT, Block, collect, commands, pages, run
from tests.warm import WarmPython

BLOCKS = [block for page in pages() for block in collect(str(page.relative_to(ROOT)), page.read_text())]
RUNNABLE = [block for block in BLOCKS if block.language in ("python", "console") and block.reason is None]


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with WarmPython() as python:
        yield python


@pytest.mark.parametrize("block", RUNNABLE, ids=str)
def test_block_runs(block: Block, tmp_path: Path, python: WarmPython) -> None:
    run(block, tmp_path, python)


def test_every_block_says_what_it_is() -> None:
    wrong = {str(block): f"write {MISSPELT[block.language]}" for block in BLOCKS if block.language in MISSPELT}
    assert wrong == {}


PAGE = """\
# Title

```python
print("one")
```

<!-- not run: needs a board -->
```console
$ reboot
```
"""


def test_collect_finds_language_line_and_reason() -> None:
    assert collect("p.md", PAGE) == [
        Block("p.md", 3, "python", 'print("one")\n', None),
        Block("p.md", 8, "console", "$ reboot\n", "needs a board"),
    ]


def test_commands_come_with_their_output() -> None:
    assert commands("$ true\n$ echo a\na\n") == [("true", ""), ("echo a", "a\n")]


@pytest.mark.parametrize(
    ("language", "text", "message"),
    [
        ("python", "raise SystemExit(3)", "exit code 3"),
        ("python", "1 / 0", "ZeroDivisionError"),
        ("console", "$ exit 3\n", "exit code 3"),
        ("console", "$ echo one\ntwo\n", "and the page shows"),
        ("console", "echo one\n", "needs a line that starts with"),
        ("console", "one\n$ echo one\n", "output before the first command"),
    ],
)
def test_a_wrong_block_fails(language: str, text: str, message: str, tmp_path: Path, python: WarmPython) -> None:
    with pytest.raises(AssertionError, match=message):
        run(Block("p.md", 1, language, text, None), tmp_path, python)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "from pathlib import Path; assert Path('examples').is_symlink()"),
        ("console", "$ echo one two three\none ... three\n"),
        ("console", "$ printf 'a  \\n\\n'\na\n"),
    ],
)
def test_a_right_block_passes(language: str, text: str, tmp_path: Path, python: WarmPython) -> None:
    run(Block("p.md", 1, language, text, None), tmp_path, python)
