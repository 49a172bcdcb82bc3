"""The shell commands of docs/serve.md, against a server on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.voices import make_sets, open_fake, wav
from tools.code_blocks import ROOT, collect, commands, compare

PAGE = ROOT / "docs" / "serve.md"
ALL = collect("docs/serve.md", PAGE.read_text())
BLOCKS = [block for block in ALL if block.language == "console"]
VOICES = [block for block in ALL if (block.reason or "").endswith("against a server with voices on a free port")]
ASKING = [block for block in BLOCKS if (block.reason or "").endswith("against a server on a free port")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here (Debian: apt install curl)")
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    assert len(ASKING) == 3
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    all_commands = [command for block in BLOCKS for command, _ in commands(block.text)]
    start = next(command for command in all_commands if command.startswith("openrknn serve examples"))
    with running(Settings([ROOT / start.split()[-1]], http_port=0, grpc_port=0)) as server:
        for block in ASKING:
            run_console(block.text, server, tmp_path)


def run_console(text: str, server: Server, folder: Path) -> None:
    """Its commands, asked of our server, show what the page shows."""
    for command, shown in commands(text):
        real = command.replace("http://127.0.0.1:8000", server.url)
        assert real != command
        result = subprocess.run(
            ["bash", "-c", real], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        compare(command, shown, result.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here (Debian: apt install curl)")
def test_the_voices_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "speech.wav").write_bytes(wav(1, 2))
    sets = make_sets(tmp_path, "moonshine-tiny", "en_US-lessac-medium")
    settings = Settings([], voices=sets, http_port=0, grpc_port=None, workers="in-process")
    with running(settings, open_voice=open_fake) as server:
        assert [block.language for block in VOICES] == ["console", "python"]
        run_console(VOICES[0].text, server, tmp_path)
        exec(VOICES[1].text.replace("http://127.0.0.1:8000", server.url), {})
    assert capsys.readouterr().out.splitlines() == [
        "one two", "transcript.text.delta", "transcript.text.delta", "transcript.text.done",
    ]  # fmt: skip
    assert (tmp_path / "tea.wav").read_bytes().startswith(b"RIFF")
