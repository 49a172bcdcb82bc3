"""A shell at a terminal, into which a test types as a user would: text, the tabulator, enter."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

_READY = "READY>"
_SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], f"PS1='{_READY}' PS2=; unset PROMPT_COMMAND"),
    # Nothing is highlighted or pasted in brackets: the terminal is a plain one.
    "zsh": (["zsh", "-f", "-i"], f"PS1='{_READY}'; unset zle_bracketed_paste; autoload -U compinit; compinit -u -D"),
}
_WRAPPER = (
    "openrknn() { if [ \"$1\" = completion ]; then command openrknn \"$@\"; else printf 'ARGS:%s:END\\n' \"$*\"; fi; }"
)
_PATIENCE = 60.0


class TypingShell:
    """`complete("openrknn voice get cr")` is what the line becomes after the tabulator, as the command is given it."""

    def __init__(self, shell: str, script: Path, folder: Path) -> None:
        command, setup = _SHELLS[shell]
        if shutil.which(command[0]) is None:
            pytest.skip(f"{shell} is not installed")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "TERM": "dumb", "HOME": str(folder), "HISTFILE": "/dev/null"}
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self._seen = ""
        for line in (setup, _WRAPPER, f"source {script}", "echo SET''TLED"):
            self._type(f"{line}\n")
        self._until("SETTLED")
        self._until(_READY)

    def complete(self, line: str) -> str:
        """The words after `openrknn`."""
        self._type(f"{line}\t\n")
        words = self._until(":END").rpartition("ARGS:")[2].removesuffix(":END")
        self._until(_READY)
        return words.rstrip()

    def close(self) -> None:
        """End the shell."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._terminal)

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _until(self, mark: str) -> str:
        """What the terminal showed up to the mark."""
        deadline = time.monotonic() + _PATIENCE
        while mark not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"the shell did not show {mark!r}, but {self._seen[-500:]!r}"
            self._seen += os.read(self._terminal, 65536).decode(errors="replace").replace("\r", "")
        before, _, self._seen = self._seen.partition(mark)
        return before + mark
