"""The parts of the demo, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.examples import find_examples
from openrknn.cli.common.folder import Folder
from openrknn.cli.common.output import Output
from openrknn.cli.common.progress import lines_for
from openrknn.cli.common.tables import bar, facts, table, title
from openrknn.cli.demo.sound import heard_keys
from openrknn.cli.demo.speech import HEADING, spoken_part
from openrknn.errors import RknnError
from openrknn.pages.demo import Part, render
from openrknn.quantities import duration

if TYPE_CHECKING:
    from openrknn.vision.result import Result

__all__ = ["run_demo"]

_QUALITY = 90
_BAR_CELLS = 20
_ALWAYS = 3
"""Parts that need no network."""
CLASSIFIER, FINDER, LISTENER = (
    "efficientnet_lite0_rk3588_i8.rknn",
    "ppocrv4_det_rk3588_i8.rknn",
    "tones_rk3588_fp.rknn",
)


def run_demo(save: str, output: Output, *, voice: bool = False) -> int:
    """Run, write, and say what to try next."""
    started = time.perf_counter()
    examples = find_examples()
    page = "index.html"
    folder = Folder(save, again=page)
    parts = []
    # The page is there after the first result and grows: the spoken sentence may take minutes the first time.
    for part in _parts(examples, output, voice=voice):
        parts.append(part)
        for name, data in part.pictures:
            folder.add_bytes(name, data, part.heading)
        _show(output, part)
        total = time.perf_counter() - started
        folder.rewrite_text(page, render(parts, total), "everything on one page")
        folder.checkpoint(seconds=total)
        if voice and len(parts) == _ALWAYS and output.is_human:
            output.line(f"{Path(save) / page} has these results; next is {HEADING!r}, whose models are fetched once")
    index = folder.finish(seconds=total)
    output.data({**index, "directory": save, "parts": [_fields(part) for part in parts]})
    _end(output, Path(save) / page, total)
    return 0


def _parts(examples: Path, output: Output, *, voice: bool) -> Iterator[Part]:
    from openrknn.vision.pipeline import Pipeline

    models, images = examples / "models", examples / "images"
    with _waiting(output, "What is on these photos?"), Pipeline(models / CLASSIFIER) as classify:
        classify(images / "cat.jpg")  # a first run decodes the commands; the time of the others is what counts
        results = [classify(images / name) for name in ("coffee.jpg", "cat.jpg")]
    about = "EfficientNet-Lite0, which knows the 1000 classes of ImageNet"
    best = [
        (row["probability"], f"{Path(result.name).stem}: {row['label']}")
        for result in results
        for row in result.rows(3)
    ]
    yield _pictures("What is on these photos?", about, CLASSIFIER, results, best)
    with _waiting(output, "Where is the text on this page?"), Pipeline(models / FINDER) as find:
        find(images / "page.jpg")
        result = find(images / "page.jpg")
    scores = [row["score"] for row in result.rows()]
    found = [(sum(scores) / max(len(scores), 1), f"{len(scores)} lines of text, framed in page.jpg")]
    yield _pictures("Where is the text on this page?", "PP-OCRv4 text detection", FINDER, [result], found)
    with _waiting(output, "Which keys were pressed?"):
        number = "0800#15774*"
        seconds, keys = heard_keys(models / LISTENER, number)
    about = "A network without pictures: it hears the two tones of each key of a telephone, through noise"
    right = sum(a == b for a, b in zip(number, keys, strict=False)) / len(number)
    said = [(right, f"dialled {number}, heard {keys}")]
    yield Part("Which keys were pressed?", about, LISTENER, seconds, lines=said)
    if voice:
        try:
            with _waiting(output, HEADING) as tell:
                part = spoken_part(tell)
        except (RknnError, ImportError) as error:  # no network, no room: the rest of the demo stands
            output.complain(f"{HEADING} is left out: {error}")
        else:
            yield part


def _pictures(heading: str, about: str, model: str, results: list[Result], lines: list[tuple[float, str]]) -> Part:
    pictures = []
    for result in results:
        data = BytesIO()
        result.annotated().save(data, "jpeg", quality=_QUALITY)
        pictures.append((Path(result.name).name, data.getvalue()))
    seconds = sum(result.run_seconds for result in results) / len(results)
    return Part(heading, about, model, seconds, pictures, lines)


@contextmanager
def _waiting(output: Output, what: str) -> Iterator[Callable[[str], None]]:
    """Something moves while nothing else happens, for people at a terminal; it can be told what it is waiting for."""
    if not output.is_human or not output.stream.isatty():
        lines = lines_for(output)
        yield lines if lines is not None else lambda _: None
        return
    with output.console.status(what) as status:
        yield status.update


def _show(output: Output, part: Part) -> None:
    if not output.is_human:
        return
    output.show(title(part.heading))
    rows = table("sure", "", "what", right=("sure",), wrap=("what",))
    ascii_only = output.console.options.ascii_only
    for share, text in part.lines:
        rows.add_row(f"{100 * share:.0f} %", bar(share, _BAR_CELLS, ascii_only=ascii_only).ljust(_BAR_CELLS), text)
    rows.show_header = False
    output.show(rows, f"{part.about}. {part.model}, {duration(part.seconds)} per run.")


def _fields(part: Part) -> dict[str, object]:
    return {
        "heading": part.heading,
        "model": part.model,
        "seconds_per_run": part.seconds,
        "found": [{"score": share, "what": text} for share, text in part.lines],
    }


def _end(output: Output, page: Path, total: float) -> None:
    output.line()
    output.show(
        facts(
            [
                ("page", f"{page}  (open it in a browser)"),
                ("done", f"in {duration(total)}, by the software NPU: it executed the commands inside the .rknn files"),
                ("next", "openrknn classify MODEL PICTURE    what your photo shows"),
                (" ", "openrknn detect yolo.rknn PHOTOS/ --save out    boxes, with your own detector"),
                (" ", "openrknn transcribe talk.wav    what is said (after `openrknn voice get moonshine-tiny`)"),
                (" ", "openrknn inspect MODEL    what a model contains"),
            ]
        )
    )
    if not output.is_human:
        output.value(str(page))
