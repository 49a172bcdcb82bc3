"""`openrknn compare`: a `.rknn` on the software NPU beside the ONNX model that it was made from, layer by layer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from openrknn.cli.common.files import load_model, save_page
from openrknn.cli.common.options import add_input_arguments, real_share
from openrknn.cli.common.output import Output
from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.common.parts import bundle_in

if TYPE_CHECKING:
    from openrknn.analysis.accuracy.api import Mode
    from openrknn.analysis.accuracy.result import Comparison
    from openrknn.cli.common.inputs import Fed
    from openrknn.container.model import Model

NAME = "compare"
HELP = "compare a model with its ONNX source, layer by layer: where does accuracy get lost?"
WAITS = "comparing"
DESCRIPTION = """Run a .rknn on the software NPU and the ONNX model that it was made from beside it, and compare every
tensor that both have. By default both run freely, so errors add up. With --isolate every operator is given the
reference's numbers, so that only its own error shows. --reference quantized gives the ONNX model the weights of the
file and rounds its tensors as the file does: then only the arithmetic differs. Needs the extra `onnx`; ONNX Runtime is
used if it is installed. Without --input random numbers are fed: give real data to judge a model. Exit code 1 if an
output is below --limit or something overflows; then the operators whose own error is large are named, with what
`openrknn lint` says of the file. Of a model in parts (.rknnz) every value is compared that crosses a border between
parts, after all parts before it and for its own part alone, so that one sees which part loses accuracy."""
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
    parser.add_argument("model", metavar="MODEL.rknn", help="a .rknn model, or a .rknnz in parts")
    parser.add_argument("onnx", metavar="MODEL.onnx", help="the ONNX model it was made from")
    add_input_arguments(parser)
    parser.add_argument("--isolate", action="store_true", help="run each operator alone, on the reference's numbers")
    parser.add_argument(
        "--reference", choices=("float", "quantized"), default="float", help="the ONNX model as it is (default), or "
        "with the weights and the rounding of the file",
    )  # fmt: skip
    limit = "cosine below which a tensor has drifted (default: 0.99)"
    parser.add_argument("--limit", type=real_share, metavar="C", default=0.99, help=limit)
    parser.add_argument(
        "--html", action=OutputFile, kind=PAGE, metavar="OUT",
        help="write a self-contained HTML page with plots of both modes",
    )
    parser.add_argument("--device", default="auto", help="auto, software[:CHIP], rknpu or rocket (default: auto)")



def run(arguments: argparse.Namespace, output: Output) -> int:
    """Compare one pair of models."""
    from openrknn.analysis.accuracy.api import check_comparable
    from openrknn.analysis.accuracy.result import as_json, remarks, verdict
    from openrknn.cli.common.inputs import arrays_for, random_inputs

    bundle = bundle_in(arguments.model)
    if bundle is not None:
        from openrknn.cli.compare.parted import compare_parted

        return compare_parted(bundle, arguments, output)
    model = load_model(arguments.model)
    check_comparable(model)
    given = arrays_for(model, arguments.input, fit=arguments.fit, order=arguments.order) if arguments.input else None
    comparison = _compare(arguments, model, given or random_inputs(model))
    output.data({"schema_version": SCHEMA_VERSION, **as_json(comparison)})
    if arguments.html:
        from openrknn.pages.compare.page import render

        save_page(arguments.html, render(comparison), output)
        # The page has it all; the terminal at least the reason of the exit code.
        output.line(verdict(comparison))
        for remark in remarks(comparison) if comparison.is_bad else ():
            output.line(f"  {remark}")
    elif output.is_human:
        from openrknn.cli.compare.text import show

        show(comparison, output)
    else:
        output.value(verdict(comparison))
    return EXIT_DRIFT if comparison.is_bad else 0


def _compare(arguments: argparse.Namespace, model: Model, fed: list[Fed]) -> Comparison:
    from openrknn import analysis

    both = bool(arguments.html)
    modes: tuple[Mode, ...] = ("free", "isolated") if both else ("isolated",) if arguments.isolate else ("free",)
    return analysis.compare(
        model,
        arguments.onnx,
        {item.name: item.array for item in fed},
        layout=arguments.layout,
        reference=arguments.reference,
        modes=modes,
        limit=arguments.limit,
        device=arguments.device,
        clouds=both,
        fed=[f"{item.name}: {item.source}{f' ({item.how})' if item.how else ''}" for item in fed],
    )
