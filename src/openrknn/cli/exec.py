"""`openrknn exec`: run a program that uses an NPU on a machine that has none."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.fakekernel.device import Device
    from openrknn.fakekernel.events import Hook

NAME = "exec"
HELP = "run a program that uses an NPU on an emulated one"
DESCRIPTION = """Run a program as if a Rockchip NPU were in this machine: it finds the driver's device nodes, its files
in /sys and /proc, the device tree, and an NPU that computes. The program is not modified and needs no privileges; it
can be the vendor's runtime or anything else that talks to the kernel drivers `rknpu` or `rocket`. AArch64 programs run
on x86-64 with qemu's user emulation. Statically linked programs are not supported."""
EXAMPLES = (
    "openrknn exec -- ./rknn_yolov5_demo model.rknn bus.jpg",
    "openrknn exec --library librknnrt.so -- python3 detect.py",
    "openrknn exec --driver rocket -- ./program                  through /dev/accel/accel0",
    "openrknn exec --trace run.trace -- ./program                record it for `openrknn trace`",
    "openrknn exec -- cat /sys/kernel/debug/rknpu/load",
)
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_device_arguments(parser)
    parser.add_argument("--device", metavar="FOLDER", help="use the device that `openrknn device` runs there")
    parser.add_argument("--trace", metavar="FILE", help="record everything, for `openrknn trace`")
    parser.add_argument("program", metavar="PROGRAM ARGS...", nargs=argparse.REMAINDER, help="what to run, after --")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """What kind of board it is: the same for `exec` and `device`."""
    parser.add_argument("--chip", default="rk3588", help="the emulated chip (default: rk3588)")
    parser.add_argument(
        "--driver",
        choices=("rknpu", "rocket"),
        default="rknpu",
        help="kernel driver: the vendor's (rknpu, default) or mainline's (rocket)",
    )
    parser.add_argument("--strict", action="store_true", help="also refuse what boards are known to ignore")
    parser.add_argument(
        "--library", metavar="PATH", help="the vendor's librknnrt.so (default: the one in the package rknpu)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Start a device, run the program, and say what it did."""
    from openrknn.fakekernel.process import signals_for_child

    words = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not words:
        raise CommandError("name the program to run: openrknn exec -- PROGRAM ARGS...")
    show_kernel_log()
    with signals_for_child():
        if arguments.device is not None:
            if arguments.trace is not None:
                raise CommandError("--trace records a device of its own; leave --device out")
            return _run_program(words, Path(arguments.device))
        with _recorder(arguments) as hook, open_device(arguments, hook=hook) as device:
            started = time.monotonic()
            code = _run_program(words, device.folder)
            _summarize(device, time.monotonic() - started, arguments)
            return code


@contextmanager
def _recorder(arguments: argparse.Namespace) -> Iterator[Hook | None]:
    """What writes the trace, if one is wanted."""
    if arguments.trace is None:
        yield None
        return
    from openrknn.trace.archive import TraceWriter
    from openrknn.trace.recorder import Recorder

    with TraceWriter(arguments.trace, chip=arguments.chip, driver=arguments.driver) as writer:
        yield Recorder(writer)


def open_device(arguments: argparse.Namespace, folder: Path | None = None, hook: Hook | None = None) -> Device:
    """The device that the arguments describe; not started yet."""
    from openrknn.fakekernel.device import Device
    from openrknn.fakekernel.launch import find_vendor_library

    if arguments.library is not None and not Path(arguments.library).is_file():
        raise CommandError(f"{arguments.library}: no such file; --library takes the path of librknnrt.so")
    library = Path(arguments.library) if arguments.library is not None else find_vendor_library()
    return Device(
        arguments.chip,
        driver=arguments.driver,
        library=library,
        folder=folder,
        hook=hook,
        strict=arguments.strict,
    )


def show_kernel_log() -> None:
    """What a driver would write to the kernel's log goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("openrknn: %(message)s"))
    log = logging.getLogger("openrknn.fakekernel")
    log.handlers[:] = [handler]
    log.propagate = False


def _run_program(words: list[str], folder: Path) -> int:
    from openrknn.fakekernel.launch import prepare
    from openrknn.fakekernel.process import run_process
    from openrknn.fakekernel.protocol import ENVIRONMENT

    if not (folder / "paths").is_file():
        raise CommandError(f"{folder}: no emulated device runs there; start one with `openrknn device --folder`")
    try:
        return run_process(prepare(words, {ENVIRONMENT: str(folder)}, folder))
    except FileNotFoundError:
        Output.complain(f"{words[0]}: no such program; check the path")
        return EXIT_NOT_FOUND
    except PermissionError:
        Output.complain(f"{words[0]}: not executable")
        return EXIT_NOT_EXECUTABLE


def _summarize(device: Device, seconds: float, arguments: argparse.Namespace) -> None:
    """To standard error: standard output is the program's."""
    from openrknn.fakekernel.summary import summary

    totals = device.status.totals
    if arguments.json:
        import json

        numbers = {"jobs": totals.jobs, "failed": totals.failed, "tasks": totals.tasks, "macs": totals.macs}
        times = {"npu_seconds": totals.nanoseconds / 1e9, "seconds": seconds}
        json.dump({**numbers, **times, "notes": list(totals.notes)}, sys.stderr)
        sys.stderr.write("\n")
    elif not arguments.quiet:
        Output.complain(summary(totals, seconds, f"{device.chip.title}, driver {device.driver_name}"))
