"""Runs the code blocks of a Markdown page (`tools/code_blocks.py` says what they look like).

Every block runs in a folder of its own that has `examples/` of the repository in it; commands end with exit code 0.
Programs that it starts with the open librknnrt.so have an engine of their own, which ends with the block.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from openrknn.capi.engine_process import running_engine, stop_engine
from openrknn.capi.wire import SOCKET_VARIABLE
from tests.warm import WarmPython
from tools.code_blocks import MISSPELT, ROOT, Block, collect, commands, compare, pages

__all__ = ["MISSPELT", "ROOT", "Block", "collect", "commands", "pages", "run"]

_SHELL = frozenset("|&;<>()$`\\\"'*?[]#~={}!")
"""What a shell makes something of."""


def run(block: Block, folder: Path, python: WarmPython) -> None:
    """Run a block in `folder`; an AssertionError says what went wrong."""
    (folder / "examples").symlink_to(ROOT / "examples")
    with tempfile.TemporaryDirectory(prefix="orknn") as place:  # short: paths of sockets have 107 bytes
        socket = f"{place}/engine"
        try:
            if block.language == "python":
                _checked(python.run(["-c", block.text], folder, _environment(socket)))
            else:
                for command, expected in commands(block.text):
                    compare(command, expected, _checked(_command(command, folder, _environment(socket), python)))
        finally:
            engine = running_engine(socket)
            if engine is not None:
                stop_engine(engine)


def _command(
    command: str, folder: Path, environment: dict[str, str], python: WarmPython
) -> subprocess.CompletedProcess[str]:
    """One line of a console; what needs no shell does without, and without the start of an interpreter."""
    name, *words = command.split()
    if name == "openrknn" and not _SHELL.intersection(command):
        return python.run(["-m", "openrknn.cli", *words], folder, environment)
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _environment(socket: str) -> dict[str, str]:
    # The commands of this environment come first; rich draws for a terminal of this width.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1", SOCKET_VARIABLE: socket}


def _checked(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout
