"""The shell commands of docs/serve.md, against a server on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.serve.server import running
from openrknn.serve.settings import Settings
from tests.docs.code_blocks import ROOT, _compare, collect, commands

PAGE = ROOT / "docs" / "serve.md"
BLOCKS = [block for block in collect("docs/serve.md", PAGE.read_text()) if block.language == "console"]
ASKING = [block for block in BLOCKS if (block.reason or "").endswith("against a server on a free port")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here (Debian: apt install curl)")
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    assert len(ASKING) == 3
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    all_commands = [command for block in BLOCKS for command, _ in commands(block.text)]
    start = next(command for command in all_commands if command.startswith("openrknn serve examples"))
    with running(Settings([ROOT / start.split()[-1]], http_port=0, grpc_port=0)) as server:
        for block in ASKING:
            for command, shown in commands(block.text):
                real = command.replace("http://127.0.0.1:8000", server.url)
                assert real != command
                result = subprocess.run(
                    ["bash", "-c", real], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
                )
                assert result.returncode == 0, result.stderr
                _compare(command, shown, result.stdout)
