"""What the arguments of `openrknn compile` ask for: the model, the file to write, the compiler's options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import CommandError
from openrknn.cli.common.outputs import check_file
from openrknn.cli.compile.labels import metric_for

if TYPE_CHECKING:
    from openrknn.compiler import CompileOptions

__all__ = ["changed_options", "compile_options", "source_of", "target_of"]

_STDIN = "-"


def changed_options(asked: CompileOptions, *leave: str) -> dict[str, Any]:
    """What differs from the defaults, but for the target and those to `leave` out: for who compiles several models."""
    plain = type(asked)(target=asked.target)
    return {
        name: getattr(asked, name) for name in type(asked).__dataclass_fields__
        if name not in ("target", *leave) and getattr(asked, name) != getattr(plain, name)
    }  # fmt: skip


def compile_options(arguments: argparse.Namespace, tell: Callable[[str, int, int], None]) -> CompileOptions:
    """What the compiler is asked for."""
    from openrknn.compiler import CompileOptions

    return CompileOptions(
        target=arguments.target, calibration=_calibration(arguments.calibrate), fp16=True if arguments.fp16 else None,
        mean=arguments.mean, std=arguments.std, order=arguments.order, fit=arguments.fit,
        shapes=_shapes(arguments.shapes), constants=_constants(arguments.constant), batch=arguments.batch,
        outputs=arguments.outputs, method=arguments.method,
        bias_correction=not arguments.no_bias_correction,
        adaptive_rounding=not arguments.no_adaptive_rounding, equalize=arguments.equalize, bold=arguments.bold,
        split_outputs=arguments.split_outputs,
        auto_mixed=arguments.auto_mixed, min_snr=arguments.min_snr, fp16_layers=arguments.fp16_layers,
        accuracy_drop=arguments.accuracy_drop, metric=metric_for(arguments),
        cores=arguments.cores, check=not arguments.no_check, progress=tell,
    )  # fmt: skip


def source_of(arguments: argparse.Namespace) -> str | bytes | tuple[str, str]:
    """The model: a path, two of them, or what standard input has."""
    if arguments.model is None and arguments.calibrate and arguments.calibrate[-1].endswith(".onnx"):
        arguments.model = arguments.calibrate.pop()  # --calibrate a b net.onnx: it takes all that follows
    if arguments.model is None:
        raise CommandError("which model? openrknn compile MODEL.onnx -o OUT.rknn; see `openrknn compile --help`")
    if arguments.model != _STDIN:
        if arguments.model.lower().endswith(".rknn"):
            raise CommandError(f"{arguments.model}: this is a .rknn already; compile takes the ONNX model")
        return (arguments.model, arguments.weights) if arguments.weights else str(arguments.model)
    if arguments.weights:
        raise CommandError("--weights belongs to a network of two files; it cannot come from standard input")
    if not arguments.output:
        raise CommandError("a model from standard input has no name; say where to write with -o OUT.rknn")
    if sys.stdin.isatty():
        raise CommandError("standard input is a terminal; send a model: openrknn compile - -o OUT.rknn < MODEL.onnx")
    return sys.stdin.buffer.read()


def target_of(arguments: argparse.Namespace) -> str:
    """Where to write: asked before the work, not after it."""
    suffix = ".rknnz" if arguments.partition or arguments.cache else ".rknn"
    wanted: str = arguments.output or os.path.splitext(arguments.model.rstrip("/"))[0] + suffix
    check_file(wanted, arguments)
    if arguments.report and os.path.realpath(arguments.report) == os.path.realpath(wanted):
        raise CommandError(f"{wanted}: the report would overwrite the model; choose another name")
    return wanted


def _calibration(given: list[str]) -> Any:
    if not given:
        return None
    return given[0] if len(given) == 1 else given


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


def _constants(given: list[str]) -> dict[str, Any]:
    """Input -> its value. Names may have = in them, values do not."""
    constants: dict[str, Any] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if not name or not value:
            raise CommandError(f"--constant takes NAME=VALUE, like attention_mask=1, not {text!r}")
        if name in constants:
            raise CommandError(f"--constant {name} was given twice; an input has one value")
        constants[name] = _constant(name, value)
    return constants


def _constant(name: str, text: str) -> Any:
    import json

    if text.lower().endswith(".npy"):
        return text
    try:
        value = json.loads(text.lower())
    except (ValueError, RecursionError):
        value = float(text) if text.lower().lstrip("+-") in {"inf", "nan"} else None
    if value is None or isinstance(value, str | dict):
        raise CommandError(f"--constant {name}: {text!r} is not a number, a list like [1,0,0], true, false, or a .npy")
    return value
