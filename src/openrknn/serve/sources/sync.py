"""`Sources`: everything that a server reads models from; the remote ones are followed."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openrknn.folders import cache_folder, is_private
from openrknn.serve.sources.address import Address, is_remote, parse
from openrknn.serve.sources.bucket import Bucket
from openrknn.serve.sources.credentials import storage
from openrknn.serve.sources.errors import CacheError, SourceError
from openrknn.serve.sources.http_client import Bounds, HttpClient
from openrknn.serve.sources.item import Remote
from openrknn.serve.sources.mirror import Mirror
from openrknn.serve.sources.web import Page, Sums

__all__ = ["Followed", "Sources"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4


class Followed:
    """One remote source: its mirror, and how the last looks went."""

    def __init__(self, address: Address, mirror: Mirror, bounds: Bounds, environment: Mapping[str, str]) -> None:
        self.address, self.mirror = address, mirror
        self._bounds, self._environment = bounds, environment
        self.problem = ""
        """Why the last look was not all well; empty: it was."""
        self.errors: Counter[str] = Counter()
        """By their short names."""
        self.last_success = 0.0
        """When it could last be read, in seconds since 1970; 0: never."""
        self.files = 0
        self._lock = threading.Lock()

    def sync(self, pause: Callable[[float], object]) -> None:
        """Look once. Problems are kept and logged, the first time and when they change."""
        with self._lock:
            problems: Sequence[SourceError]
            try:
                outcome = self.mirror.sync(self._remote(pause))
            except SourceError as error:
                problems = [error]
                with contextlib.suppress(SourceError):
                    self.files = self.mirror.verified()
            else:
                problems, self.files, self.last_success = outcome.problems, outcome.files, time.time()
                for name in outcome.changed:
                    _LOG.info("%s: model %s is new", self.address.text, name)
                for name in outcome.removed:
                    _LOG.info("%s: model %s is gone", self.address.text, name)
            self._note(problems)

    def _note(self, problems: Sequence[SourceError]) -> None:
        self.errors.update(problem.reason for problem in problems)
        lines = [line if self.address.text in line else f"{self.address.text}: {line}" for line in map(str, problems)]
        text = "; ".join(lines[:5])
        if problems and text != self.problem:
            kept = "what was fetched before is served" if self.files else "there is nothing fetched before"
            for line in lines[:5]:
                _LOG.error("%s; %s", line, kept)
        elif self.problem and not problems:
            _LOG.info("%s is well again", self.address.text)
        self.problem = text

    def _remote(self, pause: Callable[[float], object]) -> Remote:
        if self.address.scheme != "s3":
            http = HttpClient(self._bounds, pause=pause, environment=self._environment)
            return Page(self.address, http) if self.address.file_name else Sums(self.address, http)
        now = storage(self._environment)  # read each time: temporary credentials change
        return Bucket(self.address, now, HttpClient(self._bounds, ca_file=now.ca_file, pause=pause))


class Sources:
    """Files and folders as they are, and remote sources by their mirrors."""

    def __init__(
        self,
        sources: Sequence[str | os.PathLike[str]],
        *,
        cache: str | None = None,
        require_checksum: bool = False,
        bounds: Bounds | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._all = list(sources)
        self._stopped = threading.Event()
        self._temporary = ""
        bounds = bounds or Bounds()
        self.remote: list[Followed] = []
        self._paths: list[str | os.PathLike[str]] = []
        for source in self._all:
            if not isinstance(source, str) or not is_remote(source):
                self._paths.append(source)
                continue
            address = parse(source)
            folder = self._folder(cache, address, environment)
            mirror = Mirror(folder, bounds, require_checksum=require_checksum, sha256=address.sha256)
            self.remote.append(Followed(address, mirror, bounds, environment))
            self._paths.append(folder)

    def paths(self) -> list[str | os.PathLike[str]]:
        """What can be scanned."""
        return self._paths

    @property
    def problem(self) -> str:
        """What is wrong with remote sources; empty: nothing."""
        return "; ".join(one.problem for one in self.remote if one.problem)

    def sync(self) -> None:
        """Look at all remote sources, a few at once; it does not raise."""
        if len(self.remote) == 1:
            self.remote[0].sync(self._stopped.wait)
        elif self.remote:
            with ThreadPoolExecutor(min(_AT_ONCE, len(self.remote)), "openrknn-source") as pool:
                list(pool.map(lambda one: one.sync(self._stopped.wait), self.remote))

    def close(self) -> None:
        """Stop waiting; a mirror that had no cache to be in goes."""
        self._stopped.set()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _folder(self, cache: str | None, address: Address, environment: Mapping[str, str]) -> Path:
        """One for each address; not for each checksum, so that a new one finds what is there."""
        key = hashlib.sha256(f"{address.scheme} {address.place} {address.path}".encode()).hexdigest()[:24]
        if cache is not None:
            folder = Path(cache) / key
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise CacheError(f"the model cache {cache} cannot be written: {error.strerror}") from None
            if not is_private(folder):
                raise CacheError(f"{folder} is another user's, or others can write it; models are not kept there")
            return folder
        kept = cache_folder("models", key, may_be_off=False, environment=environment)
        if kept is not None:
            return kept
        self._temporary = self._temporary or tempfile.mkdtemp(prefix="openrknn-models-")
        folder = Path(self._temporary) / key
        folder.mkdir(mode=0o700)
        return folder
