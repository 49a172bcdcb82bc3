"""The vendor's driver: is it there, and is it new enough?"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.monitor import Npu

__all__ = ["RECOMMENDED", "REQUIRED", "check_driver", "version_numbers"]

REQUIRED = (0, 9, 6)
"""By the vendor's toolchain 2.x."""
RECOMMENDED = (0, 9, 8)
_DEAD_CORES = {(0, 9, 2), (0, 9, 3)}
_UPDATE = (
    "update the kernel of your distribution (Armbian: armbian-upgrade, Radxa: rsetup), or build the driver for yours:",
    "$ git clone https://github.com/w568w/rknpu-module   # 0.9.8 as a DKMS module",
)


def check_driver(facts: Facts) -> Iterator[Finding]:
    """rknpu, or the absence of any driver."""
    npu = facts.driver("rknpu")
    if npu is not None:
        yield from _version(npu)
        yield from _clients(npu)
        yield from _interface(facts, npu)
        yield from _stuck(npu)
    elif facts.soc is not None and not facts.npus and not _rocket_speaks(facts):
        yield Finding(
            "no-driver",
            Severity.ERROR,
            "no driver has bound the NPU: neither rknpu nor rocket",
            "without a driver only the software NPU works",
            ("$ sudo modprobe rknpu    # kernels of the vendor", "$ sudo modprobe rocket   # mainline 6.18 and newer"),
        )


def version_numbers(text: str | None) -> tuple[int, ...]:
    """ "0.9.8" -> (0, 9, 8)."""
    return tuple(int(part) for part in (text or "").split(".") if part.isdigit())


def _rocket_speaks(facts: Facts) -> bool:
    """Whether the check of rocket has more to say about a missing driver."""
    return facts.soc == "rk3588" and facts.kernel >= (6, 18)


def _version(npu: Npu) -> Iterator[Finding]:
    version = version_numbers(npu.version)
    text = f"rknpu {npu.version or 'of unknown version'} on {npu.name}"
    if not version:
        yield Finding("driver-version-unknown", Severity.NOTE, text, "its version is in debugfs, which only root reads",
                      ("$ sudo openrknn doctor",))  # fmt: skip
    elif version < REQUIRED:
        cores = "; cores 1 and 2 are dead with 0.9.2 and 0.9.3 on kernel 6.1" if version in _DEAD_CORES else ""
        yield Finding("driver-too-old", Severity.ERROR, f"{text} is older than 0.9.6",
                      f"models of toolkit 2.x need 0.9.6; older drivers fail with \"failed to submit!\"{cores}",
                      _UPDATE, "rockchip-linux/rknn-toolkit2#320")  # fmt: skip
    elif version < RECOMMENDED:
        yield Finding("driver-old", Severity.WARNING, f"{text} is older than 0.9.8",
                      "0.9.8 fixes job timeouts and crashes with several clients; Immich requires it",
                      _UPDATE, "rockchip-linux/rknn-toolkit2#320")  # fmt: skip
    else:
        yield Finding("driver", Severity.OK, text)


def _clients(npu: Npu) -> Iterator[Finding]:
    processes = {client.pid for client in npu.clients}
    if len(processes) > 1 and version_numbers(npu.version) < RECOMMENDED:
        yield Finding(
            "several-clients",
            Severity.WARNING,
            f"{len(processes)} processes use the NPU at the same time with driver {npu.version}",
            "boards have crashed that way with drivers older than 0.9.8",
            (
                "let one process serve the others: openrknn serve MODELS",
                "in Kubernetes keep --shares 1, which is the default for this driver; update the driver",
            ),
            "igou-io/igou-kubernetes#869",
        )


def _interface(facts: Facts, npu: Npu) -> Iterator[Finding]:
    if npu.interface == "drm" and npu.nodes and not (facts.root / "dev/rknpu").is_symlink():
        nodes = ", ".join(node.path for node in npu.nodes)
        yield Finding("drm-build", Severity.OK, f"its nodes are {nodes}; that there is no /dev/rknpu is normal",
                      source="rockchip-linux/kernel#371")  # fmt: skip


def _stuck(npu: Npu) -> Iterator[Finding]:
    loads = [core.reported_percent for core in npu.cores if core.reported_percent is not None]
    highest = max(loads, default=0)
    if highest > 100 or (highest >= 99 and not npu.clients and not npu.hidden):
        yield Finding(
            "load-stuck",
            Severity.WARNING,
            f"the driver says {highest} % load" + ("" if npu.clients else " and no process has the NPU open"),
            "a job hangs that a killed process left behind (or an old driver counts wrongly)",
            ("$ echo 1 | sudo tee /sys/kernel/debug/rknpu/reset   # or start the board again",),
            "rockchip-linux/rknn-toolkit2#293",
        )
