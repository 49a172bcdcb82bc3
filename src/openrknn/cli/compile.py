"""`openrknn compile`: a `.rknn` from an ONNX file, on any machine."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from openrknn.cli.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.compiler import Compiled, CompileOptions

NAME = "compile"
HELP = "make a .rknn model of an ONNX file"
DESCRIPTION = """Compile an ONNX model for the NPU. With calibration data (pictures or arrays like those of real use) it
becomes int8; without, fp16. Models that are quantised already (QDQ) keep their scales and need no data. What the file
will do on the NPU can be looked at with inspect, profile and compare."""
EXAMPLES = (
    "openrknn compile net.onnx -o net.rknn --calibrate pictures/ --mean 123.675,116.28,103.53 --std 58.4,57.12,57.38",
    "openrknn compile net.onnx -o net.rknn                            fp16",
    "openrknn compile net.onnx -o net.rknn --shapes images=1,3,640,640 --outputs boxes,scores",
    "openrknn compile net.onnx -o net.rknn --shapes x=1,3,224,224 --shapes x=1,3,192,192",
    "openrknn compile net.onnx -o net.rknn --calibrate a.npy b.npy --verify --report net.html",
    "openrknn compile net.onnx -o net.rknn --calibrate pictures/ --auto-mixed --min-snr 30",
)
SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL.onnx", help="the model to compile")
    parser.add_argument("-o", "--output", metavar="OUT.rknn", help="the file to write (default: beside the model)")
    parser.add_argument("--force", action="store_true", help="overwrite OUT if it is there")
    parser.add_argument("--target", default="rk3588", help="the chip (default: rk3588)")
    parser.add_argument(
        "--calibrate", metavar="DATA", nargs="+", default=[],
        help="a folder of pictures or .npy files, a list file, or single files: makes the model int8",
    )  # fmt: skip
    parser.add_argument("--fp16", action="store_true", help="fp16, even with calibration data")
    parser.add_argument("--mean", type=_numbers, metavar="M,...", help="subtracted from pixels, inside the model")
    parser.add_argument("--std", type=_numbers, metavar="S,...", help="what pixels are divided by, inside the model")
    parser.add_argument("--order", choices=("rgb", "bgr"), default="rgb", help="channels of calibration pictures")
    parser.add_argument(
        "--shapes", metavar="NAME=N,...", action="append", default=[],
        help="the shape of an input that is open; several times for one input: a file that runs with each of them",
    )  # fmt: skip
    parser.add_argument(
        "--batch", type=int, metavar="N", help="items of one run (default: what the model's own batch dimension says)"
    )
    parser.add_argument("--outputs", type=_names, default=[], metavar="NAME,...", help="make these values the outputs")
    parser.add_argument(
        "--method", choices=("minmax", "percentile", "mse", "entropy", "auto"), default="minmax",
        help="how the range of each value is chosen; auto tries minmax and mse and keeps the better",
    )  # fmt: skip
    parser.add_argument(
        "--split-outputs", action="store_true", help="parts of a final Concat become outputs with scales of their own"
    )
    parser.add_argument("--no-bias-correction", action="store_true", help="leave the mean error of rounded weights in")
    parser.add_argument(
        "--equalize", action="store_true", help="even out the channels between convolutions (uneven ones lose in int8)"
    )
    parser.add_argument(
        "--auto-mixed", action="store_true", help="fp16 for the operators that int8 costs most, so many that are needed"
    )
    parser.add_argument(
        "--min-snr", type=float, default=30.0, metavar="DB",
        help="--auto-mixed: decibels that every output has to reach on the calibration data (default: 30)",
    )  # fmt: skip
    parser.add_argument(
        "--fp16-layers", type=_names, default=[], metavar="NAME,...", help="operators that are fp16 in an int8 model"
    )
    parser.add_argument("--bold", action="store_true", help="forms that no board has been seen to run yet")
    parser.add_argument(
        "--cores", type=int, choices=(1, 3),
        help="1: the task list for one core only; 3: lists for two and three cores, with all that can be shared "
        "(default: these too, if they are worth it)",
    )  # fmt: skip
    parser.add_argument(
        "--verify", action="store_true",
        help="run the result and compare it with ONNX in float, and with the vendor's runtime if it is here",
    )  # fmt: skip
    parser.add_argument("--library", metavar="PATH", help="the vendor's librknnrt.so for --verify")
    parser.add_argument("--report", metavar="OUT.html", help="write a page: what runs where, tiles, bytes, cycles")
    parser.add_argument("--show-graph", action="store_true", help="print the normalised graph")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Compile, check, write."""
    from openrknn.cli.save import save_atomically
    from openrknn.compiler import compile_with

    target = _target(arguments)
    started = time.perf_counter()
    with _progress(output) as tell:
        compiled = compile_with(arguments.model, _options(arguments, tell))
    seconds = time.perf_counter() - started
    facts = _facts(compiled, arguments, seconds)
    if arguments.verify:
        from openrknn.compiler.verify import verify, verify_vendor

        facts["verify"] = [entry.as_json() for entry in verify(compiled)]
        facts["vendor"] = verify_vendor(compiled, arguments.library)
    if arguments.report:
        from openrknn.cli.compile_report import render

        save_atomically(arguments.report, render(compiled, facts).encode())
    save_atomically(target, compiled.data)
    _tell(output, compiled, facts, target, arguments)
    return 0


