"""`openrknn run`: run a model on pictures or arrays and show what comes out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import load_model
from openrknn.cli.common.options import add_device_arguments, add_input_arguments, open_session, positive
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.cli.common.parts import bundle_in, parted_arrays

if TYPE_CHECKING:
    from openrknn.cli.common.inputs import Array, Fed
    from openrknn.cli.common.labels import Labels
    from openrknn.cli.run.results import Outcome
    from openrknn.container.bundle import Bundle
    from openrknn.container.model import Model
    from openrknn.runtime.session import Session

NAME = "run"
HELP = "run a model on a picture or an array and show the result"
WAITS = "running the model"
DESCRIPTION = """Run a model on this machine: on its NPU, or on the software NPU, which needs neither a board nor the
vendor's library. Pictures are scaled, cropped and colour-ordered as the model expects. For a classifier the best
classes are shown, with names if a labels.txt or *_labels.txt with the right number of lines is beside the model; for
other models the shape and range of each output. --output saves the outputs."""
EXAMPLES = (
    "openrknn run classifier.rknn --input cat.jpg --top 5",
    "openrknn run yolo.rknn --input street.png --output results        all outputs as .npy",
    "openrknn run two.rknn --input left=a.npy --input right=b.npy",
    "openrknn run model.rknn --input inputs.npz --raw --output results  int8 as the NPU stores it",
    "openrknn run classifier.rknn --input cat.jpg --json | jq '.top[0].label'",
    "openrknn run speech.rknnz --input ids=ids.npy      a model in parts, arrays in its own types",
)

SCHEMA_VERSION = 1
DEFAULT_TOP = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL", help="a .rknn model, or a .rknnz in parts")
    add_input_arguments(parser)
    parser.add_argument("-o", "--output", metavar="DIR", action=OutputFolder, help="save every output as .npy")
    parser.add_argument("--force", action="store_true", help="overwrite files in a directory that is not empty")
    parser.add_argument("--raw", action="store_true", help="save outputs as the NPU stores them, not as float32")
    parser.add_argument("--top", type=positive, metavar="N", help="show the N best classes (default: 5)")
    parser.add_argument("--labels", metavar="FILE", help="file with the class names, one per line")
    add_device_arguments(parser)
    parser.add_argument("--strict", action="store_true", help="also refuse what boards are known to ignore")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Run one model once."""
    from openrknn.cli.common.inputs import arrays_for
    from openrknn.cli.run.results import Outcome, dequantized

    bundle = bundle_in(arguments.model)
    labels: Labels | None = None
    if bundle is not None:  # in parts: it takes and gives arrays in its own types
        if arguments.raw:
            raise CommandError("a model in parts gives its own types: there is no --raw for it")
        opened: Model | Bundle = bundle
        fed = parted_arrays(bundle, arguments.input)
    else:
        opened = model = load_model(arguments.model)
        fed = arrays_for(model, arguments.input, fit=arguments.fit, order=arguments.order)
        labels = _labels([spec.shape for spec in model.outputs], arguments, model)
    with open_session(opened, arguments) as (session, load_seconds):
        started = time.perf_counter()
        results = _outputs(session, fed, arguments, is_parted=bundle is not None)
        run_seconds = time.perf_counter() - started
        device, specs, notes = session.device.name, session.outputs, list(session.notes)
    if bundle is not None:
        labels = _labels([array.shape for array in results.values()], arguments)
    files = _save(results, arguments) if arguments.output else {}
    asked = arguments.top is not None or bool(arguments.labels)
    # A table of classes is about real numbers, even where the stored ones are saved.
    real = dequantized(specs, results) if arguments.raw else results
    outcome = Outcome.of(fed, results, labels, real=real, top=arguments.top or DEFAULT_TOP, asked=asked)
    facts = {"device": device, "load_seconds": load_seconds, "run_seconds": run_seconds, "notes": notes}
    _tell(output, outcome, {"model": arguments.model, **facts}, files)
    if arguments.output:
        output.value(f"wrote {len(files)} arrays to {arguments.output}; index.json describes them")
    return 0


def _outputs(session: Session, fed: list[Fed], arguments: argparse.Namespace, *, is_parted: bool) -> dict[str, Array]:
    arrays = {item.name: item.array for item in fed}
    try:
        if is_parted:
            return session.run(arrays)
        if session.model.is_dynamic:
            session.set_shapes({name: array.shape for name, array in arrays.items()})
        return session.run(arrays, layout=arguments.layout, outputs="raw" if arguments.raw else "float")
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error


def _labels(
    shapes: Sequence[tuple[int, ...]], arguments: argparse.Namespace, model: Model | None = None
) -> Labels | None:
    from openrknn.cli.common.labels import find_labels, labels_in, read_labels

    if arguments.labels:
        return read_labels(arguments.labels, max(shapes[0], default=0) if len(shapes) == 1 else None)
    return find_labels(arguments.model, shapes) or (labels_in(model, shapes) if model is not None else None)


def _save(results: dict[str, Array], arguments: argparse.Namespace) -> dict[str, str]:
    """Output name -> file name."""
    from openrknn.cli.common.folder import Folder, safe_name

    folder = Folder(arguments.output, force=arguments.force)
    names = {name: f"{number}_{safe_name(name)}.npy" for number, name in enumerate(results)}
    for name, array in results.items():
        folder.add_array(names[name], array, "output", name=name)
    folder.finish(schema_version=SCHEMA_VERSION, model=str(arguments.model), inputs=list(arguments.input))
    return names


def _tell(output: Output, outcome: Outcome, about: dict[str, Any], files: dict[str, str]) -> None:
    from openrknn.cli.run import text

    if output.is_json:
        output.data({"schema_version": SCHEMA_VERSION, **about, **text.as_json(outcome, files)})
    elif output.is_human:
        text.show(output, outcome, about)
    else:
        for entry in outcome.best or ():
            output.value(f"{entry.probability:.4f} {entry.number} {entry.label}".rstrip())
