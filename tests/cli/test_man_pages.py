"""Man pages: made of the parser that prints `--help`, and taken by man's own readers without a word."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.cli.commands import NAMES
from openrknn.cli.main import build_parser
from tools import make_man_pages


def _roff(text: str) -> str:
    return text.replace("-", r"\-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("man1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        assert make_man_pages.main([str(path)]) == 0
    return path


def test_every_command_and_every_option_has_its_place(folder: Path) -> None:
    parser = build_parser(NAMES)
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices
    main = (folder / "openrknn.1").read_text(encoding="ascii")
    for name in NAMES:
        page = (folder / f"openrknn-{name}.1").read_text(encoding="ascii")
        assert rf"\fB{_roff(f'openrknn-{name}')}\fR(1)" in main
        assert "2023-11-14" in page.splitlines()[0]
        for action in commands[name]._actions:
            for flag in action.option_strings if action.help != argparse.SUPPRESS else ():
                assert rf"\fB{_roff(flag)}\fR" in page, f"{name} {flag}"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["openrknn.1", *(f"openrknn-{name}.1" for name in NAMES)]
    )


@pytest.mark.parametrize("reader", ["mandoc -Tlint -Wwarning", "groff -man -ww -z -Tutf8"])
def test_readers_have_nothing_to_complain_of(reader: str, folder: Path) -> None:
    program, *options = reader.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    pages = sorted(map(str, folder.iterdir()))
    done = subprocess.run([program, *options, *pages], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_text_is_safe_in_roff() -> None:
    assert make_man_pages._text(".so /etc/passwd") == r"\&.so /etc/passwd"
    assert make_man_pages._text(r"a\n 'x' --y") == r"a\en \(aqx\(aq \-\-y"
    assert make_man_pages._text("×") == r"\[u00D7]"
