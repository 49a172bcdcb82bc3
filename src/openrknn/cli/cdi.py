"""`openrknn cdi`: files that give containers an NPU, for Docker, Podman, containerd and CRI-O."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from openrknn.cli.options import positive
from openrknn.cli.output import Output

NAME = "cdi"
HELP = "describe the NPUs for container runtimes (Container Device Interface)"
DESCRIPTION = """Write a file of the Container Device Interface: after that a container gets an NPU by its name, without
--privileged, without numbers of device nodes, and with the chip's name although containers hide the device tree. The
file states the lowest version that holds its content, because old runtimes refuse new ones."""
EXAMPLES = (
    "openrknn cdi generate                                       print it",
    "sudo openrknn cdi generate --output /etc/cdi/openrknn.json",
    "podman run --device rockchip.com/npu=0 IMAGE                 then this works; Docker 25+ too",
    "openrknn cdi list                                            the names in it",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=("generate", "list"), help="the file, or the names of its devices")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--strategy", choices=("shares", "cores"), default="cores", help="name cores, or shares")
    parser.add_argument("--shares", type=positive, metavar="N", help="how many shares")
    parser.add_argument("--software", type=positive, default=0, metavar="N", help="N software NPUs too")
    text = "add a group (render) for users that are not root; needs a runtime with CDI 0.7"
    parser.add_argument("--group-id", type=int, action="append", default=[], metavar="GID", help=text)
    parser.add_argument("--root", metavar="FOLDER", type=Path, default=Path("/"), help="of the system (default: /)")


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
            output.line("no NPU here; --software 1 adds one that every machine has")
        return 0
    if arguments.output is not None:
        cdi.write(arguments.output, content)
        output.value(f"wrote {arguments.output} with {len(names)} devices, CDI {content['cdiVersion']}")
        return 0
    output.data(content)
    if not output.is_json:
        for line in json.dumps(content, indent=2).splitlines():
            output.value(line)
    return 0
