"""Compiles one hostile file in a forked process, and says what happened: code, files that were opened, errors."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.fuzzing.build import ROOT
from tools.fuzzing_importers.seeds import Seed

__all__ = ["BAD", "OUTCOMES", "Judge", "Verdict"]

OUTCOMES = ("compiled", "refused", "FOREIGN", "CRASH", "HANG", "MEMORY", "CODE", "READ")
BAD = OUTCOMES[2:]
_PAGE = os.sysconf("SC_PAGE_SIZE")
_OPENED = 0x20  # IN_OPEN, linux/inotify.h
_RUNS = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "socket.bind"}
_HARMLESS_PICKLES = ("torch", "collections", "numpy", "openrknn", "onnx", "tensorflow", "keras", "copyreg", "builtins")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one file."""

    outcome: str
    detail: str
    seconds: float
    rss: int


class Judge:
    """Works in a folder of its own: `model/` has the file, `secret.bin` and `outside/secret.bin` must not be opened."""

    def __init__(self, work: Path, *, seconds: float, memory: int, is_checked: bool) -> None:
        self.work, self._seconds, self._memory, self._is_checked = work, seconds, memory, is_checked
        self.model, self.sentinel = work / "model", work / "sentinel"
        for folder in (self.model, work / "outside", work / "tmp", work / "cache"):
            folder.mkdir(parents=True, exist_ok=True)
        self.secret = str(work / "outside" / "secret.bin")
        for path in (self.secret, work / "secret.bin"):
            Path(path).write_bytes(bytes(1 << 16))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watch = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in (self.secret, work / "secret.bin"):
            self._libc.inotify_add_watch(self._watch, str(path).encode(), _OPENED)
        tempfile.tempdir = str(work / "tmp")
        os.environ.update(OPENRKNN_CACHE=str(work / "cache"), OPENRKNN_IMPORT_SECONDS=str(int(seconds * 0.6) or 1))

    def judge(self, seed: Seed, files: Mapping[str, bytes]) -> Verdict:
        """Write the files, compile them in a fork, and look at everything that they may have done.

        The secret may be opened by a program that searches the machine: a second run has to open it as well.
        """
        verdict = self._judge(seed, files)
        return self._judge(seed, files) if verdict.outcome == "READ" else verdict

    def _judge(self, seed: Seed, files: Mapping[str, bytes]) -> Verdict:
        self._place(files)
        begun = time.monotonic()
        report = self.work / "report"
        report.write_bytes(b"")
        pid = os.fork()
        if pid == 0:
            self._compile(seed, report)
        status, rss, ending = self._wait(pid, begun + self._seconds)
        return self._verdict(report, status, ending, time.monotonic() - begun, rss)

    def _place(self, files: Mapping[str, bytes]) -> None:
        shutil.rmtree(self.model, ignore_errors=True)
        shutil.rmtree(self.work / "tmp", ignore_errors=True)
        (self.work / "tmp").mkdir()
        self.model.mkdir()
        self.sentinel.unlink(missing_ok=True)
        for name, data in files.items():
            (self.model / name).parent.mkdir(parents=True, exist_ok=True)
            (self.model / name).write_bytes(data)
        self._drain()

    def _wait(self, pid: int, end: float) -> tuple[int, int, str]:
        ending, pause = "", 0.002
        while True:
            done, status, used = os.wait4(pid, os.WNOHANG)
            if done:
                return status, used.ru_maxrss * 1024, ending
            if not ending and time.monotonic() > end:
                ending = "HANG"
            elif not ending and _resident(pid) > self._memory:
                ending = "MEMORY"
            if ending:
                os.kill(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.05)

    def _verdict(self, report: Path, status: int, ending: str, seconds: float, rss: int) -> Verdict:
        lines = report.read_text("utf-8", "replace").splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("[") and line.endswith("]")]
        by_kind = {entry[0]: entry[1] for entry in reversed(entries)}
        outcome, detail = "CRASH", f"status {status}"
        for kind in ("compiled", "refused", "FOREIGN"):
            if kind in by_kind:
                outcome, detail = kind, by_kind[kind]
        if ending:
            outcome, detail = ending, f"{seconds:.1f} s, {rss >> 20} MB"
        elif rss > self._memory:
            outcome, detail = "MEMORY", f"{rss >> 20} MB; {detail}"
        if "READ" in by_kind or self._drain():
            outcome, detail = "READ", str(by_kind.get("READ", "the secret was opened"))
        if "CODE" in by_kind or self.sentinel.exists():
            outcome, detail = "CODE", str(by_kind.get("CODE", "the sentinel was written"))
        return Verdict(outcome, detail, seconds, rss)

    def _drain(self) -> bool:
        try:
            return bool(os.read(self._watch, 4096))
        except BlockingIOError:
            return False

    def _compile(self, seed: Seed, report: Path) -> None:
        """In the fork; does not return."""
        descriptor = os.open(report, os.O_WRONLY | os.O_APPEND)

        def say(kind: str, text: str) -> None:
            os.write(descriptor, json.dumps([kind, text[-3000:]]).encode() + b"\n")

        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            warnings.simplefilter("ignore")
            sys.addaudithook(_hook(say, [str(self.model), str(self.work / "tmp"), str(self.work / "cache")]))
            from openrknn.compiler import compile_model
            from openrknn.errors import RknnError

            paths = [str(self.model / name) for name in seed.given]
            source: Any = tuple(paths) if len(paths) > 1 else os.path.normpath(paths[0])
            try:
                compile_model(source, "rk3588", shapes=seed.shapes or None, check=self._is_checked)
                say("compiled", "")
            except RknnError as error:
                say("refused", f"{type(error).__name__}: {error}")
            except BaseException:  # noqa: BLE001  (the question is what else there is)
                say("FOREIGN", traceback.format_exc())
        finally:
            os._exit(0)


def fork_sandbox() -> None:
    """Let the sandbox fork this process, which has the frameworks loaded, instead of starting a new interpreter."""
    from openrknn import sandbox
    from openrknn.sandbox import child

    def spawn(order: bytes, limits: Any, answer: IO[bytes], errors: IO[bytes], environment: Mapping[str, str]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(errors.fileno(), 2)
                os.chdir(environment["HOME"])
                os.environ.update(environment)
                tempfile.tempdir = environment["HOME"]
                child.serve(json.loads(order), answer.fileno())
                os._exit(0)
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                os._exit(1)
        end, pause = time.monotonic() + limits.seconds + 1, 0.005
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise subprocess.TimeoutExpired("sandbox", limits.seconds)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.05)

    sandbox._spawn = spawn


def _hook(say: Any, folders: list[str]) -> Any:
    libraries = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, str(ROOT), *filter(None, sys.path))}
    allowed = tuple(f"{path.rstrip('/')}/" for path in (*folders, *libraries, "/usr", "/lib", "/proc", "/sys", "/dev"))

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        is_pickled = event == "pickle.find_class" and not str(arguments[0]).startswith(_HARMLESS_PICKLES)
        if event in _RUNS or is_pickled:
            say("CODE", f"{event} {str(arguments)[:300]}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike) and not arguments[2] & os.O_PATH:
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not f"{path}/".startswith(allowed) and path != "/etc/os-release":  # ONNX Runtime reads it
                say("READ", path)

    return look


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
