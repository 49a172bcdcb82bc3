"""Workers, the corpus of parents, what failed, and what is said about it."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzzing.build import ROOT, environment
from tools.fuzzing.judge import CRASH, HANG, MEMORY, OUTCOMES, Verdict, Way
from tools.fuzzing.worker import _Work, read_frame, write_frame

__all__ = ["Campaign", "Limits", "Worker", "WorkerLostError", "cause_of"]

_PAGE = resource.getpagesize()
_POLL_SECONDS = 0.2
_MOST_PARENTS = 4000
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one mutant."""

    seconds: float = 20.0
    memory: int = 2 << 30


class WorkerLostError(Exception):
    """The worker died, or had to be ended."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict = Verdict(outcome, detail)


class Worker:
    """A process that judges; it is started again after a mutant has ended it."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker

    def ask(self, request: object) -> dict[str, Any]:
        """Judge one; `WorkerLostError` if that was the end of the process."""
        process = self._process or self._start()
        self._errors.seek(0)
        self._errors.truncate()
        assert process.stdin is not None
        try:
            write_frame(process.stdin, request)  # type: ignore[arg-type]
            answer = self._wait(process, self._limits.seconds)
        except (BrokenPipeError, EOFError):
            raise self._lost(CRASH, f"the process ended with {process.wait()}") from None
        found: dict[str, Any] = answer
        if found["rss"] > self._limits.memory:
            raise self._lost(MEMORY, f"{found['rss'] >> 20} MB")
        return found

    def close(self) -> None:
        """End the process; the worker is not used again."""
        self._end()
        self._errors.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process, contextlib.suppress(BrokenPipeError):
                self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tools.fuzzing.worker", str(self._folder or "")]
        self._process = process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env=dict(environment(self._folder is not None)),
        )  # fmt: skip
        try:
            self._wait(process, _START_SECONDS)
        except EOFError:
            self._errors.seek(0)
            raise SystemExit(f"a worker does not start:\n{self._errors.read().decode(errors='replace')}") from None
        return process

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> Any:
        assert process.stdout is not None
        end = time.monotonic() + seconds
        while not select.select([process.stdout], [], [], _POLL_SECONDS)[0]:
            if time.monotonic() > end:
                raise self._lost(HANG, f"no answer within {seconds:g} s")
            if _resident(process.pid) > self._limits.memory:
                raise self._lost(MEMORY, f"{_resident(process.pid) >> 20} MB")
        answer = read_frame(process.stdout)  # type: ignore[arg-type]
        if answer is None:
            raise EOFError
        return answer

    def _lost(self, outcome: str, detail: str) -> WorkerLostError:
        self._end()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")[-6000:]
        return WorkerLostError(outcome, f"{detail}\n{said}")


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


@dataclass(slots=True)
class _Parent:
    key: int
    name: str
    data: bytes
    seconds: float = 0.01


