"""Records commands in a terminal as one animated SVG: real output, real order, waiting times shortened.

.venv/bin/python tools/terminal_recording.py                writes docs/images/terminal.svg

It loads nothing, has no script, and shows everything at once to readers who asked for less motion.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/terminal.svg"
MODEL = "examples/models/efficientnet_lite0_rk3588_i8.rknn"
COMMANDS = (
    f"openrknn run {MODEL} --input examples/images/cat.jpg --top 3",
    f"openrknn lint {MODEL}",
    "openrknn compile examples/models/tiny.onnx -o tiny.rknn --calibrate examples/images --std 255",
)
COLUMNS = 100
TYPING_SECONDS, LONGEST_WAIT, PAUSE = 0.9, 0.8, 1.2
_CHARACTER, _LINE, _MARGIN, _BAR = 8.4, 19, 14, 34


class Line(NamedTuple):
    """A line of the terminal, and when it appears."""

    at: float
    text: str
    """With colours as a terminal gets them."""


def record(commands: tuple[str, ...], folder: Path) -> list[Line]:
    """Run commands in a folder that has `examples`; their lines with the seconds at which they came."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminal = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color", "PATH": path}
    lines, clock = [], 0.3
    for command in commands:
        lines.append(Line(clock, f"\033[32m$\033[0m \033[1m{command}\033[0m"))
        clock += TYPING_SECONDS
        before = time.monotonic()
        with subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env={**os.environ, **terminal}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for text in process.stdout:
                now = time.monotonic()
                clock += min(now - before, LONGEST_WAIT)
                before = now
                lines.append(Line(clock, text.rstrip("\n")))
        if process.returncode:
            raise SystemExit(f"`{command}` ended with {process.returncode}")
        lines.append(Line(clock, ""))
        clock += PAUSE
    return lines[:-1]


def draw(lines: list[Line]) -> str:
    """The SVG. Each line is one text that becomes visible at its time; it all begins again after a pause."""
    wrapped = [Line(line.at, part) for line in lines for part in _wrapped(line.text)]
    width = round(COLUMNS * _CHARACTER + 2 * _MARGIN)
    height = _BAR + len(wrapped) * _LINE + _MARGIN
    total = wrapped[-1].at + 6
    rules, texts = [], []
    for number, line in enumerate(wrapped):
        start = 100 * line.at / total
        rules.append(f"@keyframes l{number}{{0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,100%{{opacity:1}}}}")
        rules.append(f"#l{number}{{animation:l{number} {total:.1f}s infinite}}")
        y = _BAR + (number + 1) * _LINE - 5
        texts.append(f'<text id="l{number}" x="{_MARGIN}" y="{y}" xml:space="preserve">{_spans(line.text)}</text>')
    style = (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dae0}"
        ".b{font-weight:700}.g{fill:#8bd49c}.r{fill:#ff8b82}.y{fill:#f0c674}.c{fill:#7fd0e0}.m{fill:#9aa5b4}"
        + "".join(rules)
        + "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
    )
    dots = "".join(f'<circle cx="{18 + 18 * place}" cy="17" r="5.5" fill="#4a5361"/>' for place in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>A terminal: {escape('; '.join(COMMANDS))}</title><style>{style}</style>"
        f'<rect width="{width}" height="{height}" rx="9" fill="#1b2027"/>{dots}\n' + "\n".join(texts) + "\n</svg>\n"
    )


def _wrapped(ansi: str) -> list[str]:
    """A line of the terminal, cut where it ends."""
    console = Console(width=COLUMNS, color_system="standard", force_terminal=True)
    parts = Text.from_ansi(ansi).wrap(console, COLUMNS) if ansi.strip() else [Text("")]
    with console.capture() as captured:
        for part in parts:
            console.print(part, end="\n", soft_wrap=True)
    return captured.get().split("\n")[:-1]


def _spans(ansi: str) -> str:
    """Pieces of one colour as SVG."""
    text = Text.from_ansi(ansi.rstrip())
    pieces = []
    console = Console(width=10 * COLUMNS)
    for segment in text.render(console):
        style = segment.style
        kinds = []
        if style is not None:
            colour = style.color.name if style.color is not None else ""
            named = {"green": "g", "red": "r", "yellow": "y", "cyan": "c", "blue": "c", "magenta": "c"}
            kinds = [kind for word, kind in named.items() if word in colour]
            kinds += ["b"] * bool(style.bold) + ["m"] * bool(style.dim)
        words = escape(segment.text.replace("\n", ""))
        pieces.append(f'<tspan class="{" ".join(kinds)}">{words}</tspan>' if kinds else words)
    return "".join(pieces)


def text_of(svg: str) -> list[str]:
    """The lines of a recording, without colours."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", part)) for part in found]


def main() -> int:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        PICTURE.write_text(draw(record(COMMANDS, folder)), "utf-8")
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
