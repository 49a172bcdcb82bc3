"""Programs without their start: a Python that has imported what others needed, and forks for each of them.

    with WarmPython() as python:
        result = python.run(["-c", "import numpy; print(numpy.pi)"], folder, environment)

Half of the processor time of a short `openrknn` command is spent on importing. What two programs have imported is
imported once in the process that forks, so the third begins with it. A program has its own process, folder, variables
and streams as otherwise; the interpreter's own options are those of the process that forks. Where a fresh interpreter
is what a test is about (what is imported, how long it takes, signals), it starts one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["WarmPython"]

ROOT = Path(__file__).resolve().parents[1]
_ROOTS = frozenset({"numpy", "onnx", "openrknn", "rich", "PIL", "google", "ml_dtypes"})
"""Packages that may be imported ahead."""
_THREADED = "onnxruntime"
"""It starts a thread, for which a child would wait at its end: neither it nor what imports it is imported ahead."""
_NEEDED = 2
"""What so many programs have imported is imported ahead."""


class WarmPython:
    """A process that forks; `run` is `subprocess.run` of a Python program, with its output captured."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._cpu_seconds = 0.0
        self._here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-W", "error", "-m", "tests.warm", str(there.fileno())]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "PYTHONUTF8": "1"}, stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )  # fmt: skip
        self._answers = self._here.makefile("r", encoding="utf-8")

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `-c TEXT ...` or `-m openrknn.cli ...` in `folder`, with these variables and no others."""
        # After an interrupted wait the program may still write there while the folder is removed.
        with tempfile.TemporaryDirectory(prefix="orknn", ignore_cleanup_errors=True) as place:
            # Files, not pipes: a program may leave others behind, which keep a pipe open.
            streams = [f"{place}/out", f"{place}/err"]
            request = {
                "words": list(words), "folder": str(folder), "environment": dict(environment), "streams": streams,
                "imported": f"{place}/imported",
            }  # fmt: skip
            answer = self._ask(request)
            out, err = (Path(name).read_text(encoding="utf-8", errors="replace") for name in streams)
        self._count(answer["cpu_seconds"])
        return subprocess.CompletedProcess(list(words), answer["code"], out, err)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._here.sendall(f"{json.dumps(request)}\n".encode())
            return dict(json.loads(self._answers.readline()))
        except BaseException:  # the time limit of a test, perhaps: the next must not get the answer to this one
            self.close()
            self._start()
            raise

    def _count(self, seconds: float) -> None:
        """What programs cost is known to this process only when the one that forks has ended."""
        from tests import times  # not in the process that forks

        self._cpu_seconds += seconds
        times.add(seconds)

    def close(self) -> None:
        self._answers.close()
        self._here.close()
        self._process.kill()
        self._process.wait()
        self._count(-self._cpu_seconds)

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ----------------------------------------------------------------------------------------------------------------------
# The process that forks


def _serve(connection: socket.socket) -> None:
    needed: Counter[str] = Counter()
    for line in connection.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        gc.freeze()
        child = os.fork()
        if child == 0:
            connection.close()
            _become(request)
        _, status, usage = os.wait4(child, 0)
        with contextlib.suppress(FileNotFoundError):  # where it was killed
            _import_ahead(Path(request["imported"]).read_text(encoding="utf-8").split(), needed)
        answer = {"code": os.waitstatus_to_exitcode(status), "cpu_seconds": usage.ru_utime + usage.ru_stime}
        connection.sendall(f"{json.dumps(answer)}\n".encode())


class _Refusal:
    """As an entry of `sys.meta_path`: what has threads is not found, and no `except ImportError` hides that."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == _THREADED:
            raise RuntimeError(name)


def _import_ahead(names: Sequence[str], needed: Counter[str]) -> None:
    needed.update(name for name in names if name.partition(".")[0] in _ROOTS)
    refusal: Any = _Refusal()
    sys.meta_path.insert(0, refusal)
    for name in names:  # in the order in which the program has imported them
        package, _, last = name.rpartition(".")
        # A package that offers `read` of its module `read` imports that by itself, when it is asked for it.
        is_hidden = last in getattr(sys.modules.get(package), "__all__", ())
        if needed[name] >= _NEEDED and name not in sys.modules and not is_hidden:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    sys.meta_path.remove(refusal)


def _become(request: dict[str, Any]) -> NoReturn:
    """Be the program; this process ends as an interpreter does that has run it."""
    before = set(sys.modules)
    for number, path in zip((1, 2), request["streams"], strict=True):
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    option, what, *rest = request["words"]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    try:
        if option == "-c":
            sys.argv, sys.path[0] = ["-c", *rest], ""
            exec(compile(what, "<string>", "exec"), main.__dict__)
            raise SystemExit(0)
        sys.argv, sys.path[0] = [what, *rest], request["folder"]
        start = importlib.import_module(f"{what}.__main__").start
        raise SystemExit(start())
    finally:
        names = [name for name in sys.modules if name not in before]
        Path(request["imported"]).write_text(" ".join(names), encoding="utf-8")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _connection:
        _serve(_connection)
