"""This driver's objects in the API server: filled by lists, watches and the answers to our own writes.

It is a mirror and never a memory: all of it comes from the API server, and later data replaces it.
Only slices of this driver on this node are kept, whatever the server sends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["ObjectStore"]

_MOST = 64
"""Slices of this driver; more than that are not kept, and deleted step by step."""


class ObjectStore:
    """Slices by name. `told` is called, without a lock, when something changed."""

    def __init__(self, driver: str, node: str, told: Callable[[], None] = lambda: None) -> None:
        self._driver, self._node, self._told = driver, node, told
        self._lock = threading.Lock()
        self._items: dict[str, dict[str, Any]] = {}
        self._gone: dict[str, int] = {}
        self.is_complete = False
        """Whether a list was read to its end since the start or since the last loss."""
        self.generation = 0
        """The highest of the pool that was ever seen."""

    def items(self) -> dict[str, dict[str, Any]]:
        """By name."""
        with self._lock:
            return dict(self._items)

    def replace(self, items: Iterable[Mapping[str, Any]]) -> None:
        """All of them, from a list."""
        found: dict[str, dict[str, Any]] = {}
        for item in items:
            if self._is_ours(item) and len(found) < _MOST:
                found[item["metadata"]["name"]] = _kept(item)
        with self._lock:
            changed = found != self._items or not self.is_complete
            self._items, self.is_complete = found, True
            self._gone.clear()
            self._count()
        if changed:
            self._told()

    def put(self, item: Mapping[str, Any]) -> None:
        """One, as an event or an answer tells it; older ones than we have are ignored."""
        if not self._is_ours(item):
            return
        name, kept = item["metadata"]["name"], _kept(item)
        with self._lock:
            have = self._items.get(name)
            if have == kept or (have is not None and _version(kept) < _version(have)):
                return
            if _version(kept) <= self._gone.get(name, -1) or (have is None and len(self._items) >= _MOST):
                return
            self._items[name] = kept
            self._count()
        self._told()

    def remove(self, item: Mapping[str, Any]) -> None:
        """One that was deleted; the event has the version of the deletion."""
        name = str(item["metadata"]["name"])
        with self._lock:
            have = self._items.get(name)
            if have is None or (_version(item) and _version(item) < _version(have)):
                return
            del self._items[name]
            if len(self._gone) < _MOST:
                self._gone[name] = _version(item)
        self._told()

    def _is_ours(self, item: Mapping[str, Any]) -> bool:
        spec = item.get("spec") or {}
        return bool(spec.get("driver") == self._driver and spec.get("nodeName") == self._node)

    def _count(self) -> None:
        generations = [item["spec"]["pool"]["generation"] for item in self._items.values()]
        self.generation = max([self.generation, *generations])


def _kept(item: Mapping[str, Any]) -> dict[str, Any]:
    """Without managed fields and whatever else others wrote into the metadata."""
    given = item["metadata"]
    metadata = {name: given[name] for name in ("name", "uid", "resourceVersion") if name in given}
    return {"metadata": metadata, "spec": item["spec"]}


def _version(item: Mapping[str, Any]) -> int:
    """Resource versions of one kind of object grow (KEP-5504 promises it; etcd's revisions always did)."""
    text = str(item["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0
