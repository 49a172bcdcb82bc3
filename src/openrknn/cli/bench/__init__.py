"""`openrknn bench`: how fast a model runs here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import load_model
from openrknn.cli.common.options import (
    add_device_arguments,
    add_input_arguments,
    number,
    open_session,
    positive,
    seconds,
)
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.parts import bundle_in, example_for, parted_arrays

if TYPE_CHECKING:
    from openrknn.cli.common.inputs import Fed
    from openrknn.container.bundle import Bundle
    from openrknn.container.model import Model

NAME = "bench"
HELP = "measure how fast a model runs here: latency, throughput, memory"
DESCRIPTION = """Run a model repeatedly and measure latency (with percentiles), throughput and memory. The first runs
(--warmup) are not counted. It stops when both --runs and --seconds are reached. Without --input the model gets random
numbers, which take as long as real data."""
EXAMPLES = (
    "openrknn bench yolo.rknn",
    "openrknn bench yolo.rknn --threads 1 --runs 100",
    "openrknn bench yolo.rknn --seconds 30 --cores 3",
    "openrknn bench yolo.rknn --json | jq '.latency_seconds.p50'",
)

SCHEMA_VERSION = 1
THREADS = "OPENRKNN_THREADS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL", help="a .rknn model, or a .rknnz in parts")
    count = number("a whole number from 0 on", 0, whole=True)
    parser.add_argument("--warmup", type=count, metavar="N", default=3, help="runs before measuring (default: 3)")
    parser.add_argument("--runs", type=positive, metavar="N", default=10, help="minimum number of runs (default: 10)")
    parser.add_argument(
        "--seconds", type=seconds, metavar="T", default=3.0, help="minimum time to measure (default: 3)"
    )
    parser.add_argument("--threads", type=positive, metavar="N", help=f"threads to compute with (default: {THREADS})")
    add_input_arguments(parser)
    add_device_arguments(parser)



def run(arguments: argparse.Namespace, output: Output) -> int:
    """Measure one model."""
    from openrknn import compute
    from openrknn.cli.bench import measure
    from openrknn.container.model import Model

    model = bundle_in(arguments.model) or load_model(arguments.model)
    if arguments.threads:
        compute.set_threads(arguments.threads)
    before_bytes = measure.resident_bytes()
    fed = _fed(model, arguments)
    with open_session(model, arguments) as (session, load_seconds):
        arrays = {item.name: item.array for item in fed}
        try:
            if isinstance(model, Model) and model.is_dynamic:
                session.set_shapes({name: array.shape for name, array in arrays.items()})
            series = measure.repeat(lambda: session.run(arrays, layout=arguments.layout), arguments, output)
        except (ValueError, TypeError) as error:
            raise CommandError(str(error)) from error
        facts: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "model": arguments.model,
            "device": session.device.name,
            "cores": session.cores,
            "inputs": "given" if arguments.input else "random",
            **measure.kernels(),
            "load_seconds": load_seconds,
            "first_run_seconds": series.first,
            "runs": len(series.times),
            "latency_seconds": measure.percentiles(series.times),
            "runs_per_second": len(series.times) / sum(series.times),
            "items_per_run": max(model.batch_size, 1) if isinstance(model, Model) else 1,
            "macs": _macs(model) if isinstance(model, Model) else model.macs,
            "memory": measure.memory(session.memory(), before_bytes),
        }
    output.data(facts)
    if output.is_human:
        from openrknn.cli.bench.text import show

        show(output, facts, series.times)
    else:
        output.value(f"{facts['latency_seconds']['p50'] * 1e3:.3f} ms")
    return 0


def _fed(model: Model | Bundle, arguments: argparse.Namespace) -> list[Fed]:
    from openrknn.cli.common.inputs import arrays_for, random_inputs
    from openrknn.container.bundle import Bundle

    if isinstance(model, Bundle):
        return parted_arrays(model, arguments.input) if arguments.input else example_for(model)
    if not arguments.input:
        return random_inputs(model)
    return arrays_for(model, arguments.input, fit=arguments.fit, order=arguments.order)


def _macs(model: Model) -> int:
    from openrknn.cost.macs import macs

    return sum(macs(operator) or 0 for operator in model.operators)
