"""`openrknn top`: what the NPUs do, live."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from openrknn.cli.common.options import seconds
from openrknn.cli.common.output import Output

NAME = "top"
HELP = "show load, clock, memory, temperature and users of the NPUs, live"
DESCRIPTION = """Show what the NPUs of this machine are doing: load per core, clock, memory, temperature, and the
processes that use them. Works with the vendor's driver (as root, or if the kernel has /proc/rknpu), with rocket, and
with the software NPUs of all processes that you may inspect. Ctrl-C stops it."""
EXAMPLES = (
    "openrknn top                      like htop, once a second",
    "openrknn top --once               one reading",
    "openrknn top --once --json        for programs",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("--once", action="store_true", help="show one reading and exit")
    parser.add_argument(
        "--interval", type=seconds, default=1, metavar="SECONDS", help="time between readings (default: 1)"
    )
    parser.add_argument(
        "--root", metavar="FOLDER", type=Path, default=Path("/"), help="root of the system to watch (default: /)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Read, wait, read again, show."""
    from openrknn.monitor import read

    reading = read(arguments.root)
    if arguments.once or not output.is_human or not output.stream.isatty():
        if any(core.load_percent is None for npu in reading.npus for core in npu.cores):
            time.sleep(arguments.interval)  # a load is a difference
            reading = read(arguments.root, reading)
        output.data(reading.as_json())
        if output.is_human:
            from openrknn.cli.top.text import screen

            output.show(screen(reading))
        return 0
    return _live(arguments, output)


def _live(arguments: argparse.Namespace, output: Output) -> int:
    from rich.live import Live

    from openrknn.cli.top.text import History, screen
    from openrknn.monitor import read

    history = History()
    reading = read(arguments.root)
    try:
        with Live(screen(reading, history), console=output.console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(arguments.interval)
                reading = read(arguments.root, reading)
                history.add(reading)
                live.update(screen(reading, history), refresh=True)
    except KeyboardInterrupt:
        return 0
