"""The mainline driver: why it is not there, and what cannot use it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.monitor import files

__all__ = ["check_rocket"]

_OPTION = "CONFIG_DRM_ACCEL_ROCKET"
_CORE = "rockchip,rk3588-rknn-core"
_TREE = "/proc/device-tree"
_MOST_BYTES = 4 * 1024 * 1024
_THREAD = "flipperone-linux-build-scripts#159"


def check_rocket(facts: Facts) -> Iterator[Finding]:
    """Rocket is in Linux since 6.18, for RK3588."""
    npu = facts.driver("rocket")
    if npu is None:
        if facts.soc == "rk3588" and facts.kernel >= (6, 18) and not facts.npus:
            yield _missing(facts)
        return
    if facts.soc not in {None, "rk3588"}:
        yield Finding(
            "rocket-wrong-chip",
            Severity.ERROR,
            f"rocket runs on {facts.soc}",
            'only RK3588 works upstream; others crash the kernel (SError, "MMU_DTE_ADDR is not functioning")',
            ("use the vendor's kernel for this board",),
            "flipperone-linux-build-scripts#55",
        )
    else:
        yield Finding("driver", Severity.OK, f"rocket of kernel {facts.release} with {len(npu.cores)} cores")
    vendors = [found for found in facts.libraries if found.name == "librknnrt" and not found.is_open]
    library = vendors[0] if vendors else None
    if library is not None:
        yield Finding(
            "rocket-vendor-library",
            Severity.WARNING,
            f"the driver is rocket, and {library.path} cannot use it",
            'the vendor\'s library knows only rknpu; with rocket it says "failed to open rknpu module, need to insmod '
            'rknpu dirver!"',
            (
                "run the same .rknn with openrknn, which speaks to rocket:",
                "$ openrknn run MODEL.rknn --device rocket",
                "run programs with openrknn's own librknnrt.so, which speaks to rocket too:",
                "$ openrknn exec --open -- PROGRAM",
                "or use a kernel with rknpu (vendor's kernel, or the DKMS module w568w/rknpu-module)",
            ),
            "rkllama#123",
        )
    for teflon in facts.teflon:
        if not teflon.knows_rocket:
            yield Finding(
                "teflon-too-old",
                Severity.WARNING,
                f"{teflon.path} (Mesa {teflon.version or 'of unknown version'}) does not know rocket",
                'TensorFlow Lite with it says "Couldn\'t open kernel device"',
                ("$ sudo apt install -t trixie-backports mesa-teflon-delegate   # Mesa 25.3 or newer",),
            )


def _missing(facts: Facts) -> Finding:
    """The three reasons, the one that shows first."""
    if facts.logged(r"vdd_npu\w*: disabling"):
        return _finding(
            "rocket-too-late",
            "the kernel switched the NPU's supply off before rocket was loaded (vdd_npu: disabling)",
            "as a module rocket may come after the kernel has switched unused regulators off",
            (
                "$ echo rocket | sudo tee -a /etc/initramfs-tools/modules && sudo update-initramfs -u",
                "or build it in (CONFIG_DRM_ACCEL_ROCKET=y), or mark the regulator regulator-always-on",
            ),
        )
    option = _option(facts)
    if option == "n":
        return _finding(
            "rocket-not-built",
            f"this kernel was built without {_OPTION}",
            "the driver is in Linux since 6.18, and not every distribution builds it",
            (f"use a kernel with {_OPTION}=y or =m",),
        )
    if _cores(facts) == "disabled":
        return _finding(
            "rocket-node-disabled",
            "the device tree has the NPU's cores switched off (status = disabled)",
            "the driver binds only to nodes that are okay",
            ("enable the nodes rknn_core_0 to rknn_core_2 in the board's device tree, or use a newer one",),
        )
    return _finding(
        "rocket-not-loaded",
        "rocket is not loaded: there is no /dev/accel/accel0",
        "without a driver only the software NPU works",
        ("$ sudo modprobe rocket",),
    )


def _finding(code: str, what: str, why: str, fix: tuple[str, ...]) -> Finding:
    return Finding(code, Severity.ERROR, what, why, fix, _THREAD)


def _option(facts: Facts) -> str | None:
    """y, m or n; None where the kernel's configuration is not there."""
    text = facts.text(f"/boot/config-{facts.release}")
    if text is None:
        try:
            with gzip.open(files.below(facts.root, "/proc/config.gz"), "rb") as stream:
                text = stream.read(_MOST_BYTES).decode("ascii", "replace")
        except (OSError, EOFError):
            return None
    for line in text.splitlines():
        if line.startswith(f"{_OPTION}="):
            return line.partition("=")[2].strip()
    return "n"


def _cores(facts: Facts) -> str | None:
    """The status of the cores' nodes; None where there are none."""
    folders = [_TREE, *(f"{_TREE}/{name}" for name in files.listed(facts.root, _TREE) if name in {"soc", "soc@0"})]
    states = set()
    for folder in folders:
        for name in files.listed(facts.root, folder):
            if name.startswith("npu@") and _CORE in (facts.text(f"{folder}/{name}/compatible") or ""):
                states.add((facts.text(f"{folder}/{name}/status") or "okay").strip("\0\n"))
    return "okay" if "okay" in states else next(iter(states), None)
