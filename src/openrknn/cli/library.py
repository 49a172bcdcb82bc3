"""`openrknn library`: the open librknnrt.so for C programs: where it is, how to build with it, how to install it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder

if TYPE_CHECKING:
    from openrknn.capi.engine_process import Engine
    from openrknn.capi.install import Installed

NAME = "library"
HELP = "find, build with and install the open librknnrt.so"
DESCRIPTION = """Programs for the vendor's librknnrt.so run on openrknn's instead: on machines without an NPU, and on
boards with the vendor's kernel or a mainline one. Without options this prints where the library, its headers and its
engine are. To run a program that is built already, use `openrknn exec --open`."""
EXAMPLES = (
    "cc prog.c $(openrknn library --cflags --libs)       build a program with it",
    "openrknn library --install ~/.local                 with headers, pkg-config and CMake files",
    "sudo openrknn library --install /usr                where programs look for the vendor's",
    "openrknn library --uninstall ~/.local",
    "openrknn library --machine aarch64 --install board  for a board, with a cross compiler",
    "openrknn library --gstreamer                        the GStreamer elements, for this user",
    "openrknn library --status                           the engine that computes for programs",
)
_ACTIONS = ("install", "uninstall", "gstreamer", "status", "stop")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    from openrknn.capi.parts import MACHINES
    from openrknn.gstreamer.places import plugin_folder

    build = parser.add_argument_group("to build programs")
    build.add_argument("--cflags", action="store_true", help="print the options for the compiler")
    build.add_argument("--libs", action="store_true", help="print the options for the linker")
    place = parser.add_argument_group("to install it")
    below = "put library, headers and build files below this folder"
    place.add_argument("--install", metavar="PREFIX", action=OutputFolder, help=below)
    place.add_argument("--uninstall", metavar="PREFIX", help="remove them again")
    place.add_argument("--force", action="store_true", help="replace files that are not openrknn's")
    place.add_argument("--engine", metavar="PROGRAM", help="what the installed library starts as its engine")
    place.add_argument("--machine", choices=MACHINES, help="for programs of this machine (default: this one)")
    plugin = parser.add_argument_group("GStreamer")
    plugin.add_argument(
        "--gstreamer", metavar="DIR", nargs="?", const=str(plugin_folder()), action=OutputFolder,
        help="compile the elements openrknn and openrknnoverlay into DIR (default: this user's plugins)",
    )  # fmt: skip
    engine = parser.add_argument_group("the engine")
    engine.add_argument("--status", action="store_true", help="say whether it runs, for whom, and what it takes")
    engine.add_argument("--stop", action="store_true", help="end it; calls that programs make fail from then on")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print, install, or look at the engine."""
    actions = [name for name in _ACTIONS if getattr(arguments, name) not in (None, False)]
    if arguments.cflags or arguments.libs:
        actions.append("cflags and --libs")
    if len(actions) > 1:
        raise CommandError(f"--{actions[0]} and --{actions[1]} do not go together; give one of them")
    if not arguments.install and (arguments.force or arguments.engine):
        raise CommandError("--force and --engine belong to --install PREFIX")
    if arguments.install:
        return _install(arguments, output)
    if arguments.uninstall:
        return _uninstall(arguments, output)
    if arguments.gstreamer is not None:
        return _gstreamer(arguments.gstreamer, output)
    if arguments.status or arguments.stop:
        return _engine(output, stop=arguments.stop)
    if arguments.cflags or arguments.libs:
        return _options(arguments, output)
    return _show(arguments, output)


def _options(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.capi.parts import header_folder, library_for

    words = [f"-I{header_folder()}"] if arguments.cflags else []
    if arguments.libs:
        folder = library_for(arguments.machine).parent
        # The run path: the program finds the library without LD_LIBRARY_PATH.
        words += [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lrknnrt"]
    output.value(shlex.join(words))
    output.data(words)
    return 0


def _show(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn import __version__
    from openrknn.capi.engine_process import running_engine, socket_path
    from openrknn.capi.parts import API_VERSION, engine_command, header_folder, library_for
    from openrknn.fakekernel.preload import host_machine

    library = library_for(arguments.machine)
    if output.mode.value == "quiet":
        output.value(str(library))
        return 0
    facts = {
        "library": str(library),
        "machine": arguments.machine or host_machine(),
        "api_version": API_VERSION,
        "openrknn_version": __version__,
        "headers": str(header_folder()),
        "engine": shlex.join(engine_command()),
        "socket": str(socket_path()),
    }
    engine = running_engine()
    output.data({**facts, "running": None if engine is None else engine.as_json()})
    if output.is_human:
        from openrknn.cli.common.tables import facts as table

        rows = [
            ("library", facts["library"]),
            ("for", f"{facts['machine']}; C API {API_VERSION} and older, openrknn {__version__}"),
            ("headers", facts["headers"]),
            ("engine", f"{facts['engine']} ({_line(engine)})"),
            ("socket", facts["socket"]),
            ("build with", "cc prog.c $(openrknn library --cflags --libs)"),
            ("install with", "openrknn library --install PREFIX   (pkg-config and CMake files too)"),
        ]
        output.show(table(rows))
    return 0


def _install(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.capi.install import install

    done = install(
        Path(arguments.install), force=arguments.force, machine=arguments.machine, engine=arguments.engine or ""
    )
    _tell(done, output)
    folder = done.prefix / "lib"
    output.line(f"cc prog.c -I{done.prefix / 'include'} -L{folder} -Wl,-rpath,{folder} -lrknnrt")
    output.line(f"PKG_CONFIG_PATH={folder / 'pkgconfig'} pkg-config --cflags --libs librknnrt")
    output.line(f"cmake -DCMAKE_PREFIX_PATH={done.prefix}   with find_package(rknnrt), target rknnrt::rknnrt")
    return 0


def _uninstall(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.capi.install import uninstall

    done = uninstall(Path(arguments.uninstall))
    _tell(done, output)
    for path in done.left:
        output.line(f"{path} stays: it is not openrknn's")
    return 0


def _gstreamer(folder: str, output: Output) -> int:
    from openrknn.gstreamer.build import engine_command, install
    from openrknn.gstreamer.places import plugin_folder

    path = install(Path(folder))
    output.data({"plugin": str(path), "engine": list(engine_command())})
    output.line(f"wrote {path}")
    if path.parent.resolve() != plugin_folder().resolve():
        output.line(f"export GST_PLUGIN_PATH={shlex.quote(str(path.parent.resolve()))}")
    output.line("gst-inspect-1.0 openrknn   lists its properties")
    return 0


def _tell(done: Installed, output: Output) -> None:
    names = ("written", "removed", "left")
    output.data({"prefix": str(done.prefix), **{name: [str(path) for path in getattr(done, name)] for name in names}})
    for verb, paths in (("wrote", done.written), ("removed", done.removed)):
        for path in paths:
            output.line(f"{verb} {path}")


def _engine(output: Output, *, stop: bool) -> int:
    from openrknn.capi.engine_process import running_engine, stop_engine

    engine = running_engine()
    if stop and engine is not None:
        stop_engine(engine)
    output.data(None if engine is None else engine.as_json())
    text = _line(engine)
    output.value(f"stopped: {text}" if stop and engine is not None else text)
    return 0


def _line(engine: Engine | None) -> str:
    from openrknn.quantities import count_of

    if engine is None:
        return "not running; the first rknn_init of a program starts it"
    megabytes = engine.memory_bytes / 2**20
    return f"running as process {engine.pid} for {count_of(len(engine.programs), 'program')}, {megabytes:.0f} MB"
