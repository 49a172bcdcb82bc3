"""A process that judges mutants, one after the other, until its input ends: `python -m tools.fuzzing.worker FOLDER`.

Requests and answers are pickles in frames on standard input and output. FOLDER holds the library to test ("" for the
installed one). It may die of any mutant: whoever started it knows which one it was.
"""

from __future__ import annotations

import pickle
import random
import struct
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["read_frame", "write_frame"]

_LENGTH = struct.Struct("<I")
_KEPT = 400
"""Anatomies of parents."""


def read_frame(stream: BinaryIO) -> Any:
    """The next object, or None at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return pickle.loads(stream.read(_LENGTH.unpack(head)[0]))


def write_frame(stream: BinaryIO, entry: object) -> None:
    """Send an object."""
    data = pickle.dumps(entry)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def main(folder: str) -> None:
    import openrknn

    if folder:
        openrknn.__path__.insert(0, folder)
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr
    import warnings

    warnings.simplefilter("ignore")
    work = _Work()
    write_frame(answers, "ready")
    while (request := read_frame(sys.stdin.buffer)) is not None:
        write_frame(answers, work.answer(request))


class _Work:
    """Requests are (key of the parent, its bytes, text of the seed, way); with a way the bytes run as they are.

    A dictionary is a task of `tools.fuzzing.valid`.
    """

    def __init__(self) -> None:
        self._parents: OrderedDict[int, tuple[bytes, Any]] = OrderedDict()
        self._known: set[str] = set()

    def answer(self, request: tuple[int, bytes, str, Any] | dict[str, Any]) -> dict[str, Any]:
        from tools.fuzzing.judge import judge

        if isinstance(request, dict):
            from tools.fuzzing.valid.judge import judge_task

            return {"verdict": judge_task(request), "rss": _resident()}
        key, data, seed, way = request
        begun = time.monotonic()
        if way is None:
            data, way = self.mutant(key, data, seed)
        verdict = judge(data, way)
        new = verdict.features - self._known
        self._known |= new
        verdict.features = set()  # thousands of them, of which only the new ones matter
        wanted = new or verdict.failed
        return {"verdict": verdict, "new": new, "data": data if wanted else None, "way": way,
                "seconds": time.monotonic() - begun, "rss": _resident()}  # fmt: skip

    def mutant(self, key: int, data: bytes, seed: str) -> tuple[bytes, Any]:
        from tools.fuzzing.anatomy import dissect
        from tools.fuzzing.judge import Way
        from tools.fuzzing.mutate import mutated

        if key not in self._parents:
            self._parents[key] = data, dissect(data)
            while len(self._parents) > _KEPT:
                self._parents.popitem(last=False)
        self._parents.move_to_end(key)
        data, anatomy = self._parents[key]
        rng = random.Random(seed)
        return mutated(data, anatomy, rng), Way.drawn(rng, anatomy.cores)


def _resident() -> int:
    """The most memory so far, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
