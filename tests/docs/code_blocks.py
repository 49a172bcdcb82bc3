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
from tools.code_blocks import MISSPELT, ROOT, Block, collect, commands, compare, pages

__all__ = ["MISSPELT", "ROOT", "Block", "collect", "commands", "pages", "run"]


def run(block: Block, folder: Path) -> None:
    """Run a block in `folder`; an AssertionError says what went wrong."""
    (folder / "examples").symlink_to(ROOT / "examples")
    with tempfile.TemporaryDirectory(prefix="orknn") as place:  # short: paths of sockets have 107 bytes
        socket = f"{place}/engine"
        try:
            if block.language == "python":
                _execute([sys.executable, "-W", "error", "-c", block.text], folder, socket)
            else:
                for command, expected in commands(block.text):
                    compare(command, expected, _execute(["bash", "-c", command], folder, socket))
        finally:
            engine = running_engine(socket)
            if engine is not None:
                stop_engine(engine)


def _execute(command: list[str], folder: Path, socket: str) -> str:
    # The commands of this environment come first; rich draws for a terminal of this width.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1", SOCKET_VARIABLE: socket}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout
