"""`openrknn exec`: run a program that uses an NPU on a machine that has none."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import TRACE, OutputFile

if TYPE_CHECKING:
    from openrknn.fakekernel.camera import CameraSpec
    from openrknn.fakekernel.device import Device
    from openrknn.fakekernel.events import Hook

NAME = "exec"
HELP = "run a program that uses an NPU on an emulated one"
DESCRIPTION = """Run a program as if a Rockchip NPU were in this machine: it finds the driver's device nodes, its files
in /sys and /proc, the device tree, and an NPU that computes. The program is not modified and needs no privileges; it
can be the vendor's runtime or anything else that talks to the kernel drivers `rknpu` or `rocket`. With --open a program
for the vendor's librknnrt.so gets openrknn's instead: on this machine's NPU or the software NPU, and with --driver or
--chip on an emulated one. AArch64 and 32-bit Arm (armhf) programs run on x86-64 with qemu's user emulation, and 32-bit
ones on AArch64 directly where the kernel runs them. Statically linked programs are not supported."""
EXAMPLES = (
    "openrknn exec -- ./rknn_yolov5_demo model.rknn bus.jpg",
    "openrknn exec --library librknnrt.so -- python3 detect.py",
    "openrknn exec --open -- ./rknn_yolov5_demo model.rknn bus.jpg   without the vendor's library",
    "openrknn exec --driver rocket -- ./program                  through /dev/accel/accel0",
    "openrknn exec --open --driver rocket -- ./program           openrknn's library on a mainline kernel",
    "openrknn exec --trace run.trace -- ./program                record it for `openrknn trace`",
    "openrknn exec -- cat /sys/kernel/debug/rknpu/load",
    "openrknn exec --camera 1280x720 -- openrknn stream yolo.rknn 0   with an emulated camera",
)
CHIP, DRIVER = "rk3588", "rknpu"
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    add_device_arguments(parser)
    parser.add_argument("--device", metavar="FOLDER", help="use the device that `openrknn device` runs there")
    parser.add_argument(
        "--trace", metavar="FILE", action=OutputFile, kind=TRACE,
        help="record everything, for `openrknn trace`",
    )
    parser.add_argument("--open", action="store_true", help="openrknn's librknnrt.so in the place of the vendor's")
    parser.add_argument("program", metavar="PROGRAM ARGS...", nargs=argparse.REMAINDER, help="what to run, after --")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """What kind of board it is: the same for `exec` and `device`."""
    parser.add_argument("--chip", help="the emulated chip (default: rk3588)")
    parser.add_argument(
        "--driver",
        choices=("rknpu", "rocket"),
        help="kernel driver: the vendor's (rknpu, default) or mainline's (rocket)",
    )
    parser.add_argument(
        "--camera", metavar="SPEC", help="a camera at /dev/video0: 1280x720, 1280x720:yuyv or 640x480:nv12:FILE"
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
        if arguments.device is not None and arguments.trace is not None:
            raise CommandError("--trace records a device of its own; leave --device out")
        if arguments.open and arguments.library is not None:
            raise CommandError("--open takes openrknn's library and --library the vendor's; give one of them")
        if arguments.device is not None or _is_on_this_machine(arguments):
            return _run_program(words, None if arguments.device is None else Path(arguments.device), arguments)
        ours = _open_library(words) if arguments.open else None
        with _recorder(arguments) as hook, open_device(arguments, hook=hook, library=ours) as device:
            started = time.monotonic()
            code = _run_program(words, device.folder, arguments)
            _summarize(device, time.monotonic() - started, arguments)
            return code


def _open_library(words: list[str]) -> Path | None:
    from openrknn.capi.launch import library_of

    try:
        return library_of(words)
    except FileNotFoundError:
        return None  # whoever runs the program will say so


def _is_on_this_machine(arguments: argparse.Namespace) -> bool:
    """--open alone: on the NPU that is here, or on none; what describes a device asks for an emulated one."""
    described = (arguments.chip, arguments.driver, arguments.trace, arguments.camera, arguments.strict or None)
    return arguments.open and all(value is None for value in described)


@contextmanager
def _recorder(arguments: argparse.Namespace) -> Iterator[Hook | None]:
    """What writes the trace, if one is wanted."""
    if arguments.trace is None:
        yield None
        return
    from openrknn.trace.archive import TraceWriter
    from openrknn.trace.recorder import Recorder

    with TraceWriter(arguments.trace, chip=arguments.chip or CHIP, driver=arguments.driver or DRIVER) as writer:
        yield Recorder(writer)


def open_device(
    arguments: argparse.Namespace, folder: Path | None = None, hook: Hook | None = None, library: Path | None = None
) -> Device:
    """The device that the arguments describe, not started yet; `library` is what programs find as librknnrt.so."""
    from openrknn.fakekernel.device import Device
    from openrknn.fakekernel.launch import find_vendor_library

    if arguments.library is not None and not Path(arguments.library).is_file():
        raise CommandError(f"{arguments.library}: no such file; --library takes the path of librknnrt.so")
    if library is None:
        library = Path(arguments.library) if arguments.library is not None else find_vendor_library()
    return Device(
        arguments.chip or CHIP,
        driver=arguments.driver or DRIVER,
        library=library,
        folder=folder,
        hook=hook,
        strict=arguments.strict,
        camera=_camera(arguments.camera),
    )


def _camera(text: str | None) -> CameraSpec | None:
    from openrknn.fakekernel.camera import CameraSpec

    try:
        return None if text is None else CameraSpec.of_text(text)
    except (ValueError, OSError) as error:
        raise CommandError(f"--camera: {error}") from error


def show_kernel_log() -> None:
    """What a driver would write to the kernel's log goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("openrknn: %(message)s"))
    log = logging.getLogger("openrknn.fakekernel")
    log.handlers[:] = [handler]
    log.propagate = False


def _run_program(words: list[str], folder: Path | None, arguments: argparse.Namespace) -> int:
    """On the device in `folder`, with the vendor's library or with ours; None: on this machine, with ours."""
    if folder is not None and not (folder / "paths").is_file():
        raise CommandError(f"{folder}: no emulated device runs there; start one with `openrknn device --folder`")
    if folder is None or arguments.open:
        return run_or_complain(words, lambda: _run_open(words, folder))
    return run_or_complain(words, lambda: _run_emulated(words, folder))


def run_or_complain(words: list[str], run_it: Callable[[], int]) -> int:
    """The exit code of a program; that of a shell where there is none."""
    try:
        return run_it()
    except FileNotFoundError:
        Output.complain(f"{words[0]}: no such program; check the path")
        return EXIT_NOT_FOUND
    except PermissionError:
        Output.complain(f"{words[0]}: not executable")
        return EXIT_NOT_EXECUTABLE


def _run_emulated(words: list[str], folder: Path) -> int:
    from openrknn.fakekernel.launch import prepare
    from openrknn.fakekernel.process import run_process
    from openrknn.fakekernel.protocol import ENVIRONMENT

    return run_process(prepare(words, {ENVIRONMENT: str(folder)}, folder))


def _run_open(words: list[str], folder: Path | None) -> int:
    from openrknn.capi.launch import OpenRun
    from openrknn.fakekernel.launch import emulated_folder
    from openrknn.fakekernel.process import run_process

    with OpenRun(words, folder or emulated_folder()) as run_of_it:
        return run_process(run_of_it.command)


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
