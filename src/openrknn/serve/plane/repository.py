"""`Repository`: models by name and version, loaded and unloaded while requests go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from openrknn.errors import RknnError, UnsupportedError
from openrknn.runtime.session import Session
from openrknn.serve.errors import BadRequestError, ConflictError, NotFoundError, NotReadyError
from openrknn.serve.plane.entry import Entry
from openrknn.serve.plane.index import FoundModel, Stamp, scan
from openrknn.serve.plane.served import OpenSession, Served
from openrknn.serve.plane.uploaded_models import UploadedModels
from openrknn.serve.settings import Settings
from openrknn.serve.sources import Sources
from openrknn.serve.sources.http_client import Bounds

__all__ = ["Entry", "Repository"]

_LOG = logging.getLogger(__name__)
_CANNOT = (RknnError, OSError, ValueError, TypeError, MemoryError)
"""What opening a model may raise."""


class Repository:
    """Loading is slow and happens in whatever thread calls; neither finding a model nor loading another one waits.

    A thread that changes a model has the lock of its name; `_changing` is held for moments only.
    """

    def __init__(self, settings: Settings, *, open_session: OpenSession = Session) -> None:
        self._settings, self._open_session = settings, open_session
        self.sources = Sources(
            settings.sources,
            cache=settings.model_cache,
            require_checksum=settings.require_checksum,
            bounds=Bounds(file_bytes=settings.model_bytes),
        )
        self._changing = threading.RLock()
        self._names: dict[str, tuple[threading.RLock, list[None]]] = {}
        """Lock of each model that is being changed, and an entry for each thread that has it or waits for it."""
        self._models: dict[str, dict[int, Entry]] = {}
        """Replaced as a whole, never changed: readers need no lock."""
        self._wanted: set[str] = set()
        """Models that were asked for."""
        self.is_loading = True
        self._given = UploadedModels(settings.limits.total_bytes)
        """What clients sent with their load requests."""

    # -- looking -------------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """All that is known, by name and version."""
        return [entry for name in sorted(self._models) for _, entry in sorted(self._models[name].items())]

    def served(self) -> list[Served]:
        """All that can be asked."""
        return [entry.served for entry in self.entries() if entry.served is not None]

    def find(self, name: str, version: str = "") -> Served:
        """The model of that name: the version that is asked for, or else the highest one."""
        versions = self._models.get(name)
        if versions is None:
            raise NotFoundError(f"there is no model {_short(name)}; {self._there()}")
        if version:
            is_number = version.isascii() and version.isdigit() and len(version) < 19
            entry = versions.get(int(version)) if is_number else None
            if entry is None:
                numbers = ", ".join(map(str, sorted(versions)))
                raise NotFoundError(f"model {name!r} has no version {_short(version)}; there are {numbers}")
        else:
            ready = [entry for _, entry in sorted(versions.items()) if entry.served is not None]
            entry = ready[-1] if ready else versions[max(versions)]
        if entry.served is None:
            why = f": {entry.reason}" if entry.reason else ""
            raise NotReadyError(f"model {name!r} version {entry.version} is not loaded ({entry.state.lower()}){why}")
        return entry.served

    def some(self, name: str, version: str = "") -> list[Served]:
        """All loaded versions of a model, or the one that is asked for."""
        if version:
            return [self.find(name, version)]
        self.find(name)  # says why there is none
        return [entry.served for _, entry in sorted(self._models[name].items()) if entry.served is not None]

    def ready_problem(self) -> str:
        """Why this server should get no requests; empty: it should.

        A broken model does not affect the others: the server is ready while any of them answers
        (with `strict_readiness`: while all of them do). Each model has a readiness of its own.
        """
        if self.is_loading:
            return "models are being loaded"
        problems = [self._problem(name) for name in sorted(self._wanted)]
        broken = [problem for problem in problems if problem]
        if not broken:
            return "" if problems else f"there is no model{': ' if self.sources.problem else ''}{self.sources.problem}"
        return broken[0] if self._settings.strict_readiness or len(broken) == len(problems) else ""

    def _problem(self, name: str) -> str:
        try:
            problem = self.find(name).problem
        except (NotFoundError, NotReadyError) as error:
            return str(error)
        return f"model {name!r} is not ready: {problem}" if problem else ""

    def versions(self, name: str) -> list[str]:
        """The versions of a model that can answer."""
        entries = self._models.get(name, {})
        return [str(number) for number, entry in sorted(entries.items()) if entry.served is not None]

    # -- changing ------------------------------------------------------------------------------------------------

    @contextmanager
    def _only(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Change one model, after others that do; False where somebody does and `wait` is not set."""
        with self._changing:
            lock, users = self._names.setdefault(name, (threading.RLock(), []))
            users.append(None)
        try:
            has = lock.acquire(blocking=wait)
            try:
                yield has
            finally:
                if has:
                    lock.release()
        finally:
            with self._changing:
                users.pop()
                if not users:
                    del self._names[name]

    def load_all(self) -> None:
        """At the start: everything there is. What cannot be loaded is logged and listed with its reason."""
        found = self._find()  # if it raises, the server ends; it must not look loaded before
        for model in found.values():
            self._note(model)
        for model in found.values():
            with self._only(model.name):
                self._wanted.add(model.name)
                self._load(model)
        self.is_loading = False

    def load_given(self, name: str, config: object, files: Mapping[str, bytes]) -> None:
        """Load a model as a client wants it: with another configuration, or from files that it sends.

        Where that fails, what was there goes on answering, and nothing of the new one is left.
        """
        with self._only(name):
            given = self._given.make(name, config, files)
            model = given.over(name, scan(self.sources.paths(), self._settings.name).get(name))
            if model is None:
                raise NotFoundError(f"there is no model {_short(name)} in the repository; send its files too")
            made: dict[int, Served] = {}
            try:
                for number in model.wanted(self._settings.versions):
                    made[number] = Served(model, number, self._settings, open_session=self._open_session)
            except _CANNOT as error:
                for one in made.values():
                    one.close()
                given.close()
                raise ConflictError(f"model {name!r} cannot be loaded: {str(error) or type(error).__name__}") from None
            if not made:
                given.close()
                raise BadRequestError(f"model {name!r} has none of the versions that its configuration wants")
            self._wanted.add(name)
            self._note(model)
            stamps = model.stamps()
            for number, entry in self._models[name].items():
                if number in made:
                    self._install(entry, made[number], stamps.get(number))
                else:
                    self._retire(entry, "")
            self._given.keep(name, given)

    def load(self, name: str) -> None:
        """Load a model, or load it again: new versions, changed files. The old one answers until the new one can."""
        self.sources.sync()
        with self._only(name):
            found = scan(self.sources.paths(), self._settings.name)
            if name not in found and self._given.has_files(name):
                raise NotFoundError(f"model {name!r} came from a client's files and is loaded; send them again")
            is_given = self._given.has(name)
            self._given.drop(name)
            if name not in found:
                if name in self._models:
                    self.unload(name)
                raise NotFoundError(f"there is no model {_short(name)} in the repository")
            self._wanted.add(name)
            self._note(found[name])
            self._load(found[name], always=is_given)
            broken = [entry for entry in self._models[name].values() if entry.state == "UNAVAILABLE" and entry.reason]
            wanted = found[name].wanted(self._settings.versions)
            for entry in broken:
                if entry.version in wanted:
                    raise ConflictError(f"model {name!r} version {entry.version} cannot be loaded: {entry.reason}")

    def unload(self, name: str) -> None:
        """Answer what waits, then give everything back."""
        with self._only(name):
            versions = self._models.get(name)
            if versions is None:
                raise NotFoundError(f"there is no model {_short(name)}; {self._there()}")
            self._wanted.discard(name)
            for entry in versions.values():
                self._retire(entry, "unloaded")
            if self._given.has_files(name):  # nothing is left that could be loaded again
                self._forget(name)
            self._given.drop(name)

    def poll(self) -> None:
        """Follow what has changed in the folders."""
        self.sources.sync()
        found = self._there_now()
        for name in dict.fromkeys([*self._models, *found]):
            with self._only(name, wait=False) as has:
                if has:  # otherwise somebody loads it right now: the next look sees the rest
                    self._follow(name, found.get(name))

    def _follow(self, name: str, model: FoundModel | None) -> None:
        """One model of the folders; None: it is not there."""
        if model is None:
            if name in self._models and not self._given.has_files(name):
                _LOG.info("model %s is gone from the repository", name)
                self.unload(name)
                self._forget(name)
            return
        stamps = {number: entry.stamp for number, entry in self._models.get(name, {}).items()}
        wanted = model.wanted(self._settings.versions)
        now = model.stamps()
        is_new = name not in self._models
        if is_new or set(stamps) != set(model.versions):
            self._note(model)
        if is_new or (name in self._wanted and any(stamps.get(number) != now.get(number) for number in wanted)):
            self._wanted.add(name)
            # Other models may have been loaded since the look: settings of then do not go with files of now.
            self._load(self._there_now().get(name, model))

    def _there_now(self) -> dict[str, FoundModel]:
        return self._given.over(scan(self.sources.paths(), self._settings.name))

    def close(self) -> None:
        """Unload everything."""
        self.sources.close()
        for name in list(self._models):
            with self._only(name):
                for entry in self._models[name].values():
                    self._retire(entry, "the server has stopped")
        self._given.close()

    def _find(self) -> dict[str, FoundModel]:
        """At the start; there must be something, or a later look that may find it."""
        self.sources.sync()
        found = scan(self.sources.paths(), self._settings.name)
        if not found and self.sources.problem and self._settings.poll_seconds is None:
            raise UnsupportedError(f"there is nothing to serve: {self.sources.problem} (--poll 30 would try again)")
        return found

    def _note(self, found: FoundModel) -> None:
        """Make the versions known; those whose file is gone go."""
        old = self._models.get(found.name, {})
        for number, entry in old.items():
            if number not in found.versions:
                self._retire(entry, "its file is gone")
        kept = {number: old.get(number) or Entry(found.name, number) for number in found.versions}
        with self._changing:
            self._models = {**self._models, found.name: kept}

    def _forget(self, name: str) -> None:
        with self._changing:
            self._models = {other: entries for other, entries in self._models.items() if other != name}

    def _load(self, found: FoundModel, *, always: bool = False) -> None:
        wanted = found.wanted(self._settings.versions)
        stamps = found.stamps()
        for number in wanted:
            entry = self._models[found.name][number]
            if always or entry.served is None or entry.served.problem or entry.stamp != stamps.get(number):
                self._replace(entry, found, stamps.get(number))
        for number, entry in self._models[found.name].items():
            # An older version goes only when a newer one can answer.
            if number not in wanted and any(self._models[found.name][other].served for other in wanted):
                self._retire(entry, "")

    def _replace(self, entry: Entry, found: FoundModel, stamp: Stamp | None) -> None:
        entry.state, entry.reason, entry.stamp = "LOADING", "", stamp
        old = entry.served
        try:
            if found.problem:
                raise ConflictError(found.problem)
            new = Served(found, entry.version, self._settings, open_session=self._open_session)
        except _CANNOT as error:
            reason = str(error) or type(error).__name__
            _LOG.error("model %s version %s cannot be loaded: %s", entry.name, entry.version, reason)
            # A version that answers goes on answering when its replacement is bad.
            entry.state, entry.reason = ("READY" if old is not None else "UNAVAILABLE"), reason
            return
        self._install(entry, new, stamp)

    @staticmethod
    def _install(entry: Entry, new: Served, stamp: Stamp | None) -> None:
        """Let it answer from now on; the old one finishes what it has."""
        old = entry.served
        entry.served, entry.state, entry.reason, entry.stamp = new, "READY", "", stamp
        _LOG.info(
            "model %s version %s is ready on %s: %d contexts, %.2f s",
            entry.name, entry.version, new.device_name, len(new.instances), new.load_seconds,
        )  # fmt: skip
        if old is not None:
            old.close()

    def _retire(self, entry: Entry, reason: str) -> None:
        served, entry.served = entry.served, None
        entry.stamp = None
        if served is not None:
            entry.state = "UNLOADING"
            served.close()
            _LOG.info("model %s version %s is unloaded", entry.name, entry.version)
        entry.state, entry.reason = "UNAVAILABLE", reason

    def _there(self) -> str:
        return f"there are {', '.join(_few(sorted(self._models)))}" if self._models else "there is none"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _few(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [*map(repr, listed[:10]), *([f"and {len(listed) - 10} more"] if len(listed) > 10 else [])]
