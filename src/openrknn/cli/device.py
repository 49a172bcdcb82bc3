"""`openrknn device`: an emulated NPU that runs until it is stopped, for many programs."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.output import Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.cli.exec import add_device_arguments, open_device, show_kernel_log

if TYPE_CHECKING:
    from openrknn.fakekernel.device import Device

NAME = "device"
HELP = "run an emulated NPU that several programs share"
DESCRIPTION = """Run an emulated device until Ctrl-C or SIGTERM. Programs use it with `openrknn exec --device FOLDER`,
or with the two environment variables that are printed at the start; they share its memory, its cores and its load
files as they would on a board."""
EXAMPLES = (
    "openrknn device --folder my-npu",
    "openrknn exec --device my-npu -- ./program           in another terminal",
)
_INTERVAL = 1.0
_CLEAR = "\r\x1b[K"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_device_arguments(parser)
    folder = "folder of the device (default: a new temporary folder)"
    parser.add_argument("--folder", metavar="FOLDER", action=OutputFolder, help=folder)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Serve until somebody stops it."""
    from openrknn.fakekernel.preload import host_machine, library_for
    from openrknn.fakekernel.summary import summary

    show_kernel_log()
    stops = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # before any thread is there to catch them
    folder = None if arguments.folder is None else Path(arguments.folder).absolute()
    try:
        with open_device(arguments, folder) as device:
            preload = library_for(host_machine())
            _introduce(device, preload, output)
            _serve(device, stops, output)
            status = device.status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    output.line(summary(status.totals, status.seconds, f"{device.chip.title}, driver {device.driver_name}"))
    return 0


def _introduce(device: Device, preload: Path, output: Output) -> None:
    output.line(f"emulated {device.chip.title}, driver {device.driver_name}, in {device.folder}")
    variables = " ".join(f"{name}={value}" for name, value in device.environment.items())
    output.line(f"use it with:  openrknn exec --device {device.folder} -- PROGRAM ARGS...")
    output.line(f"or with:      export {variables} LD_PRELOAD={preload}")
    output.data({"folder": str(device.folder), "preload": str(preload), "chip": device.chip.name})
    output.stream.flush()


def _serve(device: Device, stops: set[signal.Signals], output: Output) -> None:
    """A line that renews itself on a terminal; elsewhere silence."""
    from openrknn.fakekernel.summary import status_line

    live = output.is_human and sys.stderr.isatty()
    while signal.sigtimedwait(stops, _INTERVAL) is None:
        if live:
            sys.stderr.write(f"{_CLEAR}{time.strftime('%H:%M:%S')}  {status_line(device.status)}")
            sys.stderr.flush()
    if live:
        sys.stderr.write(_CLEAR)
