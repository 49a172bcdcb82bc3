"""One file for many kinds of nodes: what to offer, with exceptions by the node's name or labels.

    strategy = "shares"             # for all nodes

    [[node]]
    names = ["rock5-*"]             # patterns as in a shell
    strategy = "cores"

    [[node]]
    labels = { "rockchip.com/board" = "opi5" }
    shares = 1

All entries that fit are taken, later ones over earlier ones. In a cluster the file is a ConfigMap; changes are noticed
while the program runs, and a file that is wrong changes nothing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openrknn.chips import CHIPS, VARIANTS
from openrknn.errors import RknnError
from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.inventory import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["ConfigError", "LabelsError", "NodeConfig", "NodeLabels"]

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 256 * 1024
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "strategy": ("shares", "cores"),
    "software_chip": (*CHIPS, *VARIANTS),
    "dra_shares": ("devices", "capacity"),
    "taint_effect": ("NoSchedule", "NoExecute", "None"),
}
_LABELS_SECONDS = 60.0
_NUMBERS = {"shares": (1, 1000), "software": (0, 64)}
Labels = Callable[[], Mapping[str, str]]


class ConfigError(RknnError):
    """The file of --config is wrong."""


class LabelsError(ConfigError):
    """The API server does not say which labels the node has; later it may."""


class NodeLabels:
    """The labels of a node, asked for once a minute; while the API server does not answer, what it said last."""

    def __init__(self, api: ApiServer, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._node, self._clock = api, node, clock
        self._labels: Mapping[str, str] | None = None
        self._asked_at = float("-inf")

    def __call__(self) -> Mapping[str, str]:
        """Now, or a minute ago."""
        if self._labels is None or self._clock() - self._asked_at > _LABELS_SECONDS:
            try:
                metadata = self._api.get(f"/api/v1/nodes/{quote(self._node)}")["metadata"]
                self._labels = dict(metadata.get("labels") or {})
                self._asked_at = self._clock()
            except (ApiError, KeyError, TypeError, ValueError, AttributeError) as error:
                if self._labels is None:
                    raise LabelsError(f"the labels of the node {self._node} are not known: {error}") from None
        return self._labels


class NodeConfig:
    """The file, read again whenever its content changed."""

    def __init__(self, path: Path, base: Settings, node: str | None, labels: Labels | None = None) -> None:
        self._path, self._base, self._node, self._labels = path, base, node or "", labels
        self._text: bytes | None = None
        self._settings: Settings | None = None
        self._needs_labels = False

    def settings(self) -> Settings:
        """For this node, now. A wrong file is an error at first, and later a line in the log."""
        try:
            text = self._read()
            if self._settings is None or text != self._text or self._needs_labels:
                found = self._parsed(text)
                if self._settings is not None and found != self._settings:
                    _LOG.info("%s changed: %s", self._path, _difference(self._settings, found))
                self._settings, self._text = found, text
        except ConfigError as error:
            if self._settings is None:
                raise
            if self._text != b"":
                _LOG.warning("%s; going on with what was there before", error)
            self._text = b""
        assert self._settings is not None
        return self._settings

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as stream:
                text = stream.read(_MOST_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror or error}") from None
        if len(text) > _MOST_BYTES:
            raise ConfigError(f"{self._path}: larger than {_MOST_BYTES >> 10} KiB")
        return text

    def _parsed(self, text: bytes) -> Settings:
        try:
            words = tomllib.loads(text.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: not TOML: {error}") from None
        entries = words.pop("node", [])
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise ConfigError(f"{self._path}: node: write [[node]], once for each kind of node")
        found = self._over(self._base, words, "")
        self._needs_labels = any("labels" in one for one in entries)
        for number, entry in enumerate(entries, 1):
            rest = {name: value for name, value in entry.items() if name not in ("names", "labels")}
            place = f"node {number}: "
            # Each is checked, whether it fits this node or not: a mistake shows on every node.
            with_entry = self._over(found, rest, place)
            if self._fits(entry, place):
                found = with_entry
        return found

    def _over(self, settings: Settings, words: Mapping[str, Any], place: str) -> Settings:
        for name, value in words.items():
            if name in _CHOICES:
                if value not in _CHOICES[name]:
                    raise ConfigError(f"{self._path}: {place}{name} = {value!r}: one of {', '.join(_CHOICES[name])}")
            elif name in _NUMBERS:
                low, high = _NUMBERS[name]
                if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                    raise ConfigError(f"{self._path}: {place}{name} = {value!r}: a number from {low} to {high}")
            else:
                known = ", ".join((*_CHOICES, *_NUMBERS))
                raise ConfigError(f"{self._path}: {place}there is no {name!r}; there are {known}, and names and labels")
        return replace(settings, **words)

    def _fits(self, entry: Mapping[str, Any], place: str) -> bool:
        names, labels = entry.get("names"), entry.get("labels")
        if names is None and labels is None:
            raise ConfigError(f"{self._path}: {place}for which nodes? names = [...] or labels = {{...}}")
        if names is not None and not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
            raise ConfigError(f"{self._path}: {place}names = {names!r}: a list of patterns")
        if labels is not None and not (
            isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
        ):
            raise ConfigError(f"{self._path}: {place}labels = {labels!r}: a table of texts")
        if names is not None and not any(fnmatchcase(self._node, pattern) for pattern in names):
            return False
        return not labels or self._has_labels(labels, place)

    def _has_labels(self, wanted: Mapping[str, str], place: str) -> bool:
        if self._labels is None:
            raise ConfigError(f"{self._path}: {place}labels need --node and a service account (or --api-server)")
        have = self._labels()
        return all(have.get(name) == value for name, value in wanted.items())


def _difference(before: Settings, after: Settings) -> str:
    return ", ".join(
        f"{name} {getattr(before, name)} -> {getattr(after, name)}"
        for name in (*_CHOICES, *_NUMBERS)
        if getattr(before, name) != getattr(after, name)
    )
