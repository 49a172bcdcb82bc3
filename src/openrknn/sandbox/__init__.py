"""Runs a converter of untrusted files in a child process that cannot reach other files, the network or other processes.

The child is limited by rlimits, `no_new_privs`, a seccomp filter and Landlock (`confine`). What comes back are bytes
and one line of JSON, never a pickle: the caller checks both. A kernel without Landlock or seccomp leaves the other
guards in place; `Result.guards` names those that were active.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from openrknn.errors import RknnError

__all__ = ["FILES", "NETWORK", "Limits", "Result", "SandboxError", "private_folder", "run"]

FILES, NETWORK = "files", "network"
"""Names of guards: no files besides those of the interpreter and the private folder; no sockets and no programs."""

_START = (
    "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[2]]; from openrknn.sandbox.child import main; main()"
)
"""The current folder has the files of the model, and is never a folder of modules."""
_LIBRARY = str(Path(__file__).resolve().parents[2])
"""The child imports this package from where the parent has it, also when it is not installed."""
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables that the child keeps. Tokens and proxies of the caller are not among them."""
_THREADS = "2"
_MOST_HEADER = 1 << 16
_MOST_TEXT = 500
_GRACE_SECONDS = 5


class SandboxError(RknnError):
    """The child ended without an answer: a crash, a limit, or a signal. The message says which."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may use."""

    memory: int
    """Bytes of private writable memory."""
    seconds: float
    """Of wall-clock time."""
    file_bytes: int = (1 << 31) + (1 << 20)
    """Of each file that it writes, the result included."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of the child: `data`, or why there is none."""

    data: bytes
    refusal: str = ""
    """Text of a named openrknn error, or of the library's exception."""
    is_named: bool = True
    """Whether the refusal is an openrknn error; else an exception of the library, with its type."""
    guards: frozenset[str] = frozenset()


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder for the files of one child, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="openrknn-import-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run(
    worker: str, request: Mapping[str, Any], folder: Path, limits: Limits,
    environment: Mapping[str, str] | None = None, *, required: frozenset[str] = frozenset(),
) -> Result:  # fmt: skip
    """Call `convert(request)` of the module `worker` in a child that may write to `folder` only.

    Without all `required` guards (`FILES`, `NETWORK`) the child refuses before it imports the worker.
    """
    order = {
        "worker": worker, "request": dict(request), "folder": str(folder), "memory": limits.memory,
        "required": sorted(required),
        "seconds": limits.seconds, "file_bytes": limits.file_bytes, "parent": os.getpid(),
    }  # fmt: skip
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
        try:
            code = _spawn(json.dumps(order).encode(), limits, answer, errors, _environment(folder, environment))
        except subprocess.TimeoutExpired:
            raise SandboxError(
                f"took longer than {limits.seconds:g} seconds; allow more with OPENRKNN_IMPORT_SECONDS"
            ) from None
        except OSError as error:
            raise SandboxError(f"its process cannot be started: {error.strerror or error}") from None
        found = _answer(answer)
        if found is None:
            raise SandboxError(_ended(code, limits, errors))
    return found


def _spawn(
    order: bytes, limits: Limits, answer: IO[bytes], errors: IO[bytes], environment: Mapping[str, str]
) -> int:
    """The exit status of the child. It ends before this function does, whatever happens."""
    command = [sys.executable, "-c", _START]
    # Its output goes to files: a pipe would have to be read into the memory of this process.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*command, str(answer.fileno()), _LIBRARY], stdin=subprocess.PIPE, stdout=said, stderr=errors,
            cwd=environment["HOME"], env=dict(environment), pass_fds=(answer.fileno(),),
        )  # fmt: skip
        try:
            process.communicate(order, timeout=limits.seconds + _GRACE_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    return process.returncode


def _environment(folder: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if modules := kept.pop("PYTHONPATH", ""):  # the child starts in another folder
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in modules.split(os.pathsep) if path)
    private = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(folder))
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS",
         "TF_NUM_INTEROP_THREADS", "MALLOC_ARENA_MAX"), _THREADS,
    )  # fmt: skip
    return {**kept, **private, **threads, "USER": "openrknn", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}


def _answer(file: IO[bytes]) -> Result | None:
    """What the child wrote; nothing if it did not come to an end, or wrote something else."""
    file.seek(0)
    line = file.readline(_MOST_HEADER)
    try:
        head = json.loads(line)
        guards, refusal, named, size = head["guards"], head["refusal"], head["named"], head["size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(guards, list) or not isinstance(refusal, str) or not isinstance(named, bool):
        return None
    active = frozenset({FILES, NETWORK} & {one for one in guards if isinstance(one, str)})
    if refusal:
        return Result(b"", _plain(refusal), named, active)
    data = file.read()
    return Result(data, "", True, active) if len(data) == size else None


def _ended(code: int, limits: Limits, errors: IO[bytes]) -> str:
    memory = (
        f"It may use {limits.memory / 2**30:.1f} GB; allow more with OPENRKNN_IMPORT_MEMORY (such as 8G) if you trust "
        "the file"
    )
    if code == -signal.SIGXCPU:
        return "took too much processor time; allow more with OPENRKNN_IMPORT_SECONDS"
    if code == -signal.SIGKILL:
        return f"its process was killed, probably because the machine has no memory left. {memory}"
    if code < 0:
        return f"its process crashed with {_signal_name(-code)}. {memory}"
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(size - _MOST_HEADER, 0))
    lines = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f"its process ended with status {code}: {_plain(lines[-1]) if lines else 'no message'}. {memory}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _plain(text: str) -> str:
    """One line without control characters: it comes from a process that read an untrusted file."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))[:_MOST_TEXT]
