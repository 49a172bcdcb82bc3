"""Every way to call it wrong: one line that says what to do, and an exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import openrknn
from openrknn.cli import inspect
from openrknn.cli.commands import NAMES, load_command
from tests.cli.run import messages, program, run
from tests.container.places import golden

Capture = pytest.CaptureFixture[str]


def test_the_version_with_what_a_bug_report_needs(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_DEVICE", "software")
    monkeypatch.setenv("OPENRKNN_SOME_TOKEN", "do not print")
    result = run(capsys, "--version", "--verbose")
    assert result.code == 0
    heads = [line.split()[0] for line in result.out.splitlines()]
    assert heads == ["openrknn", "python", "machine", "kernels", "npu", "packages", "variables"]
    assert f"openrknn   {openrknn.__version__} in " in result.out
    assert "numpy " in result.out
    assert "OPENRKNN_DEVICE=software" in result.out
    assert "do not print" not in result.out


def test_version(capsys: Capture) -> None:
    assert run(capsys, "--version").out == f"openrknn {openrknn.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    text = "import sys; from openrknn.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    text += "print(*sorted({'numpy', 'rich', 'ctypes', 'openrknn.container'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    assert all(name in done.stdout for name in NAMES)


def test_no_command_shows_the_help(capsys: Capture) -> None:
    result = run(capsys)
    assert (result.code, result.out) == (2, "")
    assert "examples:" in result.err


@pytest.mark.parametrize("name", NAMES)
def test_each_command_explains_itself(name: str, capsys: Capture) -> None:
    command = load_command(name)
    assert name == command.NAME
    result = run(capsys, name, "--help")
    assert result.code == 0
    assert f"openrknn {name}" in result.out
    assert "--debug" in result.out


def test_the_table_knows_the_first_commands() -> None:
    assert {"inspect", "disasm", "completion"} <= set(NAMES)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """Paths that are no model, by what is wrong with them."""
    made = {name: tmp_path / f"{name}.rknn" for name in ("missing", "directory", "empty", "truncated", "png", "text")}
    made["directory"].mkdir()
    made["empty"].write_bytes(b"")
    made["truncated"].write_bytes(golden("conv_rk3588_i8").read_bytes()[:5000])
    made["png"].write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    made["text"].write_text("hello world\n" * 20)
    return {**made, "device": Path(os.devnull)}


@pytest.mark.parametrize("command", ["inspect", "disasm"])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("missing", "no such file; check the path"),
        ("directory", "this is a directory; give the .rknn file in it"),
        ("empty", "the file is empty; copy or download it again"),
        ("truncated", "was the download or copy cut off?"),
        ("png", "it looks like a PNG picture"),
        ("text", "not a .rknn file"),
        ("device", "not a regular file"),
    ],
)
def test_a_wrong_file_is_one_line(
    command: str, place: str, message: str, places: dict[str, Path], capsys: Capture
) -> None:
    result = run(capsys, command, places[place])
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"openrknn: {places[place]}: ")
    assert message in result.err
    assert messages(result.err) == 1


def test_an_unreadable_file(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("openrknn.container.load.load", refuse)
    result = run(capsys, "inspect", golden("conv_rk3588_i8"))
    assert result.code == 2
    assert "permission denied; check the permissions" in result.err


def test_a_strange_name_stays_on_one_line(capsys: Capture) -> None:
    result = run(capsys, "inspect", "a\nb\x1b[2J.rknn")
    assert result.err == "openrknn: a\\x0ab\\x1b[2J.rknn: no such file; check the path\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vision", "get", "coco-ssd"], "there is no command 'vision'; did you mean 'models'?"),
        (["inspct"], "there is no command 'inspct'; did you mean 'inspect'?"),
        (["frobnicate"], "there is no command 'frobnicate'; there are run"),
        (["some.rknn"], "'some.rknn' is a file, not a command; try `openrknn inspect some.rknn`"),
        (["inspect"], "the following arguments are required: FILE; see `openrknn inspect --help`"),
        (["inspect", "--graph", "x", "y"], "argument --graph: invalid int value: 'x'"),
        (["inspect", "a", "--zzz"], "unrecognized arguments: --zzz; see `openrknn inspect --help`"),
        (["run", "a", "--inptu=x"], "arguments: --inptu=x; did you mean --input? see `openrknn run --help`"),
        (["models", "gte", "x"], "invalid choice: 'gte'"),
        (["models", "gte", "x"], "; did you mean 'get'? see `openrknn models --help`"),
        (["trace", "timelin", "x"], "; did you mean 'timeline'? see `openrknn trace --help`"),
        (["run", "x", "--color", "alwasy"], "; did you mean 'always'? see `openrknn run --help`"),
        (["completion", "tcsh"], "argument SHELL: invalid choice: 'tcsh'"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: Capture) -> None:
    result = run(capsys, *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert messages(result.err) == 1


def test_debug_shows_the_traceback() -> None:
    result = program("inspect", "missing.rknn", "--debug")
    assert result.code == 1
    assert "Traceback" in result.err
    assert "Traceback" not in program("inspect", "missing.rknn").err


def test_control_c(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "run", interrupted)
    assert run(capsys, "inspect", "x.rknn") == (130, "", "")


def test_a_closed_pipe_is_silent() -> None:
    command = [sys.executable, "-m", "openrknn.cli", "inspect", "--json", str(golden("residual_rk3588_i8"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_full_disk_is_one_line() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    command = [sys.executable, "-m", "openrknn.cli", "inspect", str(golden("conv_rk3588_i8"))]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "openrknn: No space left on device\n")


_ENDED = {">&-": 0, "2>&-": 0, "<&-": 0, "<&- >&- 2>&-": 0, "| head -n 1": 0, "2>/dev/full": 0, ">/dev/full": 2}


def test_standard_streams_may_be_closed() -> None:
    """`openrknn COMMAND >&-` ended with AttributeError: Python has None for a closed stream."""
    text = (
        "import os, sys\n"
        "for name in ('stdin', 'stdout', 'stderr'): setattr(sys, name, None); setattr(sys, f'__{name}__', None)\n"
        "for number in (0, 1, 2): os.close(number)\n"
        "from openrknn.cli.main import main\n"
        "from openrknn.cli.commands import NAMES\n"
        "code = main([]) - 2\n"
        "for name in NAMES:\n"
        "    try: code += main([name, '--help'])\n"
        "    except SystemExit as stop: code += stop.code\n"
        "assert all(os.fstat(number).st_rdev == os.stat(os.devnull).st_rdev for number in (0, 1, 2))\n"
        "os._exit(code)"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


@pytest.mark.parametrize(("redirection", "code"), _ENDED.items())
def test_redirections(redirection: str, code: int) -> None:
    model = golden("conv_rk3588_i8")
    line = f"{sys.executable} -m openrknn.cli inspect {model} {redirection}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
    bad = subprocess.run(["bash", "-c", line.replace(str(model), "none")], capture_output=True, text=True, check=False)
    assert (bad.returncode, "Traceback" in bad.stderr) == (0 if "|" in redirection else 2, False), bad
