"""Collects the code blocks of a Markdown page and runs them.

- A `python` block runs in a fresh interpreter.
- In a `console` block each line that starts with `$ ` is a command. It must end with exit code 0. Lines below it are
  what it prints; `...` stands for any text, and a command without such lines may print what it likes.
- `<!-- not run: reason -->` on the line before a block is the only way to leave it out.

Every block runs in a folder of its own that has `examples/` of the repository in it. Programs that it starts with the
open librknnrt.so have an engine of their own, which ends with the block.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from openrknn.capi.running import running_engine, stop_engine
from openrknn.capi.wire import SOCKET_VARIABLE

ROOT = Path(__file__).parents[2]
# Other names for what we run: a block must not escape by its spelling.
MISSPELT = {"": "text", "bash": "console", "sh": "console", "shell": "console", "py": "python", "pycon": "python"}
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n\s*)?^```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """The pages whose code is run."""
    docs = [path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(docs)]


def collect(page: str, markdown: str) -> list[Block]:
    """All fenced blocks of a page."""
    blocks = []
    for match in FENCE.finditer(markdown):
        line = markdown.count("\n", 0, match.start("language")) + 1
        blocks.append(Block(page, line, match["language"], match["text"], match["reason"]))
    return blocks


def run(block: Block, folder: Path) -> None:
    """Run a block in `folder`; an AssertionError says what went wrong."""
    (folder / "examples").symlink_to(ROOT / "examples")
    with tempfile.TemporaryDirectory(prefix="orknn") as place:  # short: paths of sockets have 107 bytes
        socket = f"{place}/engine"
        try:
            if block.language == "python":
                _execute([sys.executable, "-W", "error", "-c", block.text], folder, socket)
            else:
                for command, expected in commands(block.text):
                    _compare(command, expected, _execute(["bash", "-c", command], folder, socket))
        finally:
            engine = running_engine(socket)
            if engine is not None:
                stop_engine(engine)


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    head, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts, "a console block needs a line that starts with '$ '"
    assert not head, f"output before the first command: {head!r}"
    return [(command, expected) for command, _, expected in (part.partition("\n") for part in parts)]


def _execute(command: list[str], folder: Path, socket: str) -> str:
    # The commands of this environment come first; rich draws for a terminal of this width.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1", SOCKET_VARIABLE: socket}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def _compare(command: str, expected: str, output: str) -> None:
    if not expected.strip():
        return
    want, got = ("".join(f"{line.rstrip()}\n" for line in text.strip().splitlines()) for text in (expected, output))
    same = doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)
    assert same, f"`{command}` prints\n{got}and the page shows\n{want}"
