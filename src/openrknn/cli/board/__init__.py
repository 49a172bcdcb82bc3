"""`openrknn board`: a virtual board with a real kernel, whose NPU is the software NPU."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.board.words import Words
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import TEXT, TRACE, OutputFile
from openrknn.errors import RknnError

if TYPE_CHECKING:
    from openrknn.board.run import Board, Result, Watcher
    from openrknn.chips import Chip

NAME = "board"
HELP = "boot a real kernel with a real NPU driver on the software NPU"
DESCRIPTION = """Boot a real Linux kernel in QEMU, give it an NPU whose work the software NPU does, load the
kernel's own driver (mainline's `rocket`, or the vendor's `rknpu` from your own file), and run an AArch64 program on
it. The program is a file that needs no libraries, or with --root one of an arm64 system. `setup` makes what this needs,
once, from Debian's packages: a kernel, the modules, a shell, and QEMU where this system has none that is new enough."""
EXAMPLES = (
    "openrknn board setup",
    "openrknn board setup --root arm64-root             an arm64 system with Python and NumPy",
    "openrknn board run -- ./raw_rocket_matmul",
    "openrknn board run --root arm64-root -- /usr/bin/python3 test.py",
    "openrknn board run --kernel rknpu --module rknpu.ko -- ./raw_rknpu_matmul",
    "openrknn board run --module my/rocket.ko --log kernel.log -- ./test_my_patch",
    "openrknn board shell --root arm64-root",
    "openrknn board test",
    "openrknn board run --fault stuck:core=1,start=3 -- ./program   see what the driver makes of it",
    "openrknn board run --trace run.trace -- ./program              record it for `openrknn trace`",
)
_ACTIONS = ("setup", "run", "shell", "test")
_MODULE = "rocket"
_CHIP = "rk3588"
_LEAST_MEMORY = 256
_HOST_ROOT = Path("/")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("--kernel", choices=("rocket", "rknpu"), default=_MODULE, help="driver (default: rocket)")
    parser.add_argument("--module", metavar="FILE", help="the driver's module (default: setup's rocket.ko)")
    parser.add_argument("--chip", default=_CHIP, metavar="NAME", help=f"whose NPU (default: {_CHIP}; rknpu: any)")
    parser.add_argument("--cores", type=int, metavar="N", help="cores of the NPU (default: as the chip has)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MB", help="the guest's memory (default: 1024)")
    parser.add_argument(
        "--real-time", action="store_true",
        help="let the guest's clock go on while the NPU computes (default: it counts instructions, and runs repeat)",
    )  # fmt: skip
    parser.add_argument(
        "--root", metavar="FOLDER",
        help="an arm64 system for the guest, which cannot change it; setup makes one (default: on an arm64 machine its "
        "own)",
    )  # fmt: skip
    parser.add_argument("--share", metavar="FOLDER", help="a folder that the guest can write: its /share")
    parser.add_argument("--log", metavar="FILE", action=OutputFile, kind=TEXT, help="where to write the kernel's log")
    parser.add_argument(
        "--trace", metavar="FILE", action=OutputFile, kind=TRACE,
        help="record every start of the NPU, for `openrknn trace`",
    )  # fmt: skip
    parser.add_argument(
        "--fault", metavar="FAULT", action="append", default=[],
        help="what goes wrong with the NPU: KIND[:core=N,start=N,count=N]; KIND is missing-interrupt, stuck, "
        "unplugged, dma-read-error, dma-write-error or page-fault (may be given several times)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="stop the board after this time")
    parser.add_argument("--files", metavar="FOLDER", help="the files of `setup` (default: in the cache)")
    parser.add_argument("--mirror", metavar="URL", help="setup: Debian's mirror (default: the one of apt here)")
    parser.add_argument("--keep", action="store_true", help="setup: keep what is needed only to make the files")
    parser.add_argument(
        "words", metavar="ACTION", action=Words, actions=_ACTIONS,
        help="setup, run, shell or test; for run, the program and its arguments after --",
    )  # fmt: skip


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Do what was asked for."""
    if arguments.action == "setup":
        return _set_up(arguments, output)
    if arguments.action == "test":
        return _test(arguments, output)
    return _run(arguments, output)


def _set_up(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.board.arm64_root import make_root
    from openrknn.board.debian import system_mirror
    from openrknn.board.setup import set_up
    from openrknn.folders import cache_folder

    mirror = arguments.mirror or system_mirror()
    if mirror and arguments.root:
        make_root(Path(arguments.root).absolute(), mirror, output.line)
        output.line(f"ready: {arguments.root}")
        return 0
    folder = Path(arguments.files) if arguments.files else cache_folder("board", may_be_off=False)
    if folder is None:
        raise CommandError("there is no cache folder; name a folder with --files")
    if not mirror:
        raise CommandError("this system's apt has no mirror of Debian; name one with --mirror URL")
    set_up(folder.absolute(), mirror, output.line, keep=arguments.keep)
    output.line(f"ready: {folder}")
    return 0


def _run(arguments: argparse.Namespace, output: Output) -> int:
    words = list(arguments.program)
    if arguments.action == "run" and not words:
        raise CommandError("name the program to run: openrknn board run -- PROGRAM ARGS...")
    log = Path(arguments.log) if arguments.log else None
    with _board(arguments) as (board, modules):
        if words and board.root == _HOST_ROOT and "/" in words[0]:
            words[0] = str(Path(words[0]).absolute())  # the guest's working folder is another one
        result, _ = board.run(
            words, modules, is_interactive=arguments.action == "shell", log=log, timeout=arguments.timeout
        )
    _summarize(result, arguments)
    return result.code


def _test(arguments: argparse.Namespace, output: Output) -> int:
    """The driver's cases on the emulated kernel and on the real one."""
    from openrknn.board.conformance import KNOWN, compare, emulated_answers, real_answers

    log = Path(arguments.log) if arguments.log else None
    with _board(arguments) as (board, modules):
        real, result = real_answers(board, modules, log, arguments.timeout)
    found = compare(emulated_answers(arguments.kernel), real, arguments.kernel)
    if output.is_json:
        differences = [{"case": one.case, "emulated": one.emulated, "real": one.real} for one in found.differences]
        output.data({"cases": found.cases, "differences": differences, "known": found.known, "starts": result.jobs})
    else:
        for one in found.differences:
            output.line(one.case)
            output.line(f"  emulated: {', '.join(one.emulated)}")
            output.line(f"  real:     {', '.join(one.real)}")
        for case in found.known:
            output.line(f"{case}: differs, as known: {KNOWN[arguments.kernel][case]}")
        counts = f"{found.cases} cases, {len(found.differences)} differ, {len(found.known)} differ as known"
        output.line(f"{counts}; {result.jobs} starts of the NPU, {result.seconds:.1f} s")
    return int(bool(found.differences))


@contextmanager
def _board(arguments: argparse.Namespace) -> Iterator[tuple[Board, list[Path]]]:
    """A board, and the modules to load; the trace is written at the end."""
    from openrknn.board.files import find_files
    from openrknn.board.qemu import Machine, find_qemu
    from openrknn.board.run import Board
    from openrknn.fakekernel.faults import parse_fault

    chip = _chip(arguments)
    cores = chip.cores if arguments.cores is None else arguments.cores
    if not 1 <= cores <= chip.cores:
        raise CommandError(f"--cores {cores}: {chip.title} has 1 to {chip.cores}")
    if arguments.kernel != _MODULE and arguments.module is None:
        raise CommandError("the vendor's driver is no part of any distribution: name its file with --module rknpu.ko")
    if arguments.timeout is not None and arguments.timeout <= 0:
        raise CommandError(f"--timeout {arguments.timeout:g}: no time to boot; name seconds above 0, or leave it out")
    if arguments.memory < _LEAST_MEMORY:
        raise CommandError(f"--memory {arguments.memory}: the kernel needs {_LEAST_MEMORY} MB at least")
    faults = [parse_fault(text, cores) for text in arguments.fault]
    folders = {name: _folder(getattr(arguments, name, None), f"--{name}") for name in ("root", "share")}
    if arguments.root is None and arguments.action != "test":
        folders["root"] = _own_root()
    files = find_files(Path(arguments.files) if arguments.files else None)
    module = Path(arguments.module) if arguments.module else files.modules.get(_MODULE)
    if module is None or not module.is_file():
        raise CommandError(f"{module or files.folder}: no such module; `openrknn board setup` makes {_MODULE}.ko")
    machine = Machine(arguments.memory, arguments.real_time)
    qemu = find_qemu(files.folder / "qemu")
    with _recorder(arguments) as watcher:
        yield Board(
            arguments.kernel, files, qemu, machine, cores, folders["root"], folders["share"], faults, watcher,
            chip.name,
        ), [module]


@contextmanager
def _recorder(arguments: argparse.Namespace) -> Iterator[Watcher | None]:
    if arguments.trace is None:
        yield None
        return
    from openrknn.trace.archive import TraceWriter
    from openrknn.trace.board_recorder import BoardRecorder

    about = {"chip": arguments.chip, "driver": arguments.kernel, "recorded": "on a virtual board"}
    with TraceWriter(arguments.trace, **about) as writer:
        yield BoardRecorder(writer)


def _chip(arguments: argparse.Namespace) -> Chip:
    from openrknn.chips import chip_named

    try:
        chip = chip_named(arguments.chip)
    except RknnError as error:
        raise CommandError(f"--chip: {error}") from error
    if arguments.kernel == _MODULE and chip.name != _CHIP:
        raise CommandError(f"--chip {chip.name}: {_MODULE} knows RK3588 only; --kernel rknpu is the vendor's driver")
    if arguments.action == "test" and chip.name != _CHIP:
        raise CommandError(f"--chip {chip.name}: the cases of `test` are commands for RK3588")
    return chip


def _own_root() -> Path | None:
    """This machine's system, if the guest can run its programs."""
    return _HOST_ROOT if platform.machine() == "aarch64" else None


def _folder(name: str | None, option: str) -> Path | None:
    if not name:  # --root= : none, where this machine's own would be taken
        return None
    if not Path(name).is_dir():
        raise CommandError(f"{option} {name}: no such folder")
    return Path(name).absolute()


def _summarize(result: Result, arguments: argparse.Namespace) -> None:
    """To standard error: standard output is the program's."""
    if arguments.json:
        import json

        numbers = {"code": result.code, "seconds": result.seconds, "starts": result.jobs, "failed": result.failed}
        json.dump({**numbers, "problems": result.problems, "faults_not_met": result.not_met}, sys.stderr)
        sys.stderr.write("\n")
    elif not arguments.quiet:
        failed = f", {result.failed} of them failed" if result.failed else ""
        for problem in result.problems:
            Output.complain(problem)
        for fault in result.not_met:
            Output.complain(f"fault {fault}: no start had it")
        counts = f"{result.jobs} starts of the NPU{failed}, {result.seconds:.1f} s"
        Output.complain(f"virtual {_chip(arguments).title}, driver {arguments.kernel}: {counts}")
