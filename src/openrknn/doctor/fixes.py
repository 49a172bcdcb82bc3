"""Texts that fix things: udev rules, groups, modules. They are printed, and never applied."""

from __future__ import annotations

from openrknn.doctor.facts import Facts

__all__ = ["UDEV_FILE", "UDEV_RULES", "script"]

UDEV_FILE = "/etc/udev/rules.d/70-openrknn-npu.rules"
UDEV_RULES = """\
# NPUs of Rockchip chips: members of the group "render" may use them.
# The vendor's driver with DRM nodes, found by the driver's name: the numbers of the nodes differ from board to board.
SUBSYSTEM=="drm", KERNEL=="renderD*|card*", DRIVERS=="RKNPU", GROUP="render", MODE="0660", TAG+="uaccess"
# The vendor's driver built without DRM.
SUBSYSTEM=="misc", KERNEL=="rknpu", GROUP="render", MODE="0660"
# The mainline driver (rocket).
SUBSYSTEM=="accel", KERNEL=="accel*", GROUP="render", MODE="0660", TAG+="uaccess"
# Buffers that are shared with cameras and video decoders.
SUBSYSTEM=="dma_heap", GROUP="render", MODE="0660"
"""
"""A copy of deploy/udev/70-openrknn-npu.rules; a test compares them."""


def script(facts: Facts) -> str:
    """Shell commands to read, and then to run as root."""
    parts = [
        "# Read this before you run it, as root. Nothing of it was done.",
        "",
        "# 1. Permissions: a rule that gives the NPU to the group render",
        f"cat > {UDEV_FILE} <<'RULES'",
        UDEV_RULES.rstrip(),
        "RULES",
        "udevadm control --reload && udevadm trigger --subsystem-match=drm --subsystem-match=accel "
        "--subsystem-match=misc --subsystem-match=dma_heap",
        "",
        "# 2. Groups: put the user who runs models in its place; it counts from the next login on",
        'getent group render > /dev/null || groupadd --system render',
        'usermod -aG render,video "${SUDO_USER:-$USER}"',
        "",
        "# 3. The driver, now and at each start",
        *_modules(facts),
    ]
    if (facts.root / "dev/rknpu").is_symlink():
        parts += ["", "# 4. A link that makes the vendor's library use the wrong interface", "rm /dev/rknpu"]
    return "\n".join(parts) + "\n"


def _modules(facts: Facts) -> list[str]:
    if facts.npus:
        return [f"# nothing to do: {', '.join(npu.driver for npu in facts.npus)} is there"]
    if facts.soc is None:
        return ["# nothing to do: this machine has no Rockchip NPU"]
    name = "rocket" if facts.soc == "rk3588" and facts.kernel >= (6, 18) else "rknpu"
    return [f"modprobe {name}", f"echo {name} > /etc/modules-load.d/openrknn-npu.conf"]
