"""`run`: a job over many items that survives its workers and its driver."""

from __future__ import annotations

import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.ray.errors import ItemsError, TooManyErrorsError
from openrknn.ray.items import Items, Work, items_of
from openrknn.ray.ledger import Ledger, Row
from openrknn.ray.pool import Actors, Local, Pool
from openrknn.ray.progress import Bar
from openrknn.ray.report import Report
from openrknn.ray.table import FORMATS, write_table
from openrknn.ray.work import Plan, check

__all__ = ["plan_for", "run"]

_ROUNDS = 3
_WAVE_ITEMS = 1_000_000
_WAVE_BYTES = 256 << 20
_DIED = "WorkerDiedError: every worker that worked on this item died"
Progress = Callable[[int, int, int], None]
"""Called with: items done, items in all, errors."""


def run(
    items: object,
    model: str | os.PathLike[str] | bytes | Callable[..., Any],
    output: str | os.PathLike[str],
    *,
    kind: str = "picture",
    format: str = "parquet",  # noqa: A002 - what everybody calls it
    workers: int | None = None,
    npus: float = 1.0,
    part_size: int = 32,
    max_errors: int | float = 0.1,
    retry_errors: bool = False,
    restart: bool = False,
    ship: bool = False,
    raw: bool = False,
    top: int = 1,
    progress: bool | Progress | None = None,
    local: bool = False,
    **options: Any,
) -> Report:
    """Run a model over many items, with Ray, and write one table with a row for each.

    `items`: a folder, a pattern, a list of paths, an array or a dict of arrays whose rows are the items, or a Ray
    dataset with a column `path`. `model`: a .rknn file; for `kind="audio"` a voice set; or a class or function
    that makes what is called with each item. `output` is the job's folder: call the same again after a crash, and
    it goes on with what is missing; another model, other options or changed items are refused unless `restart`.
    `workers` actors of `npus` each (default: as many as the cluster offers). An item that fails is a row with the
    reason in `error`; more than `max_errors` of them (a number, or a share if it is below 1) end the job.
    `retry_errors` tries those of an earlier run again. `ship` sends the files' bytes to workers that cannot read
    the paths. `raw`: outputs instead of answers. `top`: classes of a ranking. `progress`: a bar (default: on a
    terminal), or a function. `local`: in this process, without Ray. Other options are those of `Pipeline`,
    `Session` or `Transcriber`.
    """
    if format not in FORMATS:
        raise ItemsError(f"there is no format {format!r}; there are {', '.join(FORMATS)}")
    if part_size < 1:
        raise ValueError(f"part_size={part_size}: a part has one item at least")
    found = items_of(items, kind)
    plan = plan_for(model, found.kind, options, top=top, raw=raw)
    check(plan)
    words = {
        "model": _digest(plan.model),
        "options": {
            "kind": found.kind,
            "top": top,
            "raw": raw,
            **{name: repr(options[name]) for name in sorted(options)},
        },
    }
    folder = Path(output)
    with Ledger.open(folder, found, words, part_size=part_size, restart=restart) as ledger:
        job = _Job(found, ledger, max_errors, ship=ship, progress=progress)
        job.resume(retry_errors=retry_errors)
        pool = None
        if ledger.missing():
            pool = Local(plan) if local else Actors(plan, workers, npus)
            job.run(pool)
        table = folder / f"table.{format}"
        if pool is not None or not table.exists():
            write_table(lambda: ledger.complete(found.keys), table, format)
        if isinstance(pool, Local):
            pool.close()
        return Report(
            table=table,
            items=len(found),
            errors=job.errors,
            resumed=job.resumed,
            repeated=found.repeated,
            duplicates=job.duplicates,
            rounds=job.rounds,
            workers=pool.workers if isinstance(pool, Actors) else 1,
            seconds=time.perf_counter() - job.started,
        )


def plan_for(
    model: str | os.PathLike[str] | bytes | Callable[..., Any],
    kind: str,
    options: Mapping[str, Any],
    *,
    top: int = 1,
    raw: bool = False,
) -> Plan:
    """What workers have to do. A model's bytes travel: boards need no copy of the file."""
    if callable(model) or isinstance(model, bytes):
        return Plan(kind, model, options, top, raw)
    if kind == "audio":
        return Plan(kind, os.fspath(model), options, top, raw)
    return Plan(kind, Path(model).read_bytes(), options, top, raw)


