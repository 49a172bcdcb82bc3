"""All public models that can be fetched by name, whichever package of openrknn makes them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openrknn.cli.common.progress import Tell
    from openrknn.packages import Package

__all__ = ["Made", "Request", "Row", "add_package_options", "board_target", "make", "rows"]

_COMMANDS = {"speech to text": "transcribe", "text to speech": "speak", "language": "chat", "embedding": "llm"}
_VOICES = {"openwakeword": "listen", "silero": "transcribe", "dtln": "denoise", "resemblyzer": "transcribe"}


def add_package_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that fetches a package and compiles the model in it."""
    images = "get, int8: folder of representative images (default: openrknn's examples)"
    parser.add_argument("--calibrate", metavar="FOLDER", type=Path, help=images)
    copy = "get: a copy of the package's files, where there is no network"
    parser.add_argument("--source", metavar="FOLDER", type=Path, help=copy)
    accept = "get: fetch a model whose licence restricts use"
    parser.add_argument("--accept-licence", action="store_true", help=accept)


@dataclass(frozen=True)
class Row:
    """One model of the catalogue."""

    name: str
    kind: str
    command: str
    """The command that uses it."""
    about: str
    licence: str
    packages: tuple[Package, ...]
    size: int
    """Bytes to fetch."""
    maker: str
    """vision, voice or llm: the part of openrknn that makes it."""
    here: tuple[Path, ...] = ()
    """Files or folders on this machine, made before."""
    credit: str = ""
    accuracy: str = ""
    precision: str = "fp16"
    sha256: str = ""

    @property
    def source(self) -> str:
        """The packages, or how else to get it."""
        return ", ".join(map(str, self.packages)) or "a local folder"

    def as_json(self, target: str) -> dict[str, Any]:
        """All of it, with the estimate for one chip."""
        from openrknn.models.estimates import estimate, estimates
        from openrknn.models.licences import needs_consent

        found = estimates().get(self.name, {})
        return {
            "name": self.name, "kind": self.kind, "command": self.command, "about": self.about,
            "licence": self.licence, "needs_consent": needs_consent(self.licence), "credit": self.credit,
            "packages": [{"name": one.name, "version": one.version, "registry": one.registry,
                          "integrity": one.integrity} for one in self.packages],
            "sha256": self.sha256, "fetch_bytes": self.size, "precision": self.precision, "accuracy": self.accuracy,
            "target": target, "estimated_ms": estimate(self.name, target), "estimated_for": found.get("unit"),
            "estimates_ms": found.get("ms", {}), "model_bytes": found.get("bytes"),
            "here": [str(path) for path in self.here],
        }  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What `make` is asked for."""

    to: Path | None = None
    """Where to write; None: in the data folder, by name."""
    target: str | None = None
    """None: this board's chip, else rk3588."""
    precision: str | None = None
    """None: the model's own."""
    calibrate: Path | None = None
    source: Path | None = None
    """A folder with the package's files, where there is no network."""
    accepted: bool = False
    """The user accepts a licence that restricts use."""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Request:
        """From the command line."""
        return cls(arguments.output, arguments.target, arguments.precision, arguments.calibrate, arguments.source,
                   arguments.accept_licence)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """What `make` put where."""

    name: str
    what: str
    """In a few words: what it is and what it is for."""
    path: Path
    licence: str
    source: str
    credit: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """For JSON."""

    @property
    def size(self) -> int:
        """Bytes of the file, or of the files in the folder."""
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())


def rows() -> list[Row]:
    """Every model that has a name, by kind."""
    from openrknn.models.entry import KINDS

    return sorted([*_vision(), *_voice(), *_llm()], key=lambda row: KINDS.index(row.kind))


def _vision() -> list[Row]:
    from openrknn.models.home import installed
    from openrknn.models.known import KNOWN

    here = installed()
    return [
        Row(name, one.kind, one.task, one.about, one.licence, (one.package,), one.size, "vision",
            tuple(got.path for got in here if got.name == name), one.credit, one.accuracy, one.precision, one.sha256)
        for name, one in KNOWN.items()
    ]  # fmt: skip


def _voice() -> list[Row]:
    from openrknn.voice.make.known import KNOWN
    from openrknn.voice.sets import installed

    here = {one.name: one.folder for one in installed()}
    return [
        Row(name, one.kind, _VOICES.get(one.family) or _COMMANDS.get(one.kind, "voice"), one.about, one.licence,
            one.packages, one.size, "voice", (here[name],) if name in here else (), accuracy=one.accuracy)
        for name, one in KNOWN.items()
    ]  # fmt: skip


def _llm() -> list[Row]:
    from openrknn.llm.home import KNOWN, installed

    here = installed()
    return [
        Row(name, one.kind, _COMMANDS[one.kind], one.about, one.licence, (one.package,), one.size, "llm",
            tuple(path for path in here if path.stem == name), accuracy=one.accuracy, sha256=one.sha256)
        for name, one in KNOWN.items()
    ]  # fmt: skip


def make(row: Row, wanted: Request, tell: Tell | None = None) -> Made:
    """Fetch a model and compile it (language models: fetch it)."""
    from openrknn.models.licences import check_consent

    check_consent(row.name, row.licence, accepted=wanted.accepted)
    return {"vision": _make_vision, "voice": _make_voice, "llm": _make_llm}[row.maker](row, wanted, tell)


def board_target(target: str | None) -> str:
    """The chip that was asked for, else this board's, else rk3588."""
    from openrknn.trace.nodes import chip_of_this_board

    here = chip_of_this_board()
    return target or (here.name if here is not None else "rk3588")


def _make_vision(row: Row, wanted: Request, tell: Tell | None) -> Made:
    from openrknn.cli.common.examples import find_examples
    from openrknn.models.fetch import get

    calibrate = wanted.calibrate
    if calibrate is None and (wanted.precision or row.precision) == "int8":
        calibrate = find_examples() / "images"
    got = get(row.name, wanted.to, target=board_target(wanted.target), precision=wanted.precision, calibrate=calibrate,
              source=wanted.source, accepted=True, progress=tell)  # fmt: skip
    facts = {"name": got.name, "task": got.task, "target": got.target, "precision": got.precision,
             "licence": got.licence, "source": got.source, "path": str(got.path), "credit": got.credit}  # fmt: skip
    what = f"{got.task} for {got.target}, {got.precision}"
    return Made(got.name, what, got.path, got.licence, got.source, got.credit, facts)


def _make_voice(row: Row, wanted: Request, tell: Tell | None) -> Made:
    from openrknn.voice.make.fetch import get
    from openrknn.voice.make.known import KNOWN
    from openrknn.voice.sets import home

    # A local copy of the package has no name of its own: the set still gets the one that was asked for.
    where = wanted.to if wanted.to is not None or wanted.source is None else home() / row.name
    made = get(wanted.source or row.name, where, target=board_target(wanted.target), calibrate=wanted.calibrate,
               precision=wanted.precision or "fp16", family=KNOWN[row.name].family if wanted.source else None,
               progress=tell)  # fmt: skip
    facts = {"name": made.name, "kind": made.kind, "folder": str(made.folder), "licence": made.licence,
             "source": made.source, "target": made.target}  # fmt: skip
    return Made(made.name, f"{made.kind} for {made.target}", made.folder, made.licence, made.source, facts=facts)


def _make_llm(row: Row, wanted: Request, tell: Tell | None) -> Made:
    from openrknn.llm.home import get

    path = get(row.name, wanted.to, tell, wanted.source)
    facts = {"name": row.name, "path": str(path), "licence": row.licence}
    return Made(row.name, row.about, path, row.licence, row.source, facts=facts)
