"""`openrknn compile`: a `.rknn` from an ONNX file, on any machine."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.progress import stages
from openrknn.cli.compile.arguments import compile_options, source_of, target_of
from openrknn.cli.compile.options import add_arguments
from openrknn.quantities import count_of, count_text, size_text

if TYPE_CHECKING:
    from openrknn.compiler import Compiled

__all__ = ["DESCRIPTION", "EXAMPLES", "HELP", "NAME", "add_arguments", "run"]

NAME = "compile"
HELP = "compile a model (ONNX, TFLite, PyTorch, TensorFlow, Caffe, Darknet) into a .rknn file"
DESCRIPTION = """Compile a model for the NPU: ONNX, or another framework's file, which becomes ONNX first. With
calibration data (representative pictures or arrays) it becomes int8; without, fp16. Models that are already quantised
(QDQ) keep their scales and need no data. Use inspect, profile and compare to see what the result does on the NPU."""
EXAMPLES = (
    "openrknn compile net.onnx -o net.rknn --calibrate pictures/ --mean 123.675,116.28,103.53 --std 58.4,57.12,57.38",
    "openrknn compile net.onnx -o net.rknn                            fp16",
    "openrknn compile net.onnx -o net.rknn --shapes images=1,3,640,640 --outputs boxes,scores",
    "openrknn compile yolo.onnx -o yolo.rknn --outputs heads --calibrate pictures/ --std 255",
    "openrknn compile net.onnx -o net.rknn --shapes x=1,3,224,224 --shapes x=1,3,192,192",
    "openrknn compile net.onnx -o net.rknn --calibrate a.npy b.npy --verify --report net.html",
    "openrknn compile net.onnx -o net.rknn --calibrate pictures/ --accuracy-drop 1%",
    "openrknn compile net.onnx -o net.rknn --calibrate pictures/ --auto-mixed --min-snr 30",
    "openrknn compile yolov4-tiny.cfg --std 255 --calibrate pictures/    Darknet, with yolov4-tiny.weights beside it",
    "openrknn compile deploy.prototxt --weights resnet.caffemodel -o resnet.rknn",
    "openrknn compile decoder_with_past.onnx --cache 200 --first decoder.onnx --frames 416    for openrknn.Decoder",
    "openrknn compile any.onnx --partition                            any.rknnz: parts for NPU and CPU, no refusal",
)
SCHEMA_VERSION = 1
_MOST_LINES = 12
"""Operators that are listed one by one."""


def _calm(arguments: argparse.Namespace) -> None:
    """One thread for the few small products of a compilation: more of them only wait for each other, and loudly.

    Callers that also run the result may need them; NumPy reads the setting when it is loaded.
    """
    runs_it = arguments.verify or arguments.verify_with or arguments.auto_mixed or arguments.accuracy_drop
    if not (runs_it or arguments.method == "auto"):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Compile, check, write."""
    _calm(arguments)
    from openrknn.cli.common.files import save_atomically
    from openrknn.compiler import compile_with
    from openrknn.compiler.errors import UnsupportedOperatorError

    source = source_of(arguments)
    target = target_of(arguments)
    page = ""
    if arguments.cache:
        return _run_cache(arguments, output, source, target)
    if arguments.first or arguments.frames:
        raise CommandError("--first and --frames are for decoders: say how many tokens with --cache")
    if arguments.partition:
        return _run_parts(arguments, output, source, target)
    started = time.perf_counter()
    with stages(output) as tell:
        try:
            compiled = compile_with(source, compile_options(arguments, tell))
        except UnsupportedOperatorError as error:
            raise UnsupportedOperatorError(f"{error}. Or leave it to the CPU: --partition") from None
        facts = _facts(compiled, arguments, time.perf_counter() - started)
        if arguments.verify or arguments.verify_with:
            from openrknn.compiler.verify import examples, verify, verify_vendor

            tell("verify", 0, 1)
            feeds = examples(compiled, arguments.verify_with) if arguments.verify_with else None
            facts["verified_with"] = _verified_with(compiled, arguments)
            facts["verify"] = [entry.as_json() for entry in verify(compiled, feeds)]
            facts["vendor"] = verify_vendor(compiled, arguments.library, feeds)
        if arguments.report:
            from openrknn.pages.compiled import render

            tell("report", 0, 1)
            page = render(compiled, facts)
    is_kept = arguments.keep or all(entry["is_good"] for entry in facts.get("verify", ()))
    if is_kept:  # both or none: what goes wrong before leaves nothing behind
        save_atomically(target, compiled.data)
    if arguments.report:
        save_atomically(arguments.report, page.encode())
    _tell(output, compiled, facts, target if is_kept else "", arguments)
    if not is_kept:
        output.complain(f"{target} was not written: --verify found too little accuracy; --keep writes it anyway")
    return 0 if is_kept else 1


def _run_cache(
    arguments: argparse.Namespace, output: Output, source: str | bytes | tuple[str, str], target: str
) -> int:
    from openrknn.cli.common.files import save_atomically
    from openrknn.cli.compile.decoder import run_cache, tell_cache

    with stages(output) as tell:
        data, facts = run_cache(arguments, source, target, tell)
    save_atomically(target, data)
    tell_cache(output, facts)
    return 0


