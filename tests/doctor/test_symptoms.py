"""One broken machine per row of the table of known symptoms; the doctor names cause and cure."""

from __future__ import annotations

import errno
import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from openrknn.doctor import Finding, Severity, examine
from openrknn.doctor.examine import examine_facts
from openrknn.doctor.facts import Facts, Who
from tests.machines import Machine, rknpu_board, rocket_board

GOLDENS = Path(__file__).parents[1] / "goldens"
STRANGER = Who(54321, frozenset({54321}))


def library(version: str, name: str = "librknnrt", build: str = "c949ad889d@2024-11-07T11:35:33") -> bytes:
    """A file that looks like the vendor's library from outside."""
    header = struct.pack("<4sBBB9xHH", b"\x7fELF", 2, 1, 1, 3, 0xB7)
    return header.ljust(64, b"\0") + f"{name} version: {version} ({build})\0".encode()


def own_library() -> bytes:
    """And one that looks like openrknn's."""
    return library("2.5.0", build="openrknn 0.1.0")


def distribution(name: str, version: str) -> dict[str, str]:
    return {f"/usr/local/lib/python3.11/dist-packages/{name}-{version}.dist-info/METADATA": f"Name: {name}\n"}


@dataclass
class Row:
    symptom: str
    build: Callable[[Path], Path | None]
    """Makes the machine; the model to examine, if any."""
    code: str
    cause: str
    cure: str
    severity: Severity = Severity.ERROR
    who: Who | None = None


def only_sudo(root: Path) -> None:
    rknpu_board(root).write({"/etc/group": "root:x:0:\nrender:x:105:\n"})


def container_without_node(root: Path) -> None:
    machine = rknpu_board(root).write({"/.dockerenv": ""})
    for name in ("card1", "renderD129"):
        (machine.root / "dev/dri" / name).unlink()


def rocket_with_vendor_library(root: Path) -> None:
    rocket_board(root).write({"/usr/lib/librknnrt.so": library("2.3.2")})


def link(root: Path) -> None:
    rknpu_board(root).link("/dev/rknpu", "/dev/dri/renderD129")


def old_library(root: Path) -> Path:
    machine = rknpu_board(root)
    machine.write({"/usr/lib/librknnrt.so": library("1.4.0")})
    return GOLDENS / "conv_rk3588_i8.rknn"


def old_copy(root: Path) -> None:
    machine = rknpu_board(root).write({"/usr/lib/librknnrt.so": library("1.5.0")})
    machine.write({"/usr/local/lib/librknnrt.so": library("2.3.2")})


def not_a_model(root: Path) -> Path:
    rknpu_board(root)
    pointer = root / "model.rknn"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 6123456\n")
    return pointer


def wrong_model_on_rv1106(root: Path) -> Path:
    rknpu_board(root, "rv1106", misc=True).write({"/oem/usr/lib/librknnmrt.so": library("1.6.0", "librknnmrt")})
    return GOLDENS / "conv_rk3566_i8.rknn"


def wrong_chip(root: Path) -> Path:
    rknpu_board(root)
    return GOLDENS / "conv_rk3566_i8.rknn"


def no_iommu(root: Path) -> None:
    machine = rknpu_board(root, "rk3568")
    (root / "var/log/dmesg").unlink()
    machine.log("RKNPU fde40000.npu: RKNPU: rknpu iommu is disabled, using non-iommu mode")
    machine.log("RKNPU fde40000.npu: swiotlb buffer is full (sz: 8388608 bytes), total 32768 (slots), used 0 (slots)")
    machine.write({"/proc/meminfo": "MemTotal: 4000000 kB\nCmaTotal: 16384 kB\nCmaFree: 1024 kB\n"})


def no_memory(root: Path) -> None:
    rknpu_board(root).log("RKNPU: failed to malloc npu memory, size: 16777216, flags: 0x2")


def rga(root: Path) -> None:
    rknpu_board(root).log("rga2: RGA_MMU unsupported memory larger than 4G!")


def timeouts(root: Path) -> None:
    rknpu_board(root, version="0.9.6").log("RKNPU: job timeout, flags: 0x0, core mask 0x1", "RKNPU: soft reset, num: 1")


def dead_cores(root: Path) -> None:
    rknpu_board(root, version="0.9.2")


def slow(root: Path) -> None:
    folder = "/sys/class/devfreq/27700000.npu"
    rknpu_board(root, "rk3576").write(
        {f"{folder}/cur_freq": "300000000\n", f"{folder}/max_freq": "300000000\n", f"{folder}/governor": "userspace\n"}
    )


def hot(root: Path) -> None:
    rknpu_board(root).temperature(91.5)


def stuck(root: Path) -> None:
    rknpu_board(root).write({"/sys/kernel/debug/rknpu/load": "NPU load:  Core0: 20000%, Core1:  0%, Core2:  0%,\n"})


