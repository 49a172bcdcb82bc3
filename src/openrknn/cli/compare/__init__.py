"""`openrknn compare`: a `.rknn` on the software NPU beside the ONNX model that it was made from, layer by layer.

    reference   the ONNX graph, whole or cut between tensors;  feeds: its inputs
    weights     the weights that the file really holds
    measure     both beside each other, free or isolated;  metrics: how far apart
    report      what it says;  text, page: for people
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from openrknn.cli.files import load_model
from openrknn.cli.options import add_input_arguments
from openrknn.cli.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.cli.compare.report import Comparison
    from openrknn.cli.run_inputs import Fed
    from openrknn.container.model import Model

NAME = "compare"
HELP = "compare a model with its ONNX source, layer by layer: where does accuracy get lost?"
DESCRIPTION = """Run a .rknn on the software NPU and the ONNX model that it was made from beside it, and compare every
tensor that both have. By default both run freely, so errors add up. With --isolate every operator is given the
reference's numbers, so that only its own error shows. --reference quantized gives the ONNX model the weights of the
file and rounds its tensors as the file does: then only the arithmetic differs. Needs the extra `onnx`; ONNX Runtime is
used if it is installed. Without --input random numbers are fed: give real data to judge a model. Exit code 1 if an
output is below --limit or something overflows; then the operators whose own error is large are named, with what
`openrknn lint` says of the file."""
EXAMPLES = (
    "openrknn compare yolo.rknn yolo.onnx --input street.jpg",
    "openrknn compare yolo.rknn yolo.onnx --input street.jpg --isolate",
    "openrknn compare yolo.rknn yolo.onnx --input street.jpg --html page.html",
    "openrknn compare yolo.rknn yolo.onnx --json | jq '.first_drift'",
)

SCHEMA_VERSION = 1
EXIT_DRIFT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL.rknn", help="a .rknn model")
    parser.add_argument("onnx", metavar="MODEL.onnx", help="what it was made from")
    add_input_arguments(parser)
    parser.add_argument("--isolate", action="store_true", help="each operator alone, on the reference's numbers")
    parser.add_argument(
        "--reference", choices=("float", "quantized"), default="float", help="the ONNX model as it is (default), or "
        "with the weights and the rounding of the file",
    )  # fmt: skip
    parser.add_argument("--limit", type=_share, metavar="C", default=0.99, help="cosine of a drift (default: 0.99)")
    parser.add_argument("--html", metavar="OUT", help="write one self-contained page with plots of both modes")
    parser.add_argument("--device", default="auto", help="auto, software[:CHIP], rknpu or rocket (default: auto)")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Compare one pair of models."""
    from openrknn.cli.compare.report import as_json
    from openrknn.cli.run_inputs import arrays_for, random_inputs

    model = load_model(arguments.model)
    if len(model.graphs) > 1 or model.batch_size > 1:
        raise CommandError(f"{arguments.model}: dynamic shapes and rknn_batch_size cannot be compared yet")
    given = arrays_for(model, arguments.input, fit=arguments.fit, order=arguments.order) if arguments.input else None
    comparison = _compare(arguments, model, given or random_inputs(model))
    output.data({"schema_version": SCHEMA_VERSION, **as_json(comparison)})
    if arguments.html:
        from openrknn.cli.compare.page import write

        write(comparison, arguments.html)
        output.value(f"wrote {arguments.html}")
    elif output.is_human:
        from openrknn.cli.compare.text import show

        show(comparison, output)
    else:
        from openrknn.cli.compare.text import verdict

        output.value(verdict(comparison))
    return EXIT_DRIFT if comparison.is_bad else 0


def _compare(arguments: argparse.Namespace, model: Model, fed: list[Fed]) -> Comparison:
    from onnx import numpy_helper

    from openrknn.cli.compare.feeds import feeds_for
    from openrknn.cli.compare.measure import Bench
    from openrknn.cli.compare.reference import Reference
    from openrknn.cli.compare.report import Comparison, culprits, lint_lines
    from openrknn.cli.compare.weights import read_weights
    from openrknn.runtime.inspector import Inspector

    reference = Reference.load(arguments.onnx)
    arrays = {item.name: item.array for item in fed}
    feeds = feeds_for(model, reference, arrays, arguments.layout)
    weights = read_weights(model, {name: numpy_helper.to_array(item) for name, item in reference.constants.items()})
    quantized = arguments.reference == "quantized"
    with Inspector(model, arguments.device) as inspector:
        bench = Bench(inspector, reference, weights, feeds, clouds=bool(arguments.html))
        if not any(name in bench.matched for name in bench.outputs):
            raise CommandError(f"the models do not belong together: {arguments.onnx} has none of the outputs' names")
        comparison = Comparison(
            model=arguments.model,
            onnx=arguments.onnx,
            chip=model.chip.title,
            engine=reference.engine,
            reference=arguments.reference,
            fed=[f"{item.name}: {item.source}{f' ({item.how})' if item.how else ''}" for item in fed],
            limit=arguments.limit,
            outputs=bench.outputs,
            tensors=len(bench.names),
            unmatched=[name for name in bench.names if name not in bench.matched],
            foreign_weights=weights.unknown,
        )
        if arguments.html or not arguments.isolate:
            comparison.free = bench.free(arrays, arguments.layout, quantized=quantized)
        if arguments.html or arguments.isolate:
            comparison.isolated = bench.isolated(quantized=quantized)
        if comparison.is_bad:
            comparison.culprits = culprits(comparison.isolated or bench.isolated(quantized=quantized), arguments.limit)
            comparison.lint = lint_lines(model)
    return comparison
