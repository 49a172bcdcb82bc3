"""`openrknn cdi`: files that give containers an NPU, for Docker, Podman, containerd and CRI-O."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from openrknn.cli.common.options import positive
from openrknn.cli.common.output import Output
from openrknn.cli.common.outputs import CDI, OutputFile

NAME = "cdi"
HELP = "describe the NPUs for container runtimes (Container Device Interface)"
DESCRIPTION = """Write a Container Device Interface (CDI) file. Containers can then be given an NPU by name, without
--privileged and without device node numbers, and get the chip's name, which containers otherwise hide. The file
declares the lowest CDI version that covers its content, because old runtimes refuse newer ones."""
EXAMPLES = (
    "openrknn cdi generate                                       print it",
    "sudo openrknn cdi generate --output /etc/cdi/openrknn.json",
    "podman run --device rockchip.com/npu=0 IMAGE                 then this works; Docker 25+ too",
    "openrknn cdi list                                            the names in it",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=("generate", "list"), help="print the file, or the names of its devices")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", action=OutputFile, kind=CDI, stdout=True, makes_folder=True,
        help="file to write (default: standard output, as is -)",
    )  # fmt: skip
    parser.add_argument(
        "--strategy",
        choices=("shares", "cores"),
        default="cores",
        help="make devices of shares of an NPU, or of single cores",
    )
    parser.add_argument("--shares", type=positive, metavar="N", help="shares per NPU")
    parser.add_argument("--software", type=positive, default=0, metavar="N", help="add N software NPUs")
    text = "add a group (render) for users that are not root; needs a runtime with CDI 0.7"
    parser.add_argument("--group-id", type=int, action="append", default=[], metavar="GID", help=text)
    parser.add_argument(
        "--root", metavar="FOLDER", type=Path, default=Path("/"), help="root of the system (default: /)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Make it."""
    from openrknn.kubernetes import cdi
    from openrknn.kubernetes.inventory import Settings, offers, units

    settings = Settings(
        arguments.root, strategy=arguments.strategy, shares=arguments.shares, software=arguments.software
    )
    content = cdi.specification(offers(settings, units(settings)), group_ids=arguments.group_id)
    names = [f"{cdi.KIND}={device['name']}" for device in content["devices"]]
    if arguments.action == "list":
        output.data(names)
        for name in names:
            output.value(name)
        if not names:
            output.line("no NPU here; --software 1 adds a software NPU")
        return 0
    if arguments.output is not None and str(arguments.output) != "-":
        cdi.write(arguments.output, content)
        output.value(f"wrote {arguments.output} with {len(names)} devices, CDI {content['cdiVersion']}")
        return 0
    output.data(content)
    if not output.is_json:
        for line in json.dumps(content, indent=2).splitlines():
            output.value(line)
    return 0
