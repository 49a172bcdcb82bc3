"""Runs mutants in forked processes with limits, so that a crash or a hang is one more verdict."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from openrknn.errors import RknnError
from openrknn.llm.files import open_weights
from openrknn.llm.reference import ReferenceEngine, embed
from openrknn.llm.templates import ChatTemplate
from openrknn.llm.tokens import open_tokenizer
from tools.fuzzing_llm.mutate import mutant
from tools.fuzzing_llm.seeds import seed_files

Failure = tuple[int, str, dict[str, bytes]]


def campaign(kind: str, count: int, seed: int, *, memory: int, seconds: int) -> tuple[Counter[str], list[Failure]]:
    """How often what came out, and the mutants that failed."""
    files = seed_files(kind)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, data in files.items():
            (work / name).write_bytes(data)
        outcome = use(work)
        if outcome != "works":
            raise RuntimeError(f"the seed {kind} does not work: {outcome}")
        tally: Counter[str] = Counter()
        failures: list[Failure] = []
        first = 0
        while first < count:
            done = _process(work, files, (seed, first, count), memory=memory, seconds=seconds)
            for number, outcome in done:
                tally[outcome.partition(" ")[0]] += 1
                if outcome not in ("works", "refused"):
                    failures.append((number, outcome, mutant(files, seed, number)))
            first += len(done)
    return tally, failures


def _process(
    work: Path, files: dict[str, bytes], numbers: tuple[int, int, int], *, memory: int, seconds: int
) -> list[tuple[int, str]]:
    """One process; it ends early where a mutant ends it."""
    _, first, count = numbers
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads: those of BLAS and of tokenizers look after forks themselves.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            _child(work, files, numbers, writer, memory=memory, seconds=seconds)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        lines = pipe.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    done = [(first + place, line) for place, line in enumerate(lines)]
    if first + len(done) < count and not (lines and lines[-1].startswith("MEMORY")):
        signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        done.append((first + len(done), "HANG" if signalled == signal.SIGALRM else f"CRASH status {status}"))
    return done


def _child(
    work: Path, files: dict[str, bytes], numbers: tuple[int, int, int], writer: int, *, memory: int, seconds: int
) -> None:
    seed, first, count = numbers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in range(first, count):
        for name, data in mutant(files, seed, number).items():
            (work / name).write_bytes(data)
        signal.alarm(seconds)
        outcome = use(work)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > before + memory:
            outcome = f"MEMORY after {outcome}"
        os.write(writer, (outcome.replace("\n", " ") + "\n").encode())
        if outcome.startswith("MEMORY"):
            return


def use(work: Path) -> str:
    """Open, read everything, compute, encode, render: "works", "refused", or what must not be."""
    path = work / "model.gguf" if (work / "model.gguf").exists() else work
    refused = False
    for step in (_compute, _speak):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                step(path)
        except RknnError:
            refused = True
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"FOREIGN {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    return "refused" if refused else "works"


def _compute(path: Path) -> None:
    source = open_weights(path)
    for name in source.names():
        source.get(name)
    if source.config.causal:
        engine = ReferenceEngine(source)
        engine.forward(engine.new_cache(), [0] * min(3, engine.capacity))
    else:
        embed(source, [0])


def _speak(path: Path) -> None:
    tokenizer = open_tokenizer(path)
    tokens = tokenizer.encode("ab he <|im_end|> \U0001f642")
    tokenizer.decode(tokens)
    tokenizer.encode("ab <|im_end|>", special=False)
    for token in range(min(tokenizer.size, 1000)):
        tokenizer.piece(token)
    if tokenizer.templates:
        ChatTemplate.of(tokenizer).render([{"role": "user", "content": "hello"}])