def _digest(model: bytes | str | Callable[..., Any]) -> str:
    if callable(model):
        try:  # another text is another model; what it calls is nobody's to know
            text = inspect.getsource(model)
        except (OSError, TypeError):
            text = ""
        name = f"{model.__module__}.{getattr(model, '__qualname__', type(model).__name__)}"
        return f"{name} {hashlib.sha256(text.encode()).hexdigest()}"
    return hashlib.sha256(model).hexdigest() if isinstance(model, bytes) else model


@dataclass
class _Job:
    items: Items
    ledger: Ledger
    max_errors: int | float
    ship: bool = False
    progress: bool | Progress | None = None
    errors: int = 0
    resumed: int = 0
    duplicates: int = 0
    rounds: int = 0
    done: int = 0
    reasons: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def resume(self, *, retry_errors: bool) -> None:
        """Count what is there."""
        for part in range(self.ledger.parts):
            if not self.ledger.is_done(part):
                continue
            bad = [row["error"] for row in self.ledger.rows([part]) if row["error"] is not None]
            if bad and retry_errors:
                self.ledger.drop(part)
                continue
            self.errors += len(bad)
            self.reasons += bad[:1]
            self.resumed += self.ledger.size(part)
        self.done = self.resumed

    def run(self, pool: Pool) -> None:
        """Rounds over what is missing: whole parts first, then item by item, so that one that kills is found."""
        with Bar.of(self.progress, len(self.items)) as bar:
            bar(self.done, len(self.items), self.errors)
            alone: dict[int, dict[str, Row]] = {}
            for number in range(_ROUNDS):
                missing = self.ledger.missing()
                if not missing:
                    break
                self.rounds += 1
                for works in self._waves(missing):
                    each = works if number == 0 else _singles(works, alone)
                    for part, rows in pool.run(each):
                        if number == 0:
                            self._commit(part, rows)
                        else:
                            self._gather(alone, part, rows, is_last=False)
                        bar(self.done, len(self.items), self.errors)
                if number == _ROUNDS - 1:
                    for part in self.ledger.missing():
                        self._gather(alone, part, [], is_last=True)
                    bar(self.done, len(self.items), self.errors)

    def _gather(self, alone: dict[int, dict[str, Row]], part: int, rows: Sequence[Row], *, is_last: bool) -> None:
        known = alone.setdefault(part, {})
        known.update({row["item"]: row for row in rows})
        keys = self._keys(part)
        if is_last:
            known.update({key: {"item": key, "error": _DIED} for key in keys if key not in known})
        if len(known) == len(keys):
            self._commit(part, [known[key] for key in keys])

    def _commit(self, part: int, rows: list[Row]) -> None:
        if not self.ledger.commit(part, self._keys(part), rows):
            self.duplicates += 1
            return
        self.done += len(rows)
        bad = [row["error"] for row in rows if row["error"] is not None]
        self.errors += len(bad)
        self.reasons += bad[:1]
        share = isinstance(self.max_errors, float) and self.max_errors < 1
        allowed = self.max_errors * len(self.items) if share else self.max_errors
        if self.errors > allowed:
            raise TooManyErrorsError(
                f"{self.errors} of {self.done} items failed, and {allowed:g} may; for example: {self.reasons[0]}"
            )

    def _keys(self, part: int) -> Sequence[str]:
        size = self.ledger.part_size
        return self.items.keys[part * size : (part + 1) * size]

    def _waves(self, parts: Sequence[int]) -> Iterator[list[Work]]:
        """As many as one may hold in memory: paths by the million, contents by the half gigabyte."""
        wave: list[Work] = []
        items = weight = 0
        for part in parts:
            work = self.items.work(part, self.ledger.part_size, ship=self.ship)
            wave.append(work)
            items += len(work.keys)
            weight += sum(map(len, work.content or ())) + sum(rows.nbytes for rows in (work.arrays or {}).values())
            if items >= _WAVE_ITEMS or weight >= _WAVE_BYTES:
                yield wave
                wave, items, weight = [], 0, 0
        if wave:
            yield wave


def _singles(works: Sequence[Work], known: Mapping[int, Mapping[str, Row]]) -> list[Work]:
    """One part for each item that has no row yet."""
    return [
        work.one(at) for work in works for at, key in enumerate(work.keys) if key not in known.get(work.part, {})
    ]
