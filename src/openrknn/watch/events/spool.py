"""The queue of events on disk (SQLite): nothing is lost while a receiver, or this program, is down.

Each receiver has a cursor: the number of the last event that it took. Numbers only grow, also over restarts. An event's
id, `SPOOL-NUMBER`, is the same in every delivery: receivers that saw it twice can tell.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.closing import Closing
from openrknn.watch.errors import WatchError

__all__ = ["Event", "Spool"]

_LOG = logging.getLogger(__name__)
_FILE = "events.sqlite"
_LOCK_SECONDS = 0.1
"""One program at a time: there is nothing to wait for."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursors (sink TEXT PRIMARY KEY, number INTEGER NOT NULL, given_up INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, jpeg BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as receivers get it."""

    number: int
    id: str
    body: dict[str, Any] = field(repr=False)

    def to_json(self) -> bytes:
        """One line, without its end."""
        return json.dumps(self.body, separators=(",", ":"), allow_nan=False).encode()


class Spool(Closing):
    """Events and cursors in one folder. Safe for several threads; one program at a time."""

    def __init__(
        self, folder: str | Path, sinks: Sequence[str] = (), *, keep: int = 1000, most: int = 100_000,
        most_snapshots: int = 500,
    ) -> None:  # fmt: skip
        self._keep, self._most, self._most_snapshots = keep, most, most_snapshots
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)
        """Notified when there are events, and when the spool is closed."""
        self.is_closed = False
        self._is_full = False
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(
                os.path.join(folder, _FILE), timeout=_LOCK_SECONDS, check_same_thread=False, isolation_level=None
            )
            self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            reason = "another program uses it" if "locked" in str(error) else str(error)
            raise WatchError(f"{folder}: the spool cannot be opened: {reason}") from None
        self.name = self._named()
        self._register(sinks)

    def _named(self) -> str:
        self._base.execute("INSERT OR IGNORE INTO about VALUES ('name', ?)", (uuid.uuid4().hex[:12],))
        return str(self._base.execute("SELECT value FROM about WHERE name = 'name'").fetchone()[0])

    def _register(self, sinks: Sequence[str]) -> None:
        """New receivers begin with the next event; one that is not there any more holds nothing back."""
        with self._write():
            newest = self.newest()
            for sink in sinks:
                self._base.execute("INSERT OR IGNORE INTO cursors VALUES (?, ?, 0)", (sink, newest))
            marks = ",".join("?" * len(sinks))
            self._base.execute(f"DELETE FROM cursors WHERE sink NOT IN ({marks})", tuple(sinks))

    @contextmanager
    def _write(self) -> Any:
        with self._lock:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, bodies: Iterable[tuple[dict[str, Any], bytes | None]]) -> list[Event]:
        """Events with their snapshots; they are on disk when this returns."""
        made = []
        with self._lock:
            if self.is_closed:
                raise WatchError("the spool is closed")
            with self._write():
                for body, jpeg in bodies:
                    number = int(self._base.execute("INSERT INTO events (body) VALUES ('')").lastrowid or 0)
                    whole = {"id": f"{self.name}-{number:010d}", **body, "has_snapshot": jpeg is not None}
                    text = json.dumps(whole, allow_nan=False)
                    self._base.execute("UPDATE events SET body = ? WHERE number = ?", (text, number))
                    if jpeg is not None and self._most_snapshots:
                        self._base.execute("INSERT INTO snapshots VALUES (?, ?)", (number, jpeg))
                    made.append(Event(number, whole["id"], whole))
                self._trim()
            self.changed.notify_all()
        return made

    def _trim(self) -> None:
        """Drop events that all sinks have and no page shows, and the oldest if there are too many."""
        newest = self.newest()
        rows = self._base.execute("SELECT MIN(number), COUNT(*) FROM events").fetchone()
        if not rows[1]:
            return
        taken = self._base.execute("SELECT MIN(number) FROM cursors").fetchone()[0]
        oldest_kept = min(newest - self._keep, newest if taken is None else taken) + 1
        self._base.execute("DELETE FROM events WHERE number < ?", (oldest_kept,))
        first = newest - self._most + 1
        late = self._base.execute("SELECT sink, number FROM cursors WHERE number < ?", (first - 1,)).fetchall()
        for sink, number in late:
            count = first - 1 - max(int(number), int(rows[0]) - 1)
            self._base.execute(
                "UPDATE cursors SET number = ?, given_up = given_up + ? WHERE sink = ?", (first - 1, count, sink)
            )
            if not self._is_full:
                _LOG.warning(
                    "spool-full: %s did not take events for so long that the spool is full (%d); the oldest are given "
                    "up. Repair it, or raise events.most", sink, self._most
                )  # fmt: skip
        self._is_full = bool(late)
        self._base.execute("DELETE FROM events WHERE number < ?", (first,))
        self._base.execute(
            "DELETE FROM snapshots WHERE number < (SELECT MIN(number) FROM events) OR number NOT IN "
            "(SELECT number FROM snapshots ORDER BY number DESC LIMIT ?)", (self._most_snapshots,)
        )  # fmt: skip

    def take(self, sink: str, number: int) -> None:
        """The receiver has everything up to this event."""
        with self._write():
            self._base.execute("UPDATE cursors SET number = MAX(number, ?) WHERE sink = ?", (number, sink))

    # -- reading ---------------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """The highest number so far."""
        with self._lock:
            found = self._base.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return int(found[0]) if found else 0

    def pending(self, sink: str, most: int = 100) -> list[Event]:
        """What the receiver does not have, the oldest first."""
        with self._lock:
            rows = self._base.execute(
                "SELECT number, body FROM events WHERE number > (SELECT number FROM cursors WHERE sink = ?) "
                "ORDER BY number LIMIT ?", (sink, most)
            ).fetchall()  # fmt: skip
        return [_event(row) for row in rows]

    def waiting(self) -> dict[str, int]:
        """Receiver -> events that it does not have yet."""
        with self._lock:
            rows = self._base.execute(
                "SELECT sink, (SELECT COUNT(*) FROM events WHERE events.number > cursors.number) FROM cursors"
            ).fetchall()
        return {str(sink): int(count) for sink, count in rows}

    def given_up(self) -> dict[str, int]:
        """Receiver -> events that it never got, because the spool was full."""
        with self._lock:
            return {str(sink): int(count) for sink, count in self._base.execute("SELECT sink, given_up FROM cursors")}

    def latest(self, most: int = 50, before: int | None = None) -> list[Event]:
        """The newest events, the newest first."""
        with self._lock:
            rows = self._base.execute(
                "SELECT number, body FROM events WHERE number < ? ORDER BY number DESC LIMIT ?",
                (before if before is not None else 1 << 62, most),
            ).fetchall()
        return [_event(row) for row in rows]

    def snapshot(self, number: int) -> bytes | None:
        """The image of an event, where there is one and it is still kept."""
        with self._lock:
            found = self._base.execute("SELECT jpeg FROM snapshots WHERE number = ?", (number,)).fetchone()
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        """No other events."""
        with self._lock:
            if not self.is_closed:
                self.is_closed = True
                self._base.close()
                self.changed.notify_all()


def _event(row: tuple[int, str]) -> Event:
    body = json.loads(row[1])
    return Event(int(row[0]), str(body["id"]), body)