def _run_parts(
    arguments: argparse.Namespace, output: Output, source: str | bytes | tuple[str, str], target: str
) -> int:
    from openrknn.cli.common.files import save_atomically
    from openrknn.cli.compile.parts import run_partition, tell_parts

    with stages(output) as tell:
        data, facts, bundle = run_partition(arguments, source, target, tell)
        if arguments.report:
            from openrknn.pages.parted.page import parted_page

            tell("report", 0, 1)
            page = parted_page(bundle, name=target, command="openrknn compile")
    save_atomically(target, data)
    if arguments.report:
        save_atomically(arguments.report, page.encode("utf-8", "backslashreplace"))
    tell_parts(output, facts)
    if arguments.report:
        output.line(f"report   {arguments.report}")
    return 0


def _facts(compiled: Compiled, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    from openrknn.analysis.board_time import as_facts, estimate_of, range_text, where_text
    from openrknn.analysis.explain import list_label
    from openrknn.compiler.advice import advice
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
        **as_facts(cost, "cpu_operators", "unknown_operators"),
        "estimate_text": range_text(estimate_of(cost)),
        "bound_text": where_text(estimate_of(cost)),
        "time_ms_by_cores": {str(count): entry.time_ms for count, entry in compiled.costs.items()},
        "internal_bytes": model.memory.internal_bytes,
        "weight_bytes": model.memory.weight_bytes,
        "cpu_operators": [f"{step.type} {step.name}" for step in on_cpu],
        **_precision(compiled, arguments),
        **({} if compiled.accuracy is None else {"accuracy": compiled.accuracy.as_json()}),
        "advice": advice(compiled),
        "check": compiled.checked,
        "check_result": compiled.check.as_json(),
    }


def _verified_with(compiled: Compiled, arguments: argparse.Namespace) -> str:
    """What the result was tried on, in words."""
    if arguments.verify_with:
        return ", ".join(arguments.verify_with)
    if any(variant.samples for variant in compiled.variants):
        return "the first calibration inputs"
    return "noise, as there is no calibration data; --verify-with FOLDER is more telling"


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
                "time_ms": cost.time_ms,
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
    return f"{gains} as one core, estimated"


def _tell(
    output: Output, compiled: Compiled, facts: dict[str, Any], target: str, arguments: argparse.Namespace
) -> None:
    output.data({**facts, "written": target or None})
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
            f"{facts['format']:8} {count_of(facts['operators'], 'operator')}, {count_of(facts['tasks'], 'task')} in "
            f"{count_of(facts['submits'], 'job')}; "
            f"{size_text(facts['moved_bytes'])} moved and about {count_text(facts['estimated_cycles'])} cycles a run"
        )
        output.line(f"time     {facts['estimate_text']}")
        output.line(f"         spent on {facts['bound_text']}")
        for line in (*_precision_lines(facts), *_accuracy_lines(facts)):
            output.line(line)
        if len(facts["task_lists"]) > 1:
            output.line(f"cores    {cores_text(facts)}")
        for name in facts["cpu_operators"]:
            output.line(f"on the CPU: {name}")
        for line in _notes(facts):
            output.line(line)
        if arguments.report:
            output.line(f"report   {arguments.report}")
    if target:
        output.value(f"wrote {target} ({size_text(facts['size_bytes'])}, {facts['seconds']:.1f} s)")


def _notes(facts: dict[str, Any]) -> Iterator[str]:
    yield from (f"note     {text}" for text in facts["advice"])
    yield f"check    {facts['check']}"
    if "verified_with" in facts:
        yield f"verify   on {facts['verified_with']}"
    for entry in (*facts.get("verify", ()), *facts.get("vendor", ())):
        yield f"verify   {entry['text']}"


def _variant_lines(facts: dict[str, Any]) -> Iterator[str]:
    if "batch" in facts:
        note = "; the runtime repeats the model, numbers below are for one" if facts["is_repeated_by_runtime"] else ""
        yield f"batch    {facts['batch']} items a run{note}"
    for number, entry in enumerate(facts.get("shapes", ())):
        inputs = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in entry["inputs"].items())
        time = entry["time_ms"]
        told = f"{count_text(entry['estimated_cycles'])} cycles" if time is None else f"{time:.2f} ms"
        yield f"shapes   {number}: {inputs}; {count_of(entry['tasks'], 'task')}, about {told} a run"
    if "shapes" in facts:
        yield "         numbers below are for the first"


def _accuracy_lines(facts: dict[str, Any]) -> Iterator[str]:
    accuracy = facts.get("accuracy")
    if accuracy is None:
        return
    for entry in accuracy["attempts"]:
        yield f"tried    {entry['text']}"
    yield f"chosen   {accuracy['text']}"


def _precision_lines(facts: dict[str, Any]) -> Iterator[str]:
    choices = facts.get("precision", ())
    floats = [choice for choice in choices if choice["precision"] == "fp16"]
    for choice in floats[:_MOST_LINES]:
        yield f"fp16     {choice['operator']}: {choice['reason']}"
    if len(floats) > _MOST_LINES:
        yield f"fp16     and {len(floats) - _MOST_LINES} more; --report and --json list them all"
    if "mixed_snr_db" in facts:
        missed = "" if facts["mixed_snr_db"] >= facts["min_snr_db"] else ", which is what fp16 can do"
        yield (
            f"mixed    {len(floats)} of {len(choices)} operators in fp16; the worst output has "
            f"{facts['mixed_snr_db']:.1f} dB of the wanted {facts['min_snr_db']:.1f} dB{missed}"
        )