def stuck_below_hundred(root: Path) -> None:
    rknpu_board(root).write({"/sys/kernel/debug/rknpu/load": "NPU load:  Core0: 99%, Core1:  0%, Core2:  0%,\n"})


def drm(root: Path) -> None:
    rknpu_board(root)


def mainline(root: Path) -> Machine:
    return Machine(root).soc("rk3588").write({"/proc/sys/kernel/osrelease": "6.18.2\n"})


def not_built(root: Path) -> None:
    packed = gzip.compress(b"CONFIG_DRM_ACCEL=y\n# CONFIG_DRM_ACCEL_ROCKET is not set\n")
    mainline(root).write({"/proc/config.gz": packed})


def disabled(root: Path) -> None:
    npu = "/proc/device-tree/npu@fdab0000"
    mainline(root).write({"/boot/config-6.18.2": "CONFIG_DRM_ACCEL_ROCKET=m\n"})
    Machine(root).write({f"{npu}/compatible": "rockchip,rk3588-rknn-core\0", f"{npu}/status": "disabled\0",
                         "/proc/sys/kernel/osrelease": "6.18.2\n"})  # fmt: skip


def too_late(root: Path) -> None:
    mainline(root).log("vdd_npu_s0: disabling")


def rocket_on_rk3576(root: Path) -> None:
    rocket_board(root, "rk3576")


def old_teflon(root: Path) -> None:
    rocket_board(root).write({"/usr/lib/aarch64-linux-gnu/libteflon.so": b"\x7fELF...Mesa 25.0.7\0ETHOSU_DEBUG"})


def masked(root: Path) -> None:
    machine = rknpu_board(root).write({"/run/.containerenv": "", **distribution("rknn_toolkit_lite2", "2.3.2")})
    machine.write({"/usr/lib/librknnrt.so": library("2.3.2")})
    (root / "proc/device-tree/compatible").unlink()


def wheel(root: Path) -> Path:
    rknpu_board(root)
    return root / "rknn_toolkit_lite2-2.3.2-cp37-cp37m-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"


def numpy(root: Path) -> None:
    texts = {**distribution("rknn_toolkit_lite2", "2.0.0b0"), **distribution("numpy", "2.1.3")}
    rknpu_board(root).write({"/usr/lib/librknnrt.so": library("2.3.2"), **texts})


def panthor(root: Path) -> None:
    Machine(root).soc("rk3588").write({"/boot/armbianEnv.txt": "overlays=rockchip-rk3588-panthor-gpu\n"})


def clients(root: Path) -> None:
    machine = rknpu_board(root, version="0.9.7")
    machine.process(11, "frigate", "/dev/dri/card1").process(12, "immich", "/dev/dri/renderD129")


ROWS = [
    Row("failed to open rknpu module, works with sudo", only_sudo, "node-no-permission",
        "may not open /dev/dri/renderD129", "usermod -aG render,video", who=STRANGER),
    Row("the same in a container", container_without_node, "container-no-node",
        "Docker container has no node", "--device /dev/dri/renderD129"),
    Row("the same on a mainline kernel", rocket_with_vendor_library, "rocket-vendor-library",
        "/usr/lib/librknnrt.so cannot use it", "--device rocket", Severity.WARNING),
    Row("hw_version = -1", link, "rknpu-link", "/dev/rknpu is a link to /dev/dri/renderD129", "rm /dev/rknpu"),
    Row("Invalid RKNN model version 6", old_library, "model-newer-than-library",
        "/usr/lib/librknnrt.so is 1.4.0 and will refuse", "replace /usr/lib/librknnrt.so"),
    Row("Invalid RKNN model version 6, another copy", old_copy, "several-libraries",
        "1.5.0 in /usr/lib/librknnrt.so", "keep the newest (2.3.2)", Severity.WARNING),
    Row("Invalid RKNN format", not_a_model, "model-not-rknn", "model.rknn", "git lfs pull"),
    Row("incompatible model version: 1 on RV1106", wrong_model_on_rv1106, "model-other-chip",
        "is for RK3566, and this is RV1106", "target_platform='rv1106'"),
    Row("init fails after target set by user", wrong_chip, "model-other-chip",
        "is for RK3566, and this is RK3588", "target_platform='rk3588'"),
    Row("failed to malloc npu memory", no_iommu, "no-iommu", "1 of 16 MiB free", "cma=512M"),
    Row("failed to malloc npu memory, with an IOMMU", no_memory, "npu-memory", "failed to malloc npu memory",
        "smaller or fewer models"),
    Row("RGA_MMU unsupported memory larger than 4G", rga, "rga-4gb", "above 4 GB", "system-dma32", Severity.WARNING),
    Row("failed to submit!", timeouts, "job-timeouts", "timeout", "update the driver to 0.9.8"),
    Row("failed to submit! on cores 1 and 2", dead_cores, "driver-too-old", "rknpu 0.9.2", "rknpu-module"),
    Row("NPU slow", slow, "slow-clock", "300 MHz of 1000 MHz: max_freq is 300 MHz",
        "echo performance | sudo tee /sys/class/devfreq/27700000.npu/governor", Severity.WARNING),
    Row("NPU slow and hot", hot, "throttling", "npu-thermal has 92 °C", "fan", Severity.WARNING),
    Row("load stuck at 20000%", stuck, "load-stuck", "20000 % load", "rknpu/reset", Severity.WARNING),
    Row("load stuck at 99%", stuck_below_hundred, "load-stuck", "99 % load and no process has the NPU",
        "rknpu/reset",
        Severity.WARNING),
    Row("no /dev/rknpu", drm, "drm-build", "no /dev/rknpu is normal", "", Severity.OK),
    Row("no /dev/accel/accel0: not built", not_built, "rocket-not-built", "built without CONFIG_DRM_ACCEL_ROCKET",
        "CONFIG_DRM_ACCEL_ROCKET=y"),
    Row("no /dev/accel/accel0: node disabled", disabled, "rocket-node-disabled", "status = disabled", "device tree"),
    Row("no /dev/accel/accel0: too late", too_late, "rocket-too-late", "vdd_npu: disabling", "initramfs"),
    Row("RK3576 on rocket", rocket_on_rk3576, "rocket-wrong-chip", "rocket runs on rk3576", "vendor's kernel"),
    Row("Couldn't open kernel device", old_teflon, "teflon-too-old", "Mesa 25.0.7", "mesa-teflon-delegate",
        Severity.WARNING),
    Row("lite2 cannot read the SoC", masked, "device-tree-masked", "no device tree", "systempaths=unconfined",
        Severity.WARNING),
    Row("is not a supported wheel on this platform", wheel, "wheel-tag", "for Python 3.7", "whose name ends in"),
    Row("numpy ABI error", numpy, "numpy-abi", "rknn-toolkit-lite2 2.0.0b0 and numpy 2.1.3", "numpy<2"),
    Row("NPU broken after the panthor overlay", panthor, "panthor-overlay", "armbianEnv.txt", "remove panthor"),
    Row("concurrent clients crash the board", clients, "several-clients", "2 processes use the NPU", "--shares 1",
        Severity.WARNING),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.symptom for row in ROWS])
