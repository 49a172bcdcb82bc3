"""The recorded terminal of the home page shows what the commands print today. Evidence: the commands themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.terminal_recording import COMMANDS, PICTURE, Line, draw, record, text_of

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'compile' (package onnxruntime) is not installed")
LARGEST_BYTES = 30_000
MEASURED = re.compile(r"[\d.,]+( ?(ms|us|s)\b)")


def steady(lines: list[str]) -> list[str]:
    """Without times and with single spaces, as one text for each line."""
    return [" ".join(MEASURED.sub(r"N\1", line).split()) for line in lines]


def test_it_shows_what_the_commands_print(tmp_path: Path) -> None:
    shown = PICTURE.read_text(encoding="utf-8")
    (tmp_path / "examples").symlink_to(PICTURE.parents[2] / "examples")
    now = draw(record(COMMANDS, tmp_path))
    again = "run: python tools/terminal_recording.py"
    assert steady(text_of(shown)) == steady(text_of(now)), again
    for command in COMMANDS:
        assert f"$ openrknn {command}" not in shown
        assert command in " ".join(line.strip() for line in text_of(shown))


def test_it_is_small_and_loads_nothing() -> None:
    shown = PICTURE.read_text(encoding="utf-8")
    assert len(shown) < LARGEST_BYTES
    assert "<script" not in shown
    assert "href" not in shown
    assert "prefers-reduced-motion" in shown


def test_output_is_text_and_stays_text() -> None:
    made = draw([Line(0.0, "\033[1m<b>&\033[0m \033[31mred\033[0m"), Line(1.0, "x" * 250)])
    assert "<b>" not in made
    assert text_of(made)[0] == "<b>& red"
    assert [len(line) for line in text_of(made)[1:]] == [100, 100, 50]