def _options(arguments: argparse.Namespace, tell: Callable[[str, int, int], None]) -> CompileOptions:
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


def _target(arguments: argparse.Namespace) -> str:
    wanted: str = arguments.output or os.path.splitext(arguments.model)[0] + ".rknn"
    if os.path.isdir(wanted):
        raise CommandError(f"{wanted}: this is a directory; give the name of a file")
    if os.path.exists(wanted):
        if os.path.exists(arguments.model) and os.path.samefile(wanted, arguments.model):
            raise CommandError(f"{wanted}: this is the model itself; give another name with -o")
        if not arguments.force:
            raise CommandError(f"{wanted}: there already; give another name with -o, or --force to overwrite it")
    folder = os.path.dirname(os.path.abspath(wanted))
    if not os.path.isdir(folder):
        raise CommandError(f"{folder}: there is no such directory to write into")
    return wanted


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


@contextmanager
def _progress(output: Output) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    import sys

    if not output.is_human or not sys.stderr.isatty():
        yield lambda stage, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("import", total=1)

        def tell(stage: str, done: int, of: int) -> None:
            bar.update(task, description=f"{stage:9}", completed=done, total=max(of, 1))

        yield tell


def _facts(compiled: Compiled, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    from openrknn.container.explain import list_label
    from openrknn.runtime.shapes import specs

    model = compiled.model
    cost = compiled.costs[1]
    lists = model.graphs[0].task_lists
    on_cpu = [step for step in compiled.lowering.program.steps if step.is_cpu]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": arguments.model,
        "target": model.platform,
        "format": compiled.format_name,
        "seconds": seconds,
        "size_bytes": len(compiled.data),
        "inputs": [str(spec) for spec in specs(model, model.graphs[0], inputs=True)],
        "outputs": [str(spec) for spec in specs(model, model.graphs[0], inputs=False)],
        **_variants(compiled),
        "operators": len(compiled.lowering.program.steps),
        "tasks": cost.tasks,
        "submits": cost.submits,
        "moved_bytes": cost.moved_bytes,
        "estimated_cycles": cost.cycles,
        "task_lists": {list_label(entry): len(numbers) for entry, numbers in lists.items()},
        "estimated_cycles_by_cores": {str(count): entry.cycles for count, entry in compiled.costs.items()},
        "internal_bytes": model.memory.internal_bytes,
        "weight_bytes": model.memory.weight_bytes,
        "cpu_operators": [f"{step.type} {step.name}" for step in on_cpu],
        **_precision(compiled, arguments),
    }


