"""Reads a configuration: TOML, checked key by key. An unknown key is an error with the nearest name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from openrknn.names import meant
from openrknn.serve.tokens import read_token
from openrknn.vision.errors import SourceError
from openrknn.watch.errors import ConfigError
from openrknn.watch.geometry import Point, is_simple
from openrknn.watch.scene import PREFIX, parse_scene
from openrknn.watch.settings import (
    Camera,
    Events,
    FileSink,
    Line,
    ModelSettings,
    MqttSink,
    Page,
    WatchSettings,
    WebhookSink,
    Zone,
)
from openrknn.watch.tracking import TrackerSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["read_config"]

T = TypeVar("T")
_LARGEST = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KINDS = ("enter", "leave", "loiter")
_MOST_CAMERAS, _MOST_POINTS = 256, 256


def read_config(path: str | Path) -> WatchSettings:
    """A configuration file. Relative paths in it start at its folder."""
    place = Path(path)
    try:
        if place.stat().st_size > _LARGEST:
            raise ConfigError(f"larger than {_LARGEST >> 20} MiB: is this a configuration?", path=str(place))
        text = place.read_text("utf-8")
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ConfigError(f"not TOML: {error}", path=str(place), line=int(found[1]) if found else 0) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not TOML: {error}", path=str(place)) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", path=str(place)) from None
    return _settings(_Table(data, _File(place, text)))


class _File:
    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def line_of(self, table: str, key: str) -> int:
        """Where a key of a table is written, also as a table of its own; else the table's line, or 0."""
        at = self._line_of(table, key)
        header = re.compile(rf"\s*\[\[?\s*{re.escape('.'.join(filter(None, (table.partition('#')[0], key))))}\s*[\].]")
        if key and not (at and re.match(rf"\s*\"?{re.escape(key)}\"?\s*(=|\.)", self.lines[at - 1])):
            return next((line for line, words in enumerate(self.lines, 1) if header.match(words)), at)
        return at

    def _line_of(self, table: str, key: str) -> int:
        base, _, number = table.partition("#")
        header = re.compile(rf"\s*\[\[?\s*{re.escape(base)}\s*\]?\]") if base else None
        at, wanted = 0, int(number or 1)
        for line, words in enumerate(self.lines, 1):
            if header is not None and not at:
                if header.match(words):
                    wanted -= 1
                    at = line if wanted <= 0 else 0
                continue
            if re.match(r"\s*\[", words) and at != line:
                if header is None or not re.match(rf"\s*\[\[?\s*{re.escape(base)}[.]", words):
                    break
                continue
            if key and re.match(rf"\s*\"?{re.escape(key)}\"?\s*(=|\.)", words):
                return line
        return at

    def folder(self) -> Path:
        return self.path.parent