@dataclass(slots=True)
class Campaign:
    """`run` judges `count` mutants, or as many as `minutes` allow."""

    sources: list[Path]
    seed: int
    keep: Path
    folder: Path | None
    limits: Limits = field(default_factory=Limits)
    log: Path | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    peak: int = 0
    _parents: list[_Parent] = field(default_factory=list)
    _features: set[str] = field(default_factory=set)
    _causes: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0
    _begun: float = 0.0
    _said: float = 0.0

    def run(self, count: int, jobs: int, minutes: float | None) -> int:
        """The number of mutants that failed."""
        self._begun = time.monotonic()
        end = None if minutes is None else self._begun + 60 * minutes
        self._parents = [_Parent(key, path.stem, path.read_bytes()) for key, path in enumerate(self.sources)]
        self._unchanged()
        threads = [threading.Thread(target=self._work, args=(count, end)) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._say(final=True)
        return sum(number for name, number in self.outcomes.items() if name.isupper())

    def table(self) -> str:
        """How many had which outcome."""
        total = max(sum(self.outcomes.values()), 1)
        rows = [f"  {name:18}{self.outcomes[name]:9}{100 * self.outcomes[name] / total:8.2f} %" for name in OUTCOMES]
        causes = [f"  {number:6} x {cause}" for cause, number in self._causes.most_common(40)]
        return "\n".join((*rows, *(["failures by cause:"] if causes else []), *causes))

    def _unchanged(self) -> None:
        """The sources as they are: what they reach is known, and those that no session runs are left out."""
        worker, kept = Worker(self.folder, self.limits), []
        for parent in self._parents:
            answer = worker.ask((parent.key, parent.data, "", Way()))
            verdict: Verdict = answer["verdict"]
            if verdict.failed:
                raise SystemExit(f"{parent.name} itself: {verdict.outcome}: {verdict.detail}")
            if verdict.outcome == "equal":
                parent.seconds = answer["seconds"]
                self._features |= answer["new"]
                kept.append(parent)
        worker.close()
        self._parents = kept

    def _work(self, count: int, end: float | None) -> None:
        worker = Worker(self.folder, self.limits)
        while True:
            with self._lock:
                if self._next >= count or (end is not None and time.monotonic() > end):
                    break
                number, self._next = self._next, self._next + 1
                rng = random.Random(f"{self.seed}:{number}:parent")
                parent = rng.choices(self._parents, [1 / (0.01 + entry.seconds) for entry in self._parents])[0]
            seed = f"{self.seed}:{number}"
            try:
                answer = worker.ask((parent.key, parent.data, seed, None))
            except WorkerLostError as lost:
                data, way = _Work().mutant(parent.key, parent.data, seed)
                answer = {"verdict": lost.verdict, "new": set(), "data": data, "way": way, "seconds": 0.0, "rss": 0}
            with self._lock:
                self._take(number, parent, answer)
        worker.close()

    def _take(self, number: int, parent: _Parent, answer: dict[str, Any]) -> None:
        verdict: Verdict = answer["verdict"]
        self.outcomes[verdict.outcome] += 1
        self.slowest, self.peak = max(self.slowest, answer["seconds"]), max(self.peak, answer["rss"])
        if verdict.failed:
            self._keep(f"{self.seed}-{number}", parent, answer)
        elif verdict.outcome != "not loaded" and answer["new"] - self._features and answer["data"] is not None:
            key = len(self.sources) + number
            self._parents.append(_Parent(key, parent.name, answer["data"], answer["seconds"]))
            if len(self._parents) > _MOST_PARENTS:
                del self._parents[len(self.sources)]
        self._features |= answer["new"]
        if time.monotonic() - self._said > 5:
            self._say()

    def _keep(self, name: str, parent: _Parent, answer: dict[str, Any]) -> None:
        verdict: Verdict = answer["verdict"]
        cause = cause_of(verdict)
        self._causes[cause] += 1
        if self._causes[cause] > 5:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        (self.keep / f"{name}.rknn").write_bytes(answer["data"])
        record = {"parent": parent.name, "seed": name, "cause": cause, **verdict.record(answer["way"])}
        (self.keep / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")

    def _say(self, *, final: bool = False) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._begun
        done = sum(self.outcomes.values())
        shown = ", ".join(f"{name} {self.outcomes[name]}" for name in OUTCOMES if self.outcomes[name])
        line = (
            f"{done} mutants, {done / max(seconds, 0.001):.1f}/s, {len(self._parents)} parents, "
            f"{len(self._features)} features, slowest {self.slowest:.1f} s, peak {self.peak >> 20} MB: {shown}"
        )
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        elif sys.stderr.isatty() and not final:
            print(f"\r{line}", end="", file=sys.stderr)
            return
        print(line, file=sys.stderr)


def cause_of(verdict: Verdict) -> str:
    """One line for failures that look alike."""
    lines = [line.strip() for line in verdict.detail.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if verdict.outcome == CRASH:
        said = [line for line in lines if "SUMMARY:" in line or "runtime error:" in line]
        first = said[0] if said else first
    elif verdict.outcome not in (HANG, MEMORY):
        places = [line for line in lines if line.startswith("File ") and "openrknn" in line]
        first = f"{first[:160]} @ {places[-1].split('openrknn/')[-1]}" if places else first[:160]
    return f"{verdict.outcome}: {first}"
