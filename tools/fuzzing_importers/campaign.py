"""Worker processes, what failed, and the table."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzzing_importers.judge import BAD, OUTCOMES, Judge, Verdict, fork_sandbox
from tools.fuzzing_importers.mutate import mutated
from tools.fuzzing_importers.seeds import Seed, missing, seeds

__all__ = ["Campaign"]

_PRELOADED = {"torch": ("torch", "onnxscript", "torch.onnx", "torch.export", "torch.onnx._internal.exporter._core"),
              "tensorflow": ("tensorflow", "h5py", "tf2onnx.convert",
                             "openrknn.compiler.importer.formats.tensorflow.worker",
                             "openrknn.compiler.importer.formats.tensorflow.rewrite_h5")}  # fmt: skip
_KEPT_PER_CAUSE = 3


@dataclass(slots=True)
class Campaign:
    """`run` judges `count` mutants of each format."""

    formats: list[str]
    count: int
    seed: int
    workers: int
    keep: Path
    seconds: float = 60.0
    memory: int = 2 << 30
    is_checked: bool = False
    first: int = 0
    """Number of the first mutant: a campaign that was stopped goes on there."""
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    absent: dict[str, str] = field(default_factory=dict)

    def run(self) -> int:
        """The number of mutants that did what they must not."""
        self.absent = {kind: why for kind in self.formats if (why := missing(kind))}
        found = {kind: seeds(kind) for kind in self.formats if kind not in self.absent}
        context = multiprocessing.get_context("spawn")
        results: Any = context.Queue()
        tasks = [(kind, number) for kind in found for number in range(self.first, self.first + self.count)]
        # Formats in turns: slow ones are spread over all workers.
        tasks.sort(key=lambda task: (task[1], task[0]))
        settings = (self.seed, self.seconds, self.memory, self.is_checked)
        running = [
            context.Process(target=_work, args=(results, found, tasks[at :: self.workers], settings), daemon=True)
            for at in range(self.workers)
        ]
        for process in running:
            process.start()
        try:
            self._collect(results, len(tasks), running)
        except KeyboardInterrupt:  # the table is of what was done
            for process in running:
                process.terminate()
        for process in running:
            process.join(5)
        return sum(counter[kind] for counter in self.outcomes.values() for kind in BAD)

    def table(self) -> str:
        """A line for each format."""
        head = f"{'format':13}" + "".join(f"{name:>9}" for name in ("mutants", *OUTCOMES, "peak MB", "slowest"))
        lines = [head]
        for kind in self.formats:
            if kind in self.absent:
                lines.append(f"{kind:13} not run: {self.absent[kind]}")
                continue
            counter = self.outcomes.get(kind, Counter())
            numbers = [sum(counter.values()), *(counter[name] for name in OUTCOMES), self.peak.get(kind, 0) >> 20]
            slowest = f"{self.slowest.get(kind, 0.0):8.1f}s"
            lines.append(f"{kind:13}" + "".join(f"{number:>9}" for number in numbers) + slowest)
        total = sum(sum(counter.values()) for counter in self.outcomes.values())
        bad = sum(counter[kind] for counter in self.outcomes.values() for kind in BAD)
        lines.append(f"{total} hostile files, {bad} failures")
        return "\n".join([*lines, *(f"  {number:6} x {cause}" for cause, number in self.causes.most_common(60))])

    def _collect(self, results: Any, total: int, running: list[Any]) -> None:
        done, said = 0, time.monotonic()
        while done < total:
            try:
                kind, number, name, verdict, files = results.get(timeout=5)
            except queue.Empty:
                if not any(process.is_alive() for process in running):
                    print(f"the workers ended after {done} of {total} files", file=sys.stderr)
                    return
                continue
            done += 1
            self._take(kind, number, name, verdict, files)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                bad = sum(counter[one] for counter in self.outcomes.values() for one in BAD)
                print(f"{done} of {total}, {bad} failures", file=sys.stderr, flush=True)

    def _take(self, kind: str, number: int, name: str, verdict: Verdict, files: dict[str, bytes]) -> None:
        self.outcomes.setdefault(kind, Counter())[verdict.outcome] += 1
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), verdict.seconds)
        self.peak[kind] = max(self.peak.get(kind, 0), verdict.rss)
        if verdict.outcome not in BAD:
            return
        cause = f"{kind}: {verdict.outcome}: {_cause(verdict)}"
        self.causes[cause] += 1
        if self.causes[cause] <= _KEPT_PER_CAUSE:
            folder = self.keep / f"{kind}-{self.seed}-{number}"
            for path, data in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
            record = {"seed": name, "outcome": verdict.outcome, "detail": verdict.detail, "seconds": verdict.seconds}
            (folder / "verdict.json").write_text(json.dumps(record, indent=1))


def _cause(verdict: Verdict) -> str:
    lines = [line.strip() for line in verdict.detail.splitlines() if line.strip()]
    if verdict.outcome != "FOREIGN":
        return lines[0][:120] if lines and verdict.outcome not in {"HANG", "MEMORY"} else ""
    places = [line for line in lines if line.startswith("File ") and "openrknn/" in line]
    place = places[-1].split("openrknn/")[-1] if places else "?"
    return f"{lines[-1][:110]} @ {place}"


def _work(results: Any, found: dict[str, list[Seed]], tasks: list[tuple[str, int]], settings: tuple[Any, ...]) -> None:
    """A worker: loads what it needs once, and forks for every file."""
    seed, seconds, memory, is_checked = settings
    # A fork has no threads of its parent: libraries must not start any before.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    work = Path(tempfile.mkdtemp(prefix="openrknn-fuzz-"))
    try:
        _preload(found)
        judge = Judge(work, seconds=seconds, memory=memory, is_checked=is_checked)
        for kind, number in tasks:
            rng = random.Random(f"{seed}:{kind}:{number}")
            one = found[kind][rng.randrange(len(found[kind]))]
            files = mutated(one.files, rng, judge.secret, str(judge.sentinel))
            verdict = judge.judge(one, files)
            results.put((kind, number, one.name, verdict, files if verdict.outcome in BAD else {}))
        results.close()
        results.join_thread()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _preload(found: dict[str, list[Seed]]) -> None:
    import importlib

    import onnx.reference  # noqa: F401
    import onnxruntime  # noqa: F401

    import openrknn.compiler.check  # noqa: F401

    wanted: list[str] = []
    if {"pt2", "torchscript"} & set(found):
        wanted += _PRELOADED["torch"]
    if {"keras", "h5", "saved_model", "frozen"} & set(found):
        wanted += _PRELOADED["tensorflow"]
    for name in wanted:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for kind in found:
        if kind in {"pt2", "torchscript"}:
            _convert(found[kind][0])
    fork_sandbox()


def _convert(seed: Seed) -> None:
    """In this process, of a file of ours: PyTorch imports many modules when it first converts."""
    from openrknn.compiler.importer.formats.pytorch.worker import convert

    ((name, data),) = seed.files.items()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        shapes = {one: list(shape) for one, shape in seed.shapes.items()}
        convert({"path": str(path), "kind": "script" if seed.format == "torchscript" else "pt2", "shapes": shapes})
