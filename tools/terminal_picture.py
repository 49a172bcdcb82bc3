"""Runs a command and draws what it prints as an SVG picture of a terminal.

.venv/bin/python tools/terminal_picture.py docs/images/inspect.svg openrknn inspect model.rknn
"""

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH_COLUMNS = 110


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, help="show only so many lines of the output")
    parser.add_argument("picture", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminal = {"COLUMNS": str(WIDTH_COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment = {**os.environ, **terminal, "PATH": path}
    result = subprocess.run(arguments.command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    output = result.stdout.splitlines()
    shown = output[: arguments.lines]
    if len(shown) < len(output):
        shown.append("...")
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    arguments.picture.write_text(draw(shlex.join(arguments.command), "\n".join(shown)))
    return 0


def draw(title: str, ansi: str) -> str:
    """An SVG with the text and colours of `ansi`. It loads nothing from the network and is the same every time."""
    console = Console(record=True, width=WIDTH_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi))
    svg = console.export_svg(title=title, unique_id="terminal")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$|^\n", "", svg.replace("Fira Code", "ui-monospace"), flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
