"""The child process that converts untrusted files: what it can reach, and how each of its ends is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import openrknn
from openrknn import sandbox
from openrknn.sandbox import landlock

ROOT = Path(__file__).parents[2]
LIBRARY = Path(openrknn.__file__).parents[1]
WORKER = "tests.sandbox.prober"
SMALL = sandbox.Limits(memory=1 << 30, seconds=30)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(LIBRARY)]))


def ask(do: str, limits: sandbox.Limits = SMALL, **more: str) -> sandbox.Result:
    with sandbox.private_folder() as folder:
        return sandbox.run(WORKER, {"do": do, **more}, folder, limits)


def test_it_reaches_its_own_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")
    monkeypatch.setenv("OPENRKNN_TEST_TOKEN", "secret")
    found = ask("probe", secret=str(secret))
    told = json.loads(found.data)
    assert told["token"] is None
    reached = set(told["worked"])
    expected = {"own file", "thread"}
    if sandbox.FILES not in found.guards:
        assert not landlock.version()
        expected |= {"read", "write", "list", "link", "environment of the parent"}
    if sandbox.NETWORK not in found.guards:
        expected |= {"socket", "udp", "program", "fork", "kill", "chmod"}
    assert reached <= expected
    assert {"own file", "thread"} <= reached
    if sandbox.FILES in found.guards:
        assert secret.read_text() == "token"


def test_bytes_come_back_and_errors_are_plain_text() -> None:
    assert ask("answer", text="model").data == b"model"
    refused = ask("refuse")
    assert (refused.refusal, refused.is_named, refused.data) == ("is  [31mnot good", True, b"")
    failed = ask("fail")
    assert (failed.refusal, failed.is_named) == ("KeyError: \"a library's exception\"", False)
    assert "OPENRKNN_IMPORT_MEMORY" in ask("memory").refusal


@pytest.mark.parametrize("modules", ["src", "src::"])
def test_a_relative_import_path(modules: str, tmp_path: Path) -> None:
    """The child starts in the private folder: a relative or empty entry must not name a folder of the model's files."""
    package = tmp_path / "src" / "prober"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import sys\ndef convert(order): return '\\n'.join(sys.path).encode()\n")
    (tmp_path / "src" / "openrknn").symlink_to(Path(openrknn.__file__).parent)
    program = """
import os, sys
from openrknn import sandbox
with sandbox.private_folder() as folder:
    made = sandbox.run("prober", {}, folder, sandbox.Limits(1 << 30, 60))
    assert not made.refusal, made.refusal
    assert str(folder) not in made.data.decode(), made.data
print("found")
"""
    environment = {**os.environ, "PYTHONPATH": modules}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "found\n", done.stderr


@pytest.mark.parametrize(("do", "limits", "message"), [
    ("kill", SMALL, "was killed, probably because the machine has no memory left"),
    ("crash", SMALL, "crashed with SIGSEGV"),
    ("leave", SMALL, "ended with status 3: no message"),
    ("spin", sandbox.Limits(1 << 30, 1), "took"),
    ("write", sandbox.Limits(1 << 30, 30, 1 << 20), "ended with status 1: .*File too large"),
])  # fmt: skip
def test_every_other_end_is_a_named_error(do: str, limits: sandbox.Limits, message: str) -> None:
    with pytest.raises(sandbox.SandboxError, match=message):
        ask(do, limits)


PARENT = """
import signal
from openrknn import sandbox
signal.signal(signal.SIGINT, signal.default_int_handler)
with sandbox.private_folder() as folder:
    print(folder, flush=True)
    sandbox.run("tests.sandbox.prober", {"do": "spin"}, folder, sandbox.Limits(1 << 30, 60))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_child_ends_with_its_parent(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        folder = parent.stdout.readline().strip()
        child = wait_for(lambda: children_in(folder))
        assert child
        parent.send_signal(number)
        parent.wait(20)
        assert wait_for(lambda: not children_in(folder))
        assert not os.path.exists(folder) or number == signal.SIGKILL


def children_in(folder: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == folder and spent(entry):
                found.append(entry.name)
        except OSError:
            continue
    return found


def spent(process: Path) -> bool:
    """Whether it is not a zombie."""
    return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(what: object) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False
