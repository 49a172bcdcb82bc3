"""The options of `openrknn compile`, in the groups in which people look for them."""

from __future__ import annotations

import argparse

from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.compile.decoder import add_cache
from openrknn.cli.compile.parts import add_partition

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?",
        help="the model to compile: .onnx, .tflite, .ort, .cfg and .weights (Darknet), .prototxt and .caffemodel "
        "(Caffe), .pt2, .pt, .pb, .keras, .h5, or a SavedModel's folder; - reads standard input",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="OUT.rknn", action=OutputFile, help="the file to write (default: beside the model)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT if it exists")
    chips = "the chip: rk3588 (also named rk3588s, rk3582), rk3568, rv1106 ... (default: rk3588)"
    parser.add_argument("--target", default="rk3588", help=chips)
    _model(parser.add_argument_group("the model"))
    _pictures(parser.add_argument_group("input pictures"))
    _int8(parser.add_argument_group("int8"))
    _precision(parser.add_argument_group("int8 and fp16"))
    _npu(parser.add_argument_group("the NPU"))
    add_partition(parser.add_argument_group("NPU and CPU"))
    add_cache(parser.add_argument_group("decoders"))
    _look(parser.add_argument_group("checking the result"))


def _model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--weights", metavar="FILE",
        help="the second file of a Darknet or Caffe network, if it is not beside MODEL under the same name",
    )  # fmt: skip
    group.add_argument(
        "--shapes", metavar="NAME=N,...", action="append", default=[],
        help="shape of an input whose shape is open; repeat it for the same input to get a model with several shapes",
    )  # fmt: skip
    group.add_argument(
        "--constant", metavar="NAME=VALUE", action="append", default=[],
        help="fix an input (an attention mask, a sample rate): a number for all of it, a list [1,0,0], true, false, or "
        "a .npy file; repeat it for more inputs",
    )  # fmt: skip
    group.add_argument(
        "--batch", type=int, metavar="N", help="items per run (default: the model's own batch dimension)"
    )
    group.add_argument(
        "--outputs", type=_names, default=[], metavar="NAME,...",
        help="use these tensors as outputs; `heads` means the last convolutions of a detector",
    )  # fmt: skip
    group.add_argument(
        "--split-outputs",
        action="store_true",
        help="turn the inputs of a final Concat into separate outputs, each with its own scale",
    )


def _pictures(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--mean", type=_numbers, metavar="M,...", help="subtracted from the pixels, inside the model")
    group.add_argument("--std", type=_numbers, metavar="S,...", help="the pixels are divided by this, inside the model")
    group.add_argument("--order", choices=("rgb", "bgr"), default="rgb", help="channel order of calibration pictures")
    group.add_argument(
        "--fit", choices=("auto", "letterbox", "crop", "stretch"), default="auto",
        help="calibration pictures: crop for classifiers, else letterbox (auto)",
    )  # fmt: skip


def _int8(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--calibrate", metavar="DATA", nargs="+", default=[],
        help="calibration data, which makes the model int8: a folder of pictures or .npy files, a list file, or files",
    )  # fmt: skip
    group.add_argument(
        "--method", choices=("cost", "minmax", "percentile", "mse", "entropy", "auto"), default="cost",
        help="how the range of each tensor is chosen: cost, by what it costs the outputs; auto tries cost, minmax and "
        "mse and keeps the best",
    )  # fmt: skip
    group.add_argument(
        "--equalize",
        action="store_true",
        help="equalise channel ranges between convolutions (uneven ones lose accuracy in int8)",
    )
    group.add_argument(
        "--no-bias-correction", action="store_true", help="do not correct the mean error of rounded weights"
    )
    group.add_argument(
        "--no-adaptive-rounding", action="store_true", help="round every weight to the nearest step"
    )


def _precision(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--accuracy-drop", metavar="SHARE",
        help="what the model may lose against float on the calibration data, as 1%%: recipes are tried and measured, "
        "the fastest one that holds it is written, and a warning says if none does",
    )  # fmt: skip
    group.add_argument(
        "--accuracy-data", metavar="DATASET",
        help="--accuracy-drop: measure on this labelled dataset, as `openrknn evaluate` does, instead of against float",
    )  # fmt: skip
    group.add_argument("--fp16", action="store_true", help="use fp16 even with calibration data")
    group.add_argument(
        "--auto-mixed", action="store_true", help="run the operators that lose most in int8 in fp16, as many as needed"
    )
    group.add_argument(
        "--min-snr", type=float, default=30.0, metavar="DB",
        help="--auto-mixed: SNR that every output must reach on the calibration data (default: 30)",
    )  # fmt: skip
    group.add_argument(
        "--fp16-layers", type=_names, default=[], metavar="NAME,...", help="operators of an int8 model to run in fp16"
    )


def _npu(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--cores", type=int, choices=(1, 3),
        help="1: a task list for one core only; 3: also lists for two and three cores that share all they can "
        "(default: these too, if they pay off)",
    )  # fmt: skip
    group.add_argument("--bold", action="store_true", help="use command forms that no board has been seen to run yet")


def _look(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--verify", action="store_true",
        help="run the result and compare it with the float ONNX model, and with the vendor's runtime if there is one; "
        "an output below 40 dB (fp16) or 20 dB (int8), or other answers than float's: nothing is written, exit code 1",
    )  # fmt: skip
    group.add_argument(
        "--verify-with", metavar="DATA", nargs="+", default=[],
        help="--verify with these pictures or arrays (as for --calibrate) instead of calibration data or noise",
    )  # fmt: skip
    group.add_argument(
        "--no-check", action="store_true",
        help="write the file without running it against the float ONNX model; the result records it",
    )  # fmt: skip
    group.add_argument("--keep", action="store_true", help="write the file even if --verify finds too little accuracy")
    group.add_argument("--library", metavar="PATH", help="the vendor's librknnrt.so for --verify")
    group.add_argument(
        "--report", metavar="OUT.html", action=OutputFile, kind=PAGE,
        help="write an HTML report: what runs where, tiles, bytes, cycles, and the SNR of each layer",
    )  # fmt: skip
    group.add_argument("--show-graph", action="store_true", help="print the normalised graph")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 123.675,116.28,103.53") from None


def _names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