class _Table:
    """One table: each key is asked for once, and `finish` refuses the rest."""

    def __init__(self, data: Any, file: _File, name: str = "") -> None:
        self.file, self.name = file, name
        if not isinstance(data, dict):
            raise ConfigError("should be a table", path=str(file.path), line=file.line_of(name, ""), key=name)
        self._data: dict[str, Any] = data
        self._known: list[str] = []

    def wrong(self, key: str, message: str) -> ConfigError:
        """An error at the line of a key."""
        full = ".".join(part for part in (self.name.replace("#", " "), key) if part)
        return ConfigError(message, path=str(self.file.path), line=self.file.line_of(self.name, key), key=full)

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._data.get(key)

    def value(self, key: str, kind: type[T] | tuple[type, ...], default: T | None, what: str) -> Any:
        """A value of that type; `default` where it is missing, and an error where that is None and it is needed."""
        found = self._take(key)
        if found is None:
            return default
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            raise self.wrong(key, f"{found!r:.60} is no {what}")
        return found

    def text(self, key: str, default: str | None = None) -> str | None:
        found: str | None = self.value(key, str, default, "text")
        if found is not None and not found.strip():
            raise self.wrong(key, "is empty")
        return found

    def needed(self, key: str, example: str) -> str:
        found = self.text(key)
        if found is None:
            raise self.wrong(key, f"is missing; write {key} = {example}")
        return found

    def number(self, key: str, default: float, least: float, most: float) -> float:
        found = float(self.value(key, (int, float), default, "number"))
        if not least <= found <= most:
            raise self.wrong(key, f"{found:g} is not from {least:g} to {most:g}")
        return found

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        found = int(self.value(key, int, default, "whole number"))
        if not least <= found <= most:
            raise self.wrong(key, f"{found} is not from {least} to {most}")
        return found

    def flag(self, key: str, default: bool) -> bool:
        return bool(self.value(key, bool, default, "true or false"))

    def one_of(self, key: str, default: str, choices: Sequence[str]) -> str:
        found = self.text(key, default) or default
        if found not in choices:
            raise self.wrong(key, f"{found!r} is not one of {', '.join(choices)}{meant(found, choices)}")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.value(key, list, [], "list of texts")
        if not all(isinstance(one, str) and one for one in found):
            raise self.wrong(key, "is no list of texts")
        return tuple(found)

    def path(self, key: str, default: str | None = None) -> Path | None:
        found = self.text(key, default)
        return None if found is None else self.file.folder() / Path(found).expanduser()

    def secret(self, key: str) -> str | None:
        """The content of a file: secrets do not belong into a configuration that people share."""
        place = self.path(key)
        if place is None:
            return None
        try:
            found = read_token(place)
        except (OSError, ValueError) as error:
            raise self.wrong(key, f"{place} cannot be read: {error}") from None
        if not found:
            raise self.wrong(key, f"{place} is empty")
        return found

    def tables(self, key: str) -> list[_Table]:
        """A list of tables, or one."""
        found = self._take(key)
        name = f"{self.name}.{key}" if self.name else key
        if found is None:
            return []
        rows = found if isinstance(found, list) else [found]
        return [_Table(row, self.file, f"{name}#{at}" if len(rows) > 1 else name) for at, row in enumerate(rows, 1)]

    def table(self, key: str) -> _Table:
        name = f"{self.name}.{key}" if self.name else key
        found = self._take(key)
        return _Table({} if found is None else found, self.file, name)

    def named(self, key: str, make: Callable[[str, _Table], T]) -> tuple[T, ...]:
        """Tables by name: [key.NAME]."""
        group = self.table(key)
        found = []
        for name, row in group._data.items():
            if not _NAME.fullmatch(name):
                raise group.wrong(name, "a name has letters, digits, - and _ only, at most 64")
            table = _Table(row, self.file, f"{group.name}.{name}")
            found.append(make(name, table))
            table.finish()
        return tuple(found)

    def finish(self) -> None:
        """No other keys."""
        for key in self._data:
            if key not in self._known:
                hint = meant(key, self._known) or f"; there are {', '.join(self._known)}"
                raise self.wrong(key, f"is not known{hint}")


def _settings(top: _Table) -> WatchSettings:
    models = top.named("models", _model)
    tracking = top.table("tracking")
    defaults = _tracking(tracking, TrackerSettings())
    tracking.finish()
    names = [model.name for model in models]
    cameras = top.named("cameras", lambda name, table: _camera(name, table, names, defaults))
    if not models:
        raise top.wrong("models", "there is no model; write [models.NAME] with path = \"MODEL.rknn\"")
    if not 1 <= len(cameras) <= _MOST_CAMERAS:
        raise top.wrong("cameras", f"{len(cameras)} cameras; write 1 to {_MOST_CAMERAS} tables [cameras.NAME]")
    slots = top.whole("slots", 0, 0, 64)
    settings = WatchSettings(
        cameras=cameras,
        models=models,
        spool=top.path("spool", "spool") or Path("spool"),
        device=top.text("device", "auto") or "auto",
        workers=top.one_of("workers", "process", ("process", "in-process")),
        slots=slots or None,
        poll_seconds=top.number("poll_seconds", 2.0, 0.1, 3600),
        events=_events(top.table("events")),
        page=_page(top.table("page")),
    )
    top.finish()
    return settings


