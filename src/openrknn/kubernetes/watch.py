"""Follows the slices of this node at the API server: a list, then a watch from there on, and again from the start
whenever the watch breaks, ends, is too old (410) or says something that we do not understand.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from openrknn.kubernetes.api import ApiError, ApiServer, Lines
from openrknn.kubernetes.object_store import ObjectStore

__all__ = ["SLICES", "SliceWatch", "jittered", "listed"]

_LOG = logging.getLogger(__name__)
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_PAGE = 16
"""Objects per answer; a node has two or three."""
_MOST_PAGES = 1000
_WATCH_SECONDS = 60
"""After that the server ends the watch, and everything is listed again: nothing is lost for longer."""
_SILENCE_SECONDS = _WATCH_SECONDS + 15
_LEAVE_SECONDS = 3.0
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 15.0
_LIVED_SECONDS = 0.5
"""A watch that lived so long is made again at once."""
_LONGEST_WATCH_SECONDS = 5.0
"""The longest pause while lists work and only watches break."""
_RANDOM = random.Random()
"""Not the global generator: a program that seeds that one must get the same numbers beside this thread."""


def jittered(pause: float) -> float:
    """The pause, made up to half shorter or longer, so that the nodes of a cluster do not all come back together."""
    return pause * _RANDOM.uniform(0.5, 1.5)


def listed(api: ApiServer, driver: str, node: str) -> tuple[list[dict[str, Any]], str]:
    """The slices of one driver on one node, and the version of the list; page by page, nothing of others is kept."""
    found: list[dict[str, Any]] = []
    token = ""
    for _ in range(_MOST_PAGES):
        more = f"&continue={quote(token, safe='')}" if token else ""
        page = f"{SLICES}?{_selector(driver, node)}&limit={_PAGE}{more}"
        answer = api.get(page)
        try:
            found += [item for item in answer.get("items") or () if _is_slice_of(item, driver, node)]
            token = answer["metadata"].get("continue") or ""
            version = str(answer["metadata"].get("resourceVersion") or "")
        except (KeyError, TypeError, AttributeError):
            raise ApiError(f"GET {page}: this is not a list of slices") from None
        if not token:
            return found, version
    raise ApiError(f"GET {SLICES}: the list does not end")


class SliceWatch:
    """A thread that keeps `known` true."""

    def __init__(self, api: ApiServer, driver: str, node: str, known: ObjectStore) -> None:
        self._api, self._driver, self._node, self._known = api, driver, node, known
        self._stop = threading.Event()
        self._lines: Lines | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="openrknn-watch", daemon=True)
        self.breaks = 0
        """How often the watch did not end by itself."""
        self.problem = ""
        """Why nothing is known now; empty while all is well."""

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """And wait until the thread is gone, but not for a server that does not answer."""
        self._stop.set()
        with self._lock:
            if self._lines is not None:
                self._lines.close()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        pause = _SHORTEST_SECONDS
        while not self._stop.is_set():
            wait, longest, since = 0.0, _LONGEST_SECONDS, time.monotonic()
            try:
                items, version = listed(self._api, self._driver, self._node)
                self._known.replace(items)
                longest, since = _LONGEST_WATCH_SECONDS, time.monotonic()
                self._follow(version)
            except ApiError as error:
                if self._stop.is_set():
                    return
                self.breaks += 1
                wait = error.retry_after
                self._tell(error)
            except Exception:  # noqa: BLE001 - whatever the server sends, a dead watch would be worse
                self.breaks += 1
                _LOG.exception("the slices cannot be followed; trying again")
            if longest == _LONGEST_WATCH_SECONDS and time.monotonic() - since > _LIVED_SECONDS:
                pause = _SHORTEST_SECONDS
            # Whole clusters lose their watches at the same moment, when an API server is replaced.
            if self._stop.wait(max(wait, jittered(pause))):
                return
            pause = min(pause * 2, longest)

    def _tell(self, error: ApiError) -> None:
        """Once for each kind of trouble, and never for a watch that merely broke."""
        kind = f"{error.status}"
        if str(error).startswith("watch ") and error.status in (0, 410):
            _LOG.debug("%s; listing again", error)
            return
        if kind != self.problem:
            _LOG.warning("%s; trying again", error)
        self.problem = kind

    def _follow(self, version: str) -> None:
        """Until the watch ends."""
        path = (
            f"{SLICES}?watch=1&{_selector(self._driver, self._node)}&resourceVersion={quote(version, safe='')}"
            f"&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
        )
        lines = self._api.stream(path, _SILENCE_SECONDS)
        if self.problem:
            _LOG.info("the API server answers again")
        self.problem = ""
        with self._lock:
            self._lines = lines
        try:
            if self._stop.is_set():
                return
            for event in _events(lines):
                self._take(event)
        finally:
            with self._lock:
                self._lines = None
            lines.close()

    def _take(self, event: Mapping[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "BOOKMARK":
            return
        if kind == "ERROR":
            raise ApiError(f"watch {SLICES}: {item.get('message', '')}", int(item.get("code") or 0))
        if not _is_slice_of(item, self._driver, self._node):
            return
        if kind == "DELETED":
            self._known.remove(item)
        else:
            self._known.put(item)


def _events(lines: Lines) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
            if not isinstance(event["type"], str) or not isinstance(event["object"], dict):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise ApiError(f"watch {SLICES}: {line[:80]!r} is not an event") from None
        yield event


def _selector(driver: str, node: str) -> str:
    return f"fieldSelector=spec.driver%3D{quote(driver)}%2Cspec.nodeName%3D{quote(node)}"


def _is_slice_of(item: Any, driver: str, node: str) -> bool:
    """Whether this is ours, and has all that we read of it."""
    try:
        spec, metadata = item["spec"], item["metadata"]
        ours = spec["driver"] == driver and spec.get("nodeName") == node
        return bool(ours and isinstance(metadata["name"], str) and isinstance(spec["pool"]["generation"], int))
    except (KeyError, TypeError, AttributeError):
        return False
