"""One run of a program with the open library in the place of the vendor's: a folder for it, and an engine of its own.

    FOLDER/lib/librknnrt.so, librknnmrt.so    links to the library for the program's machine
    FOLDER/lib/librkllmrt.so                  the same for language models
    FOLDER/lib/openrknn-engine                starts an engine like the first one, should that die
    FOLDER/engine                             the socket of the engine
    FOLDER/paths, root/                       where programs look for the vendor's library, without an emulated device

The engine runs on the machine's own processor even if the program does not (qemu passes sockets and memory through),
and on the emulated device if the program does. It belongs to this run: it sees this run's device and no other, and it
is ended with it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from openrknn.capi.engine import IDLE_VARIABLE
from openrknn.capi.engine_process import running_engine, stop_engine
from openrknn.capi.parts import LLM_NAME, NAMES, PYTHON_ENGINE, library_for
from openrknn.capi.wire import ENGINE_VARIABLE, SOCKET_VARIABLE
from openrknn.errors import RknnError
from openrknn.fakekernel.launch import Command, machine_of, prepare, program_of
from openrknn.fakekernel.links import make_links
from openrknn.fakekernel.preload import host_machine
from openrknn.fakekernel.preload import library_for as preload_for
from openrknn.fakekernel.protocol import ENVIRONMENT
from openrknn.vendor.library.find import FOLDERS

_IDLE_S = "600"
"""Long, because the program may think before it asks; not unlimited, because this process may be killed."""
_START_S = 30.0
_STARTER = """\
#!/bin/sh
# openrknn: an engine for this run; LD_PRELOAD is the program's, perhaps for another processor.
{variables}exec {command} "$@"
"""


class EngineError(RknnError):
    """The engine of a run could not be started."""


def library_of(words: Sequence[str], name: str = NAMES[0]) -> Path:
    """The open library for the machine of a program."""
    return library_for(machine_of(Path(program_of(words))), name)


class OpenRun:
    """The folder and the engine of a run, on the emulated device in `device`, or on what the machine has."""

    def __init__(self, words: Sequence[str], device: Path | None) -> None:
        self._words, self._device = words, device
        self.folder = Path(tempfile.mkdtemp(prefix="openrknn-open-"))
        self._engine: int | None = None

    @property
    def socket(self) -> Path:
        """Where the engine listens."""
        return self.folder / "engine"

    @property
    def command(self) -> Command:
        """What to execute."""
        place = self.folder if self._device is None else self._device
        starter = self.folder / "lib/openrknn-engine"
        names = {ENVIRONMENT: str(place), SOCKET_VARIABLE: str(self.socket)}
        if " " not in str(starter):  # the variable is split at blanks; beside the library it is found without it
            names[ENGINE_VARIABLE] = str(starter)
        return prepare(self._words, names, place, instead=self.folder / "lib")

    def __enter__(self) -> OpenRun:
        try:
            self._fill({**dict.fromkeys(NAMES, library_of(self._words)), LLM_NAME: library_of(self._words, LLM_NAME)})
            self._start()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _fill(self, libraries: Mapping[str, Path]) -> None:
        folder = self.folder / "lib"
        folder.mkdir()
        for name, library in libraries.items():
            (folder / name).symlink_to(library)
        starter = folder / "openrknn-engine"
        starter.write_text(_STARTER.format(variables=_assignments(self._changes()), command=shlex.join(PYTHON_ENGINE)))
        starter.chmod(0o755)
        if self._device is None:
            make_links(self.folder, {f"{place}/{name}": path for place in FOLDERS for name, path in libraries.items()})

    def _changes(self) -> dict[str, str]:
        """The engine's variables: those of this process, and on an emulated device what shows it."""
        names = {SOCKET_VARIABLE: str(self.socket), "LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}
        names["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
        if self._device is not None:
            names |= {ENVIRONMENT: str(self._device), "LD_PRELOAD": str(preload_for(host_machine()))}
        return names

    def _start(self) -> None:
        environment = {**os.environ, **self._changes(), IDLE_VARIABLE: _IDLE_S}
        log = self.folder / "log"
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        words = [*PYTHON_ENGINE, "--foreground"]
        # Signals are held back in this process (they are for the program), and the terminal's are not for the engine.
        pid = os.posix_spawn(words[0], words, environment, file_actions=actions, setsid=True, setsigmask=())
        self._engine = pid
        end = time.monotonic() + _START_S
        while not self.socket.exists():  # it listens long before it is ready: programs wait in the queue
            if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > end:
                said = log.read_text(errors="replace").strip().splitlines()
                reason = said[-1] if said else "it gave no reason"
                raise EngineError(f"the engine of librknnrt.so did not start: {reason}")
            time.sleep(0.005)

    def _leave(self) -> None:
        # The one of the beginning, or one that the library started after its death.
        running = running_engine(str(self.socket))
        if running is not None:
            stop_engine(running)
        if self._engine is not None:
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(self._engine, os.WNOHANG)[0]:
                    os.kill(self._engine, signal.SIGKILL)
                    os.waitpid(self._engine, 0)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


def _assignments(names: Mapping[str, str]) -> str:
    return "".join(_assignment(name, value) for name, value in names.items())


def _assignment(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}; export {name}\n" if value else f"unset {name}\n"