def test_a_symptom_gets_its_cause_and_its_cure(row: Row, tmp_path: Path) -> None:
    model = row.build(tmp_path)
    findings = examine(tmp_path, model, row.who)
    found = next((finding for finding in findings if finding.code == row.code), None)
    assert found is not None, [finding.code for finding in findings]
    assert found.severity is row.severity
    assert row.cause in found.what
    assert row.cure in "\n".join(found.fix)
    assert found.why or found.severity is Severity.OK
    # What is wrong with this machine is all that is wrong with it.
    assert row.severity is not Severity.OK or errors(findings) == []


def errors(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings if finding.severity in {Severity.WARNING, Severity.ERROR}]


@pytest.mark.parametrize("build", [rknpu_board, rocket_board])
def test_a_healthy_board_has_nothing_to_complain_about(build: Callable[[Path], Machine], tmp_path: Path) -> None:
    build(tmp_path)
    assert errors(examine(tmp_path, GOLDENS / "conv_rk3588_i8.rknn")) == []


def test_a_node_that_was_mounted_as_a_file_into_a_container(tmp_path: Path) -> None:
    rknpu_board(tmp_path)

    class OnThisMachine(Facts):
        is_this_machine = True

    facts = OnThisMachine(tmp_path, Who(0, frozenset({0})), lambda path: errno.EPERM)
    assert "container-device-cgroup" in errors(examine_facts(facts))


def test_a_board_without_any_driver(tmp_path: Path) -> None:
    Machine(tmp_path).soc("rk3568")
    assert errors(examine(tmp_path)) == ["no-driver"]


def test_a_model_with_operators_on_the_cpu(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    codes = errors(examine(tmp_path, GOLDENS / "cpu_sin_rk3588_i8.rknn"))
    assert codes == ["model-cpu-fallback"]


def test_whose_library_it_is(tmp_path: Path) -> None:
    """Ours runs on rocket and takes models of every version; beside the vendor's it is worth a note."""
    machine = rocket_board(tmp_path).write({"/usr/lib/librknnrt.so": own_library()})
    (tmp_path / "usr/lib/librknnmrt.so").symlink_to("librknnrt.so")
    findings = examine(tmp_path, GOLDENS / "conv_rk3588_i8.rknn")
    assert errors(findings) == []
    assert "/usr/lib/librknnrt.so: openrknn's own librknnrt 2.5.0" in [finding.what for finding in findings]
    machine.write({"/usr/local/lib/librknnrt.so": library("2.5.0")})
    findings = examine(tmp_path)
    assert errors(findings) == ["rocket-vendor-library"]
    assert "/usr/local/lib/librknnrt.so: the vendor's librknnrt 2.5.0" in [finding.what for finding in findings]
    assert [finding.severity for finding in findings if finding.code == "both-libraries"] == [Severity.NOTE]
