"""`openrknn compile --partition`: one file with parts for the NPU and parts for the CPU."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.compile.arguments import changed_options, compile_options
from openrknn.quantities import count_text, size_text

if TYPE_CHECKING:
    from openrknn.container.bundle import Bundle
    from openrknn.partition import PartitionOptions

__all__ = ["add_partition", "run_partition", "tell_parts"]

SCHEMA_VERSION = 1
_MOST_PARTS = 24
"""That are listed one by one."""
Tell = Callable[[str, int, int], None]


def add_partition(group: argparse._ArgumentGroup) -> None:
    """Declare the options."""
    group.add_argument(
        "--partition", action="store_true",
        help="refuse nothing: what the NPU cannot do, or not faster, runs in ONNX Runtime; writes one file with all "
        "parts (OUT.rknnz), which run, bench, inspect, profile and serve take like any model",
    )  # fmt: skip
    group.add_argument(
        "--prefer", choices=("cost", "npu", "cpu"), default="cost",
        help="--partition: what is faster by estimate (cost), all that can be on the NPU, or nothing",
    )  # fmt: skip


def run_partition(
    arguments: argparse.Namespace, source: str | bytes | tuple[str, str], target: str, tell: Tell
) -> tuple[bytes, dict[str, Any], Bundle]:
    """(the file, facts for people and machines, the model)."""
    from openrknn.container.bundle import write_bundle
    from openrknn.partition import make_bundle

    if arguments.verify or arguments.verify_with:
        raise CommandError("--verify is for one .rknn; for parts use `openrknn compare OUT.rknnz MODEL.onnx`")
    started = time.perf_counter()
    bundle = make_bundle(source, _options(arguments), tell)
    data = write_bundle(bundle)
    return data, _facts(arguments, bundle, len(data), time.perf_counter() - started, target), bundle


def _options(arguments: argparse.Namespace) -> PartitionOptions:
    from openrknn.partition import PartitionOptions

    asked = compile_options(arguments, lambda stage, done, of: None)
    own = ("calibration", "shapes", "constants", "outputs", "progress", "batch", "fp16", "auto_mixed")
    if asked.batch is not None or asked.split_outputs:
        raise CommandError("--batch and --split-outputs are for one .rknn; leave them out with --partition")
    sets = asked.shape_sets
    return PartitionOptions(
        target=arguments.target, precision="fp16" if arguments.fp16 else "mixed" if arguments.auto_mixed else "",
        calibration=asked.calibration, prefer=arguments.prefer, shapes=sets if sets != [{}] else (),
        constants=asked.constants or {}, outputs=asked.outputs, compile=changed_options(asked, *own),
    )  # fmt: skip


def _facts(
    arguments: argparse.Namespace, bundle: Bundle, size: int, seconds: float, target: str
) -> dict[str, Any]:  # fmt: skip
    npu = [part for part in bundle.parts if part.kind == "npu"]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": arguments.model,
        "target": bundle.target,
        "format": bundle.precision,
        "seconds": seconds,
        "size_bytes": size,
        "inputs": [f"{port.name}: {port.type} {list(port.shape)}" for port in bundle.inputs],
        "outputs": [f"{port.name}: {port.type} {list(port.shape)}" for port in bundle.outputs],
        "npu_parts": len(npu),
        "cpu_parts": len(bundle.parts) - len(npu),
        "npu_share": bundle.npu_share,
        "macs": bundle.macs,
        "plans": [{name: list(shape) for name, shape in plan.shapes.items()} for plan in bundle.plans],
        "parts": [
            {
                "kind": part.kind, "file": part.file, "operators": part.operators, "macs": part.macs,
                "npu_macs": part.npu_macs, "npu_us": part.npu_us, "cpu_us": part.cpu_us, "reason": part.reason,
            }
            for part in bundle.parts
        ],
        "notes": list(bundle.notes),
        "open_inputs": [] if arguments.shapes else [
            port.name for port in bundle.inputs if any(not isinstance(size, int) for size in port.shape)
        ],
        "written": target,
    }  # fmt: skip


def tell_parts(output: Output, facts: dict[str, Any]) -> None:
    """A line for each part, and what it all comes to."""
    output.data(facts)
    if output.is_human:
        for role in ("inputs", "outputs"):
            for text in facts[role]:
                output.line(f"{role[:-1]:8} {text}")
        for number, part in enumerate(facts["parts"][:_MOST_PARTS]):
            work = f"{count_text(part['macs'])} products" if part["macs"] else "no products"
            output.line(f"{part['kind'].upper():8} {number:2}: {part['operators']} operators, {work}; {part['reason']}")
        if len(facts["parts"]) > _MOST_PARTS:
            output.line(f"         and {len(facts['parts']) - _MOST_PARTS} more; --json lists them all")
        output.line(
            f"{facts['format']:8} {facts['npu_parts']} NPU and {facts['cpu_parts']} CPU parts; "
            + (f"{facts['npu_share']:.1%} of {count_text(facts['macs'])} products on the NPU" if facts["macs"] else
               "no products, or none whose number is known before it runs")
        )
        if facts["open_inputs"] and not facts["npu_parts"]:
            example = " ".join(f"--shapes {name}=1,..." for name in facts["open_inputs"])
            output.line(f"note     an NPU part has fixed shapes; say what those of the inputs are: {example}")
    output.value(f"wrote {facts['written']} ({size_text(facts['size_bytes'])}, {facts['seconds']:.1f} s)")
