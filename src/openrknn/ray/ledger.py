"""`Ledger`: a job's folder: what was asked for, and the parts that are done.

    FOLDER/
    ├── job.json                    model, options, items, size of a part; made once
    ├── parts/00000012-SHA256.jsonl the rows of part 12, one per item, in order
    ├── table.parquet               everything, when all parts are there
    └── .lock                       held by the process that works on it

Items are cut into parts when the job is made, by their order, and never again: whichever worker computes part 12,
and however often, computes the same items. A part is written beside its place, synced and renamed, by one
process; so it is there as a whole or not at all, and once. Its name holds its digest: what the
disk has lost is found and computed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.ray.errors import BusyJobError, ChangedJobError, IncompleteJobError, JobError
from openrknn.ray.items import Items
from openrknn.wholefiles import write_atomically

__all__ = ["Ledger", "Row"]

Row = dict[str, Any]
_JOB, _PARTS, _LOCK = "job.json", "parts", ".lock"
_FORMAT = 1
_NAME = re.compile(r"(\d{8,})-([0-9a-f]{64})\.jsonl", re.ASCII)
_WORDS = {"model": "another model", "options": "other options", "items": "other items, or files that have changed"}


class Ledger:
    """The folder of one job, for as long as the block lasts."""

    def __init__(self, folder: Path, part_size: int, count: int) -> None:
        self.folder, self.part_size, self._count = folder, part_size, count
        self._done: dict[int, Path] = {}
        self._descriptor = -1

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: Path, items: Items, words: Mapping[str, Any], *, part_size: int, restart: bool = False
    ) -> Iterator[Ledger]:
        """Make a job, or go on with the one that is there if it is the same. `words`: model and options."""
        try:
            (folder / _PARTS).mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JobError(f"{folder} cannot be used as a job's folder: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyJobError(f"{folder}: another process works on this job; wait for it, or end it") from None
            wanted = {"format": _FORMAT, **words, "items": items.digest(), "count": len(items)}
            if restart:
                _empty(folder)
            size = _agreed(folder, wanted, part_size)
            ledger = cls(folder, size, len(items))
            ledger._read()
            yield ledger
        finally:
            os.close(descriptor)

    # -- parts ---------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> int:
        """How many there are in all."""
        return -(-self._count // self.part_size)

    def size(self, part: int) -> int:
        """The items of a part."""
        return min(self.part_size, self._count - part * self.part_size)

    def missing(self) -> list[int]:
        """Those that are still to do."""
        return [part for part in range(self.parts) if part not in self._done]

    def is_done(self, part: int) -> bool:
        """Whether it is committed."""
        return part in self._done

    def commit(self, part: int, keys: Sequence[str], rows: Sequence[Row]) -> bool:
        """Write a part. -> False: it was there already, and what came now is thrown away."""
        if part in self._done:
            return False
        if [row.get("item") for row in rows] != list(keys):
            raise JobError(f"part {part} has rows of other items than it should; that is a mistake in openrknn")
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogateescape")
        name = f"{part:08}-{hashlib.sha256(data).hexdigest()}.jsonl"
        folder = self.folder / _PARTS
        write_atomically(folder / name, data)
        self._done[part] = folder / name
        return True

    def drop(self, part: int) -> None:
        """Do it again."""
        self._done.pop(part).unlink(missing_ok=True)

    def rows(self, parts: Sequence[int] | None = None) -> Iterator[Row]:
        """What is done, in the order of the items."""
        for part in sorted(self._done) if parts is None else parts:
            yield from _rows(self._done[part])

    def complete(self, keys: Sequence[str]) -> Iterator[Row]:
        """All rows; it raises unless every item is there exactly once."""
        missing = self.missing()
        if missing:
            raise IncompleteJobError(f"{self.folder}: {len(missing)} of {self.parts} parts are missing")
        at = -1
        for at, row in enumerate(self.rows()):
            if at >= len(keys) or row["item"] != keys[at]:
                raise IncompleteJobError(f"{self.folder}: row {at} is {row['item']!r} and should be another")
            yield row
        if at + 1 != len(keys):
            raise IncompleteJobError(f"{self.folder}: {at + 1} rows for {len(keys)} items")

    def _read(self) -> None:
        for path in sorted((self.folder / _PARTS).iterdir()):
            match = _NAME.fullmatch(path.name)
            part = int(match[1]) if match else -1
            is_whole = match is not None and hashlib.sha256(path.read_bytes()).hexdigest() == match[2]
            if is_whole and part < self.parts and part not in self._done and _count(path) == self.size(part):
                self._done[part] = path
            else:
                path.unlink()


def _agreed(folder: Path, wanted: dict[str, Any], part_size: int) -> int:
    """The size of a part of the job that is there, or of the new one."""
    try:
        there = json.loads((folder / _JOB).read_text("utf-8"))
        size = there.pop("part_size")
        if not isinstance(size, int) or size < 1:
            raise ValueError("part_size")
    except FileNotFoundError:
        if any((folder / _PARTS).glob("[!.]*")):
            raise ChangedJobError(f"{folder} has parts and no {_JOB}; give another folder, or restart=True") from None
        write_atomically(folder / _JOB, json.dumps({**wanted, "part_size": part_size}, indent=1))
        return part_size
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ChangedJobError(f"{folder / _JOB} cannot be read ({error}); restart=True starts again") from None
    different = [name for name in wanted if json.loads(json.dumps(wanted[name])) != there.get(name)]
    if different:
        what = ", ".join(dict.fromkeys(_WORDS.get(name, f"another {name}") for name in different))
        raise ChangedJobError(
            f"{folder} holds a job with {what}; give another folder, or restart=True to throw its answers away"
        )
    return size


def _empty(folder: Path) -> None:
    shutil.rmtree(folder / _PARTS)
    (folder / _PARTS).mkdir()
    for path in [folder / _JOB, *folder.glob("table.*")]:
        path.unlink(missing_ok=True)


def _rows(path: Path) -> Iterator[Row]:
    with path.open("r", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            yield json.loads(line)


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
