"""Device nodes: are they there, and may this user open them?"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.monitor import Node, Npu, files

__all__ = ["check_nodes"]

_SYMPTOM = 'the vendor\'s library says "failed to open rknpu module, need to insmod rknpu dirver!"'


def check_nodes(facts: Facts) -> Iterator[Finding]:
    """One verdict per NPU."""
    yield from _link(facts)
    for npu in facts.npus:
        present = sorted((node for node in npu.nodes if node.exists), key=lambda node: node.kind == "card")
        if not present:
            yield _missing(facts, npu)
            continue
        # A render node is enough; the card node is for the display's master.
        usable = [node for node in present if _may_open(facts, node)]
        yield from _verdict(facts, npu, usable, present)
    yield from _rga(facts)


def _rga(facts: Facts) -> Iterator[Finding]:
    """The engine that converts video frames; without it the CPU does so."""
    rga = facts.reading.rga
    if rga is None:
        return
    if not rga.node.exists:
        yield Finding(
            "rga-no-node", Severity.NOTE, f"the host has RGA, and {rga.node.path} is not here",
            "frames of cameras and decoders are converted by the CPU",
            (f"$ docker run --device {rga.node.path} ...    # or podman run --device {rga.node.path}",),
        )  # fmt: skip
    elif not _may_open(facts, rga.node):
        group = facts.group_name(rga.node.group_id or 0)
        yield Finding(
            "rga-no-permission", Severity.NOTE,
            f"you may not open {rga.node.path} ({stat.filemode(rga.node.mode or 0)}, group {group})",
            "frames of cameras and decoders are converted by the CPU",
            ('$ sudo usermod -aG video "$USER"   # then log in again',
             'a rule for udev: KERNEL=="rga", GROUP="video", MODE="0660"'),
        )  # fmt: skip
    else:
        version = f" (driver {rga.version})" if rga.version else ""
        yield Finding("rga", Severity.OK, f"RGA converts frames without the CPU: {rga.node.path}{version}")


def _link(facts: Facts) -> Iterator[Finding]:
    place = files.below(facts.root, "/dev/rknpu")
    if place.is_symlink():
        yield Finding(
            "rknpu-link",
            Severity.ERROR,
            f"/dev/rknpu is a link to {os.readlink(place)}",
            "the vendor's library then uses the old interface on a DRM node: ENOTTY, and \"hw_version = -1\"",
            ("$ sudo rm /dev/rknpu", "and remove what makes it: a udev rule, a container's options, an init script"),
            "invisiofficial/rk-llama.cpp#19",
        )


def _missing(facts: Facts, npu: Npu) -> Finding:
    wanted = _best(npu)
    if facts.container:
        return Finding(
            "container-no-node",
            Severity.ERROR,
            f"the host has {npu.driver}, and this {facts.container} container has no node of it",
            f"without {wanted} in the container nothing can use the NPU; {_SYMPTOM}",
            (
                f"$ docker run --device {wanted} ...    # or podman run --device {wanted}",
                "$ openrknn cdi generate --output /etc/cdi/openrknn.json   # then --device rockchip.com/npu=all",
                "Kubernetes: install the device plugin (deploy/kubernetes) and ask for rockchip.com/npu: 1",
            ),
            "rockchip-linux/rknpu2#114",
        )
    return Finding(
        "no-node",
        Severity.ERROR,
        f"{npu.driver} is loaded and has no device node" + (f" ({wanted} is missing)" if npu.nodes else ""),
        "the driver did not finish its start, or udev does not run",
        ("$ sudo udevadm trigger", f"$ sudo dmesg | grep -i -E '{npu.driver}|npu'"),
    )


def _verdict(facts: Facts, npu: Npu, usable: list[Node], present: list[Node]) -> Iterator[Finding]:
    node = next((node for node in present if node.path == _best(npu)), present[0])
    if not usable:
        group = facts.group_name(node.group_id or 0)
        rights = stat.filemode(node.mode or 0)
        yield Finding(
            "node-no-permission",
            Severity.ERROR,
            f"you may not open {node.path} ({rights}, group {group})",
            f"only members of its group may; everything works with sudo and nothing without; {_SYMPTOM}",
            (
                '$ sudo usermod -aG render,video "$USER"   # then log in again',
                "$ openrknn doctor --fix                   # prints the udev rule for it",
            ),
            "rockchip-linux/rknn-toolkit2#244",
        )
        return
    problem = facts.try_open(files.below(facts.root, usable[0].path)) if facts.is_this_machine else None
    if problem == errno.EPERM:
        yield Finding(
            "container-device-cgroup",
            Severity.ERROR,
            f"{usable[0].path} is there, and the container may not use it (EPERM)",
            f"the node was mounted as a file, without the permission for the device; {_SYMPTOM}",
            (f"$ docker run --device {usable[0].path} ...  # not -v", "Kubernetes: the device plugin, not hostPath"),
            "rknn-llm#334",
        )
    elif problem is not None:
        yield Finding("node-does-not-open", Severity.ERROR, f"{usable[0].path}: {os.strerror(problem)}",
                      "the driver refuses to be opened", ("$ sudo dmesg | tail -n 50",))  # fmt: skip
    else:
        yield Finding("node", Severity.OK, f"you may open {usable[0].path}")


def _best(npu: Npu) -> str:
    """Render and accel nodes are for programs, card nodes for displays."""
    nodes = sorted(npu.nodes, key=lambda node: node.kind == "card")
    return nodes[0].path if nodes else {"misc": "/dev/rknpu", "accel": "/dev/accel/accel0"}.get(
        npu.interface, "/dev/dri/renderD129"
    )  # fmt: skip


def _may_open(facts: Facts, node: Node) -> bool:
    """By the file's mode. Access lists are not looked at: `uaccess` of a login on the board adds rights."""
    mode, who = node.mode or 0, facts.who
    if who.user_id == 0:
        return True
    shift = 6 if node.user_id == who.user_id else 3 if node.group_id in who.group_ids else 0
    if (mode >> shift) & 0o6 == 0o6:
        return True
    return facts.is_this_machine and os.access(node.path, os.R_OK | os.W_OK)