def _model(name: str, table: _Table) -> ModelSettings:
    path = table.file.folder() / Path(table.needed("path", '"yolo.rknn"')).expanduser()
    if not path.is_file():
        raise table.wrong("path", f"{path}: no such file; `openrknn models list detector` shows some")
    threshold = table.number("threshold", -1, 0, 1) if table._data.get("threshold") is not None else None
    table._known.append("threshold")
    labels = table.texts("labels")
    instances = table.whole("instances", 0, 0, 64)
    return ModelSettings(
        name=name, path=path, threshold=threshold, overlap=table.number("overlap", 0.45, 0, 1),
        classes=table.texts("classes"), labels=labels or None, family=table.text("family"),
        cores=table.whole("cores", 1, 1, 16), instances=instances or None,
    )  # fmt: skip


def _tracking(table: _Table, base: TrackerSettings) -> TrackerSettings:
    return TrackerSettings(
        high=table.number("high", base.high, 0, 1), low=table.number("low", base.low, 0, 1),
        new=table.number("new", base.new, 0, 1), match=table.number("match", base.match, 0, 1),
        lost_seconds=table.number("lost_seconds", base.lost_seconds, 0, 3600),
    )  # fmt: skip


def _camera(name: str, table: _Table, models: Sequence[str], defaults: TrackerSettings) -> Camera:
    source = table.needed("source", '"rtsp://192.168.1.20/live"')
    if source.startswith(PREFIX):
        try:
            parse_scene(source)
        except SourceError as error:
            raise table.wrong("source", str(error)) from None
    one, several = table.text("model"), table.texts("models")
    chosen = (one,) if one is not None else several
    if not chosen:
        if len(models) != 1:
            raise table.wrong("model", f"is missing; there are {', '.join(models) or 'no models'}")
        chosen = (models[0],)
    if one is not None and several:
        raise table.wrong("models", "give model or models, not both")
    for word in chosen:
        if word not in models:
            raise table.wrong("model" if one else "models", f"there is no [models.{word}]{meant(word, models)}")
    if len(set(chosen)) != len(chosen):
        raise table.wrong("models", "names a model twice")
    size = table.text("size")
    match = re.fullmatch(r"(\d{2,5})x(\d{2,5})", size) if size else None
    if size and not match:
        raise table.wrong("size", f"{size!r} is no size; write \"1280x720\"")
    own = table.table("tracking")
    tracking = _tracking(own, defaults)
    own.finish()
    zones = [_zone(one) for one in table.tables("zones")]
    lines = [_line(one) for one in table.tables("lines")]
    names = [place.name for place in (*zones, *lines)]
    for place in names:
        if names.count(place) > 1:
            raise table.wrong("zones", f"two zones or lines have the name {place!r}")
    return Camera(
        name=name, source=source, models=chosen, rate=table.number("rate", 5.0, 0.01, 1000),
        size=(int(match[1]), int(match[2])) if match else None, weight=table.number("weight", 1.0, 0.01, 100),
        repeat=table.flag("repeat", True), zones=tuple(zones), lines=tuple(lines), tracking=tracking,
    )  # fmt: skip


def _points(table: _Table, key: str, least: int, most: int) -> tuple[Point, ...]:
    rows = table.value(key, list, [], "list of points")
    is_right = all(
        isinstance(row, list) and len(row) == 2 and all(type(one) in (int, float) and 0 <= one <= 1e5 for one in row)
        for row in rows
    )
    if not is_right or not least <= len(rows) <= most:
        what = f"{least}" if least == most else f"{least} to {most}"
        raise table.wrong(key, f"needs {what} points [x, y], in pixels or as fractions from 0 to 1")
    return tuple((float(x), float(y)) for x, y in rows)


