"""Colours, pipes, and names that want to talk to the terminal."""

import io
import json

import pytest
from rich.text import Text

from openrknn.cli.common.output import Mode, Output, printable
from openrknn.quantities import count_of, count_text, numbers_text, shape_text, size_text
from tests.cli.run import program
from tests.container.places import golden

ESCAPE = "\x1b"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv1", "conv1"),
        ("größe 大小", "größe 大小"),
        ("a\tb\nc", "a\\x09b\\x0ac"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("mode", list(Mode))
def test_who_sees_what(mode: Mode) -> None:
    stream = io.StringIO()
    output = Output(mode, stream=stream)
    output.show(Text("drawing"))
    output.line("line")
    output.value("value")
    output.data({"key": 1})
    seen = stream.getvalue()
    expected = {
        Mode.HUMAN: "drawing\nline\nvalue\n",
        Mode.QUIET: "value\n",
        Mode.JSON: '{\n  "key": 1\n}\n',
    }
    assert seen == expected[mode]


@pytest.mark.parametrize(
    ("color", "variables", "colored"),
    [
        ("auto", {}, True),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"TERM": "dumb"}, False),
        ("never", {}, False),
        ("always", {"NO_COLOR": "1"}, True),
    ],
)
def test_color(color: str, variables: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    Output(color=color, stream=stream).show(Text("x", "red"))
    assert (f"{ESCAPE}[31m" in stream.getvalue()) is colored


def test_a_pipe_is_plain_and_has_no_blanks_at_the_end_of_lines() -> None:
    text = program("inspect", golden("residual_rk3588_i8")).out
    assert ESCAPE not in text
    assert not [line for line in text.splitlines() if line.endswith(" ")]
    assert max(map(len, text.splitlines())) <= 120


def test_color_can_be_forced_into_a_pipe() -> None:
    assert ESCAPE in program("inspect", golden("conv_rk3588_i8"), "--color", "always", TERM="xterm").out


def test_an_ascii_terminal() -> None:
    result = program("inspect", golden("image_rk3588_i8_custom_string"), PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert result.code == 0, result.err
    assert result.out.isascii()


def test_a_hostile_name_cannot_reach_the_terminal(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "evil.rknn"
    path.write_bytes(golden("image_rk3588_i8").read_bytes().replace(b"features", b"\x1b[2Jx[b]"))
    for words in (["inspect", path], ["inspect", path, "--all"], ["inspect", path, "--json"], ["inspect", path, "-q"]):
        result = program(*words, COLUMNS="120")
        assert result.code == 0, result.err
        assert ESCAPE not in result.out + result.err
    assert "\\x1b[2Jx[b]" in program("inspect", path, COLUMNS="120").out
    assert json.loads(program("inspect", path, "--json").out)["outputs"][0]["name"] == "\x1b[2Jx[b]"


def test_words() -> None:
    assert [size_text(value) for value in (0, 1023, 1024, 10 * 1024**2, 300 * 1024**3)] == [
        "0 B",
        "1023 B",
        "1.00 KiB",
        "10.0 MiB",
        "300 GiB",
    ]
    assert [count_text(value) for value in (0, 999, 1000, 523_400_000, 4_370_000_000, 10**400)] == [
        "0",
        "999",
        "1.00 k",
        "523 M",
        "4.37 G",
        "very many ",
    ]
    assert (count_of(1, "task"), count_of(2, "task"), count_of(0, "task")) == ("1 task", "2 tasks", "0 tasks")
    assert (shape_text((1, 3)), shape_text(())) == ("1x3", "scalar")
    assert (numbers_text((255.0, 255.0)), numbers_text((1.5, 2.0)), numbers_text(())) == ("255", "1.5 2", "")