def _variants(compiled: Compiled) -> dict[str, Any]:
    """Nothing for models with one shape and one item a run."""
    from openrknn.compiler.trials import items_of

    model = compiled.model
    facts: dict[str, Any] = {}
    if model.batch_size > 1 or compiled.variants[0].batch > 1:
        facts |= {"batch": items_of(model, compiled.variants[0]), "is_repeated_by_runtime": model.batch_size > 1}
    if model.is_dynamic:
        facts["shapes"] = [
            {
                "inputs": {name: list(shape) for name, shape in variant.shapes.items()},
                "tasks": cost.tasks, "moved_bytes": cost.moved_bytes, "estimated_cycles": cost.cycles,
            }
            for variant in compiled.variants
            for cost in (variant.costs[1],)
        ]  # fmt: skip
    return facts


def _precision(compiled: Compiled, arguments: argparse.Namespace) -> dict[str, Any]:
    """Nothing for models that have one number format anyway."""
    if not compiled.precision:
        return {}
    facts: dict[str, Any] = {"precision": [asdict(choice) for choice in compiled.precision]}
    if compiled.mixed_snr_db is not None:
        facts |= {"mixed_snr_db": compiled.mixed_snr_db, "min_snr_db": arguments.min_snr}
    return facts


def cores_text(facts: dict[str, Any]) -> str:
    """What several cores gain, in words."""
    one, *more = facts["estimated_cycles_by_cores"].items()
    gains = ", ".join(f"{cores} cores {one[1] / max(1, cycles):.2f} x as fast" for cores, cycles in more)
    return f"{gains} as one, estimated"


def _tell(
    output: Output, compiled: Compiled, facts: dict[str, Any], target: str, arguments: argparse.Namespace
) -> None:
    output.data({**facts, "written": target})
    if output.is_human:
        if arguments.show_graph:
            from openrknn.compiler.ir import format_graph

            for line in format_graph(compiled.graph).splitlines():
                output.line(line)
        for role in ("inputs", "outputs"):
            for spec in facts[role]:
                output.line(f"{role[:-1]:8} {spec}")
        for line in _variant_lines(facts):
            output.line(line)
        output.line(
            f"{facts['format']:8} {facts['operators']} operators, {facts['tasks']} tasks in {facts['submits']} jobs; "
            f"{facts['moved_bytes'] / 1e6:.1f} MB moved and about {facts['estimated_cycles'] / 1e6:.2f} M cycles a run"
        )
        for line in _precision_lines(facts):
            output.line(line)
        if len(facts["task_lists"]) > 1:
            output.line(f"cores    {cores_text(facts)}")
        for name in facts["cpu_operators"]:
            output.line(f"on the CPU: {name}")
        for entry in facts.get("verify", ()):
            output.line(f"verify   {entry['text']}")
        for entry in facts.get("vendor", ()):
            output.line(f"verify   {entry['text']}")
        if arguments.report:
            output.line(f"report   {arguments.report}")
    output.value(f"wrote {target} ({facts['size_bytes'] / 1e6:.2f} MB, {facts['seconds']:.1f} s)")


def _variant_lines(facts: dict[str, Any]) -> Iterator[str]:
    if "batch" in facts:
        note = "; the runtime repeats the model, numbers below are for one" if facts["is_repeated_by_runtime"] else ""
        yield f"batch    {facts['batch']} items a run{note}"
    for number, entry in enumerate(facts.get("shapes", ())):
        inputs = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in entry["inputs"].items())
        cycles = entry["estimated_cycles"] / 1e6
        yield f"shapes   {number}: {inputs}; {entry['tasks']} tasks, about {cycles:.2f} M cycles a run"
    if "shapes" in facts:
        yield "         numbers below are for the first"


def _precision_lines(facts: dict[str, Any]) -> Iterator[str]:
    choices = facts.get("precision", ())
    floats = [choice for choice in choices if choice["precision"] == "fp16"]
    for choice in floats:
        yield f"fp16     {choice['operator']}: {choice['reason']}"
    if "mixed_snr_db" in facts:
        missed = "" if facts["mixed_snr_db"] >= facts["min_snr_db"] else ", which is what fp16 can do"
        yield (
            f"mixed    {len(floats)} of {len(choices)} operators in fp16; the worst output has "
            f"{facts['mixed_snr_db']:.1f} dB of the wanted {facts['min_snr_db']:.1f} dB{missed}"
        )