def _place_name(table: _Table) -> str:
    name = table.needed("name", '"yard"')
    if not _NAME.fullmatch(name):
        raise table.wrong("name", f"{name!r:.80}: a name has letters, digits, - and _ only, at most 64")
    return name


def _zone(table: _Table) -> Zone:
    points = _points(table, "polygon", 3, _MOST_POINTS)
    if not is_simple(points):
        raise table.wrong("polygon", "two of its edges cross each other; list the corners in order")
    report = table.texts("report") or _KINDS
    for kind in report:
        if kind not in _KINDS:
            raise table.wrong("report", f"{kind!r} is not one of {', '.join(_KINDS)}{meant(kind, _KINDS)}")
    zone = Zone(
        name=_place_name(table), points=points, classes=table.texts("classes"),
        anchor=table.one_of("anchor", "bottom", ("bottom", "center")),
        enter_seconds=table.number("enter_seconds", 0, 0, 86400),
        leave_seconds=table.number("leave_seconds", 1, 0, 86400),
        loiter_seconds=table.number("loiter_seconds", 0, 0, 86400), report=report,
    )  # fmt: skip
    table.finish()
    return zone


def _line(table: _Table) -> Line:
    points = _points(table, "points", 2, 2)
    if points[0] == points[1]:
        raise table.wrong("points", "the two points are the same")
    line = Line(
        name=_place_name(table), points=points, classes=table.texts("classes"),
        anchor=table.one_of("anchor", "bottom", ("bottom", "center")),
        direction=table.one_of("direction", "both", ("both", "in", "out")),
    )  # fmt: skip
    table.finish()
    return line


def _events(table: _Table) -> Events:
    files, webhooks, brokers = [], [], []
    for one in table.tables("file"):
        path = one.file.folder() / Path(one.needed("path", '"events.jsonl"')).expanduser()
        files.append(FileSink(path, one.path("snapshots")))
        one.finish()
    for one in table.tables("webhook"):
        url = one.needed("url", '"http://127.0.0.1:1880/openrknn"')
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise one.wrong("url", f"{url!r:.80} is no http:// or https:// address")
        webhooks.append(WebhookSink(url, one.secret("secret_file"), one.number("timeout", 10, 0.1, 600)))
        one.finish()
    for one in table.tables("mqtt"):
        brokers.append(_broker(one))
        one.finish()
    events = Events(
        tuple(files), tuple(webhooks), tuple(brokers), keep=table.whole("keep", 1000, 0, 1_000_000),
        most=table.whole("most", 100_000, 10, 10_000_000), snapshots=table.flag("snapshots", True),
        most_snapshots=table.whole("most_snapshots", 500, 0, 100_000),
    )  # fmt: skip
    table.finish()
    return events


def _broker(table: _Table) -> MqttSink:
    tls = table.flag("tls", False)
    prefix = table.text("prefix", "openrknn") or "openrknn"
    if set(prefix) & set("#+\0") or prefix.startswith("/") or prefix.endswith("/"):
        raise table.wrong("prefix", f"{prefix!r} is no topic: without # and +, and no / at its ends")
    return MqttSink(
        host=table.needed("host", '"192.168.1.10"'), port=table.whole("port", 8883 if tls else 1883, 1, 65535),
        prefix=prefix, username=table.text("username"), password=table.secret("password_file"), tls=tls,
        client_id=table.text("client_id", "") or "" if table._data.get("client_id") else "",
        discovery=(table.text("discovery_prefix", "homeassistant") if table.flag("discovery", True) else None),
        snapshots=table.flag("snapshots", True),
    )  # fmt: skip


def _page(table: _Table) -> Page:
    file = table.path("token_file")
    token = table.secret("token_file")
    page = Page(
        host=table.text("host", "127.0.0.1") or "", port=table.whole("port", 8018, 0, 65535), token=token,
        token_file=None if file is None else str(file), is_on=table.flag("enabled", True),
    )  # fmt: skip
    table.finish()
    return page
