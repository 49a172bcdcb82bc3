"""`openrknn exporter`: what the NPUs do, for Prometheus."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from openrknn.cli.common.options import port
from openrknn.cli.common.output import Output

NAME = "exporter"
HELP = "export NPU metrics to Prometheus: load, clock, memory, temperature"
DESCRIPTION = """Serve /metrics for Prometheus: the numbers of `openrknn top`. The server (`openrknn serve`) and the
device plugin have the same numbers in their own metrics; this is for boards that run neither."""
EXAMPLES = (
    "openrknn exporter                         on port 9465 of this machine",
    "openrknn exporter --host 0.0.0.0          for a Prometheus elsewhere",
    "openrknn exporter --once                  print the metrics and exit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument(
        "--port", type=port, default=9465, metavar="N", help="port to listen on; 0 takes any free one (default: 9465)"
    )
    parser.add_argument("--once", action="store_true", help="print one reading and exit")
    parser.add_argument(
        "--root", metavar="FOLDER", type=Path, default=Path("/"), help="root of the system to watch (default: /)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Until a signal."""
    from openrknn.monitor import Reading, prometheus, read
    from openrknn.monitor.exporter import Exporter

    last: list[Reading] = [read(arguments.root)]

    def metrics() -> str:
        last[0] = read(arguments.root, last[0])
        return prometheus.text(last[0])

    if arguments.once:
        output.stream.write(metrics())
        return 0
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    with Exporter(arguments.host, arguments.port, metrics, lambda: True) as exporter:
        output.line(f"metrics on http://{arguments.host}:{exporter.port}/metrics")
        output.stream.flush()
        done.wait()
    return 0
