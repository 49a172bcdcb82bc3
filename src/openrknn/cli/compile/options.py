"""The options of `openrknn compile`, in the groups in which people look for them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openrknn.cli.output import CommandError

if TYPE_CHECKING:
    from openrknn.compiler import CompileOptions

__all__ = ["add_arguments", "compile_options", "source_of", "target_of"]

_STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL.onnx", nargs="?", help="the model to compile; - reads standard input")
    parser.add_argument("-o", "--output", metavar="OUT.rknn", help="the file to write (default: beside the model)")
    parser.add_argument("--force", action="store_true", help="overwrite OUT if it is there")
    parser.add_argument("--target", default="rk3588", help="the chip: rk3588, rk3566 or rk3568 (default: rk3588)")
    _model(parser.add_argument_group("the model"))
    _pictures(parser.add_argument_group("what is fed"))
    _int8(parser.add_argument_group("int8"))
    _precision(parser.add_argument_group("int8 and fp16"))
    _npu(parser.add_argument_group("the NPU"))
    _look(parser.add_argument_group("looking at the result"))


def _model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--shapes", metavar="NAME=N,...", action="append", default=[],
        help="the shape of an input that is open; several times for one input: a file that runs with each of them",
    )  # fmt: skip
    group.add_argument(
        "--batch", type=int, metavar="N", help="items of one run (default: what the model's own batch dimension says)"
    )
    group.add_argument(
        "--outputs", type=_names, default=[], metavar="NAME,...",
        help="make these values the outputs; heads: the last convolutions of a detector",
    )  # fmt: skip
    group.add_argument(
        "--split-outputs", action="store_true", help="parts of a final Concat become outputs with scales of their own"
    )


def _pictures(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--mean", type=_numbers, metavar="M,...", help="subtracted from pixels, inside the model")
    group.add_argument("--std", type=_numbers, metavar="S,...", help="what pixels are divided by, inside the model")
    group.add_argument("--order", choices=("rgb", "bgr"), default="rgb", help="channels of calibration pictures")


def _int8(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--calibrate", metavar="DATA", nargs="+", default=[],
        help="a folder of pictures or .npy files, a list file, or single files: makes the model int8",
    )  # fmt: skip
    group.add_argument(
        "--method", choices=("minmax", "percentile", "mse", "entropy", "auto"), default="minmax",
        help="how the range of each value is chosen; auto tries minmax and mse and keeps the better",
    )  # fmt: skip
    group.add_argument(
        "--equalize", action="store_true", help="even out the channels between convolutions (uneven ones lose in int8)"
    )
    group.add_argument("--no-bias-correction", action="store_true", help="leave the mean error of rounded weights in")


def _precision(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fp16", action="store_true", help="fp16, even with calibration data")
    group.add_argument(
        "--auto-mixed", action="store_true", help="fp16 for the operators that int8 costs most, so many that are needed"
    )
    group.add_argument(
        "--min-snr", type=float, default=30.0, metavar="DB",
        help="--auto-mixed: decibels that every output has to reach on the calibration data (default: 30)",
    )  # fmt: skip
    group.add_argument(
        "--fp16-layers", type=_names, default=[], metavar="NAME,...", help="operators that are fp16 in an int8 model"
    )


def _npu(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--cores", type=int, choices=(1, 3),
        help="1: the task list for one core only; 3: lists for two and three cores, with all that can be shared "
        "(default: these too, if they are worth it)",
    )  # fmt: skip
    group.add_argument("--bold", action="store_true", help="forms that no board has been seen to run yet")


def _look(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--verify", action="store_true",
        help="run the result and compare it with ONNX in float, and with the vendor's runtime if it is here",
    )  # fmt: skip
    group.add_argument(
        "--verify-with", metavar="DATA", nargs="+", default=[],
        help="--verify on these pictures or arrays (as for --calibrate), not on the calibration data or noise",
    )  # fmt: skip
    group.add_argument("--library", metavar="PATH", help="the vendor's librknnrt.so for --verify")
    group.add_argument(
        "--report", metavar="OUT.html",
        help="write a page: what runs where, tiles, bytes, cycles, and what is left of the signal layer by layer",
    )  # fmt: skip
    group.add_argument("--show-graph", action="store_true", help="print the normalised graph")


def compile_options(arguments: argparse.Namespace, tell: Callable[[str, int, int], None]) -> CompileOptions:
    """What the compiler is asked for."""
    from openrknn.compiler import CompileOptions

    return CompileOptions(
        target=arguments.target, calibration=_calibration(arguments.calibrate), fp16=True if arguments.fp16 else None,
        mean=arguments.mean, std=arguments.std, order=arguments.order, shapes=_shapes(arguments.shapes),
        batch=arguments.batch, outputs=arguments.outputs, method=arguments.method,
        bias_correction=not arguments.no_bias_correction, equalize=arguments.equalize, bold=arguments.bold,
        split_outputs=arguments.split_outputs,
        auto_mixed=arguments.auto_mixed, min_snr=arguments.min_snr, fp16_layers=arguments.fp16_layers,
        cores=arguments.cores, progress=tell,
    )  # fmt: skip


def source_of(arguments: argparse.Namespace) -> str | bytes:
    """The model: a path, or what standard input has."""
    if arguments.model is None and arguments.calibrate and arguments.calibrate[-1].endswith(".onnx"):
        arguments.model = arguments.calibrate.pop()  # --calibrate a b net.onnx: it takes all that follows
    if arguments.model is None:
        raise CommandError("which model? openrknn compile MODEL.onnx -o OUT.rknn; see `openrknn compile --help`")
    if arguments.model != _STDIN:
        return str(arguments.model)
    if not arguments.output:
        raise CommandError("a model from standard input has no name: say where to write with -o OUT.rknn")
    if sys.stdin.isatty():
        raise CommandError("standard input is a terminal; send a model: openrknn compile - -o OUT.rknn < MODEL.onnx")
    return sys.stdin.buffer.read()


def target_of(arguments: argparse.Namespace) -> str:
    """Where to write: asked before the work, not after it."""
    wanted: str = arguments.output or os.path.splitext(arguments.model)[0] + ".rknn"
    _writable(wanted, "OUT.rknn")
    if os.path.exists(wanted):
        if os.path.exists(arguments.model) and os.path.samefile(wanted, arguments.model):
            raise CommandError(f"{wanted}: this is the model itself; give another name with -o")
        if not arguments.force:
            raise CommandError(f"{wanted}: there already; give another name with -o, or --force to overwrite it")
    if arguments.report:
        _writable(arguments.report, "OUT.html")
        if os.path.realpath(arguments.report) in {os.path.realpath(wanted), os.path.realpath(arguments.model)}:
            raise CommandError(f"{arguments.report}: the report would overwrite the model; give it a name of its own")
    return wanted


def _writable(path: str, example: str) -> None:
    if os.path.isdir(path):
        raise CommandError(f"{path}: this is a directory; give the name of a file, as {os.path.join(path, example)}")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CommandError(f"{folder}: there is no such directory to write into; make it, or choose another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{folder}: nothing may be written there; choose another place with -o or --report")


def _calibration(given: list[str]) -> Any:
    if not given:
        return None
    return given[0] if len(given) == 1 else given


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 123.675,116.28,103.53") from None


def _names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _shapes(given: list[str]) -> dict[str, list[list[int]]]:
    """Input -> its shapes, in the order in which they were written."""
    shapes: dict[str, list[list[int]]] = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        try:
            shapes.setdefault(name, []).append([int(size) for size in sizes.split(",")])
        except ValueError:
            equals = ""
        if not equals or not name:
            raise CommandError(f"--shapes takes NAME=1,3,640,640, not {text!r}")
    return shapes
