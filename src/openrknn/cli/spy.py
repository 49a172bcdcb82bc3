"""`openrknn spy`: record what a program sends to the NPU of a real board."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import TRACE, OutputFile
from openrknn.cli.exec import run_or_complain, show_kernel_log

if TYPE_CHECKING:
    from openrknn.chips import Chip

NAME = "spy"
HELP = "record what a program sends to this board's NPU"
DESCRIPTION = """Run a program on a board with an NPU and record every request to the kernel driver (rknpu or rocket),
with all device memory before and after each job. The real kernel and the real NPU do the work. Use `openrknn trace`
to inspect the recording, or to replay its jobs on the software NPU and see whether it computes what silicon does. The
program runs more slowly, and rocket's jobs run one at a time. Without a board use `openrknn exec --trace`."""
EXAMPLES = (
    "openrknn spy -- ./rknn_yolov5_demo model.rknn bus.jpg",
    "openrknn spy --trace yolo.trace -- python3 detect.py",
    "openrknn trace replay spy.trace                        silicon against the software NPU",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "--trace", metavar="FILE", action=OutputFile, kind=TRACE, default="spy.trace",
        help="where to write (default: spy.trace)",
    )  # fmt: skip
    parser.add_argument("--chip", help="the board's chip (default: read from its device tree)")
    parser.add_argument("program", metavar="PROGRAM ARGS...", nargs=argparse.REMAINDER, help="what to run, after --")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Find the NPU, run the program, and say what was recorded."""
    from openrknn.fakekernel.process import signals_for_child
    from openrknn.trace.archive import TraceWriter
    from openrknn.trace.nodes import find_nodes
    from openrknn.trace.spy import Spy

    words = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not words:
        raise CommandError("name the program to run: openrknn spy -- PROGRAM ARGS...")
    nodes = list(find_nodes())
    if not nodes:
        raise CommandError("no NPU driver in /dev/dri, /dev/accel or /dev/rknpu; without one: openrknn exec --trace")
    chip = _chip(arguments.chip)
    show_kernel_log()
    about = {"chip": chip.name, "driver": nodes[0].table.name, "recorded": "on a real kernel"}
    with signals_for_child(), TraceWriter(arguments.trace, **about) as writer:
        started = time.monotonic()
        with Spy(nodes, chip, writer) as spy:
            code = _run_program(words, dict(spy.environment), spy.folder)
        seconds = time.monotonic() - started
    if not arguments.quiet:
        counts = f"{spy.jobs} jobs, {spy.calls} ioctls"
        Output.complain(f"{counts} in {seconds:.2f} s, recorded in {arguments.trace} (look: openrknn trace show)")
    return code


def _chip(name: str | None) -> Chip:
    from openrknn.chips import chip_named
    from openrknn.trace.nodes import chip_of_this_board

    chip = chip_of_this_board() if name is None else chip_named(name)
    if chip is None:
        raise CommandError("the device tree names no chip that openrknn knows; name it with --chip")
    return chip


def _run_program(words: list[str], environment: dict[str, str], folder: Path) -> int:
    from openrknn.fakekernel.launch import emulated_folder, prepare
    from openrknn.fakekernel.preload import EMULATE, SPY
    from openrknn.fakekernel.process import run_process

    # On an emulated board, which is how this is tested, the library that emulates it stays behind ours.
    libraries = [SPY, EMULATE] if emulated_folder() is not None else [SPY]
    return run_or_complain(words, lambda: run_process(prepare(words, environment, folder, libraries=libraries)))
