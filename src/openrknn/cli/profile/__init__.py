"""`openrknn profile`: the table that the vendor's runtime prints on a board, from the software NPU."""

from __future__ import annotations

import argparse

from openrknn.cli.common.files import load_model
from openrknn.cli.common.options import add_device_arguments, add_input_arguments, open_session, positive
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.common.parts import bundle_in

NAME = "profile"
HELP = "show what each operator costs: time on a board (estimated), time here (measured)"
WAITS = "profiling"
DESCRIPTION = """Show what each operator costs, with the columns of the table that the vendor's runtime prints on a
board. Board time is an estimate: for each task the slowest of MAC array, lookup table, DPU and memory, plus the
overhead of starting tasks and jobs. The rates are fitted to published measurements; the range is their spread, see
docs/estimate.md. "Bound" is what limits an operator. "Here" is measured on this machine, operator by operator, which
is slower than a normal run. A model in parts (.rknnz) has a row for each part, and a table for each part of the NPU."""
EXAMPLES = (
    "openrknn profile yolo.rknn",
    "openrknn profile yolo.rknn --cores 3 --runs 5",
    "openrknn profile yolo.rknn --sort here       the slowest on this machine first",
    "openrknn profile yolo.rknn --report profile.html   a page with charts and all operators",
    "openrknn profile yolo.rknn --json | jq '.operators[0]'",
)

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL", help="a .rknn model, or a .rknnz in parts")
    parser.add_argument("--runs", type=positive, metavar="N", default=3, help="average over N runs (default: 3)")
    parser.add_argument("--sort", choices=("order", "board", "here"), default="order", help="default: execution order")
    parser.add_argument("--report", metavar="OUT.html", action=OutputFile, kind=PAGE, help="write an HTML page")
    add_input_arguments(parser)
    add_device_arguments(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Profile one model."""
    from openrknn.analysis.board_time import clock_text, estimate_of
    from openrknn.analysis.profile_summary import summary_of
    from openrknn.analysis.profiles import as_json, rows_of
    from openrknn.cli.common.inputs import arrays_for, random_inputs
    from openrknn.quantities import count_of
    from openrknn.runtime.shapes import graph_for

    bundle = bundle_in(arguments.model)
    if bundle is not None:
        from openrknn.cli.profile.parted import profile_parts

        return profile_parts(bundle, arguments, output)
    model = load_model(arguments.model)
    given = arrays_for(model, arguments.input, fit=arguments.fit, order=arguments.order) if arguments.input else None
    arrays = {item.name: item.array for item in given or random_inputs(model)}
    with open_session(model, arguments) as (session, _):
        try:
            shapes = {name: array.shape for name, array in arrays.items()}
            number = graph_for(model, shapes) if model.is_dynamic else 0
            if model.is_dynamic:
                session.set_shapes(shapes)
            session.profile(arrays)  # decodes the commands, which does not count
            profile = session.profile(runs=arguments.runs)
        except (ValueError, TypeError) as error:
            raise CommandError(str(error)) from error
    rows = rows_of(model, model.graphs[number], profile)
    estimate = None if profile.cost is None else estimate_of(profile.cost)
    summary = summary_of(rows, estimate, chip=model.chip.title, device=profile.device)
    if arguments.report:
        from openrknn.cli.common.files import save_page
        from openrknn.pages.profile import Part, render

        cost = profile.cost
        part = Part(rows, estimate, *((cost.submits, cost.tasks) if cost is not None else (0, 0)))
        clock = f" at {clock_text(estimate)}" if estimate is not None else ""
        about = f"{model.chip.title}, {count_of(profile.cores, 'core')}{clock}"
        save_page(arguments.report, render(arguments.model, about, summary, [part]), output)
    if arguments.sort != "order":
        rows.sort(key=lambda row: (row.board_us or 0) if arguments.sort == "board" else row.here_us, reverse=True)
    output.data({"schema_version": SCHEMA_VERSION, "model": arguments.model, **as_json(rows, profile)})
    if output.is_human:
        from openrknn.cli.profile.text import show

        show(output, model, rows, profile)
        output.next_step(summary.next_step)
    else:
        time = profile.time_ms
        output.value("unknown" if time is None else f"{time * 1e3:.0f} us")
    return 0
