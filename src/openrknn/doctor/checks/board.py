"""Which chip, which kernel, and whether an NPU is to be expected at all."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.chips import CHIPS
from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.monitor.board import COMPATIBLE

__all__ = ["check_board"]

_ENV_FILES = ("/boot/armbianEnv.txt", "/boot/orangepiEnv.txt", "/boot/extlinux/extlinux.conf", "/boot/config.txt")


def check_board(facts: Facts) -> Iterator[Finding]:
    """Chip and kernel."""
    where = f"kernel {facts.release or '?'}, {facts.machine}"
    if facts.container:
        where += f", in a {facts.container} container"
    if facts.soc is not None:
        yield Finding("board", Severity.OK, f"{CHIPS[facts.soc].title}, {where}")
    elif facts.npus:
        yield _hidden_tree(facts, where)
    else:
        yield Finding(
            "no-npu",
            Severity.NOTE,
            f"this machine has no Rockchip NPU ({where})",
            "nothing is wrong: models run here on the software NPU, slower and with the same results",
        )
    yield from _overlay(facts)


def _hidden_tree(facts: Facts, where: str) -> Finding:
    """An NPU without a device tree: the usual view from inside a container."""
    lite = facts.distribution("rknn_toolkit_lite2")
    return Finding(
        "device-tree-masked",
        Severity.WARNING if lite else Severity.NOTE,
        f"there is an NPU and no device tree that tells the chip ({where})",
        "containers hide /proc/device-tree; rknn-toolkit-lite2 reads it and fails"
        if lite
        else "containers hide /proc/device-tree; openrknn does not need it, rknn-toolkit-lite2 would",
        (
            "use openrknn's own API or its drop-in rknnlite, which do not need it; or",
            "$ docker run --security-opt systempaths=unconfined ...   # Podman: --security-opt unmask=/sys/firmware",
            f"or mount the host's {COMPATIBLE[1]} at {COMPATIBLE[0]}: `openrknn cdi generate` does",
        ),
        "airockchip/rknn-toolkit2#33",
    )


def _overlay(facts: Facts) -> Iterator[Finding]:
    """The overlay for the GPU's open driver takes the NPU's power domain away on the vendor's 6.1."""
    for path in _ENV_FILES:
        if "panthor" in (facts.text(path) or "") and facts.kernel == (6, 1) and not facts.driver("rocket"):
            broken = not facts.npus
            yield Finding(
                "panthor-overlay",
                Severity.ERROR if broken else Severity.WARNING,
                f"{path} loads the panthor overlay on a 6.1 kernel" + (", and there is no NPU" if broken else ""),
                "on the vendor's 6.1 kernels this overlay and the NPU's driver conflict",
                (f"remove panthor from {path} and start again",),
                "armbian/build#8979",
            )
