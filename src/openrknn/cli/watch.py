"""`openrknn watch`: several cameras, with tracking, zones and events."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.options import seconds
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.extras import missing
from openrknn.quantities import count_of

if TYPE_CHECKING:
    from openrknn.watch.engine import Watch
    from openrknn.watch.settings import WatchSettings

NAME = "watch"
HELP = "watch several cameras: tracking, zones, events by MQTT, webhook and file, a web page"
DESCRIPTION = """Analyse several cameras with shared models: objects are tracked, zones and lines report who enters,
leaves, loiters or crosses, and events go to MQTT (Home Assistant finds the sensors), webhooks and files. Cameras that
are lost are opened again, a model whose file changes is replaced while the cameras go on. SIGHUP loads all models
again; SIGTERM and Ctrl-C deliver what is left. See docs/watch.md."""
EXAMPLES = (
    "openrknn watch --demo demo && openrknn watch demo/watch.toml    try it without a camera or a model",
    "openrknn watch --example > watch.toml                           a commented configuration to change",
    "openrknn watch watch.toml --check                               say what is wrong, and start nothing",
    "openrknn watch watch.toml                                       then open http://127.0.0.1:8018",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="the configuration, a TOML file")
    parser.add_argument("--example", action="store_true", help="print a commented configuration")
    parser.add_argument("--check", action="store_true", help="check the configuration, load the models, and exit")
    parser.add_argument("--demo", metavar="DIR", action=OutputFolder,
                        help="write two simulated cameras and a detector for them, to try it")  # fmt: skip
    parser.add_argument("--seconds", type=seconds, metavar="S", help="exit after S seconds")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="log format (default: text)")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Watch until SIGTERM or Ctrl-C."""
    if arguments.example:
        for line in resources.files("openrknn.watch").joinpath("example.toml").read_text("utf-8").splitlines():
            output.value(line)
        return 0
    if arguments.demo is not None:
        return _demo(Path(arguments.demo), output)
    if arguments.config is None:
        raise CommandError("which configuration? `openrknn watch --example > watch.toml` writes one to start with")
    try:
        from openrknn.serve import logs
        from openrknn.watch.config import read_config
        from openrknn.watch.engine import Watch
        from openrknn.watch.page import serve_page
    except ImportError as error:
        raise CommandError(missing(error, "watch")) from None
    settings = read_config(arguments.config)
    logs.set_up(arguments.log_format, arguments.log_level)
    with Watch(settings) as watch:
        if arguments.check:
            return _check(settings, watch, output)
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(serve_page(watch)) if settings.page.is_on else ""
            ending = stack.enter_context(_signals(watch))
            words = count_of(len(settings.cameras), "camera")
            output.value(f"{address}  {words}; Ctrl-C stops it" if address else f"{words}; Ctrl-C stops it")
            output.stream.flush()
            watch.start()
            with contextlib.suppress(KeyboardInterrupt):
                ending.wait(arguments.seconds)
    output.line(f"{count_of(sum(view.events for view in watch.cameras.values()), 'event')}")
    output.data({
        "schema_version": 1,
        "cameras": {
            name: {"frames": view.capture.newest.count, "dropped": view.capture.newest.dropped, "events": view.events}
            for name, view in watch.cameras.items()
        },
    })  # fmt: skip
    return 0


@contextlib.contextmanager
def _signals(watch: Watch) -> Iterator[threading.Event]:
    """SIGTERM sets the event. SIGHUP loads the models again, in a thread: a handler must not wait."""
    ending = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ending.set()

    def reload(_number: int, _frame: object) -> None:
        threading.Thread(target=watch.reload, name="openrknn-reload", daemon=True).start()

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end), signal.SIGHUP: signal.signal(signal.SIGHUP, reload)}
    try:
        yield ending
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _demo(folder: Path, output: Output) -> int:
    try:
        from openrknn.watch.demo import write_demo

        config = write_demo(folder)
    except ImportError as error:
        raise CommandError(missing(error, "compile")) from None
    output.line(f"two simulated cameras, and a detector for them; now: openrknn watch {config}")
    if not output.is_human and not output.is_json:
        output.value(str(config))
    output.data({"schema_version": 1, "config": str(config)})
    return 0


def _check(settings: WatchSettings, watch: Watch, output: Output) -> int:
    for name, model in watch.models.items():
        labels = ", ".join((model.labels or ())[:6])
        output.line(f"model {name}: {model.about} on {model.device}{f': {labels}' if labels else ''}")
    for camera in settings.cameras:
        places = ", ".join(place.name for place in (*camera.zones, *camera.lines)) or "no zones"
        output.line(f"camera {camera.name}: {camera.source} at {camera.rate:g} frames/s, {places}")
    for delivery in watch.deliveries:
        output.line(f"events to {delivery.sink.name}")
    output.data({
        "schema_version": 1,
        "models": sorted(watch.models),
        "cameras": [camera.name for camera in settings.cameras],
        "sinks": [delivery.sink.name for delivery in watch.deliveries],
    })  # fmt: skip
    return 0
