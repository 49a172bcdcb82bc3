"""Fake machines: trees of /sys, /proc and /dev with the kernels' own texts, for everything that takes a root path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["Machine", "rknpu_board", "rocket_board"]

MEMINFO = "MemTotal:        8123456 kB\nMemFree: 1234567 kB\nCmaTotal:         262144 kB\nCmaFree:          245760 kB\n"
LOG_IOMMU = "RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled, using iommu mode\n"
LOG_DRM = "[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1\n"
ADDRESSES = {
    "rk3588": ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu"),
    "rk3576": ("27700000.npu",),
    "rk3568": ("fde40000.npu",),
    "rk3566": ("fde40000.npu",),
    "rv1106": ("ff660000.npu",),
}


class Machine:
    """A tree below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write({"/proc/meminfo": MEMINFO, "/proc/sys/kernel/osrelease": "6.1.75-vendor\n"})

    def write(self, texts: Mapping[str, str | bytes]) -> Machine:
        """Files with these contents."""
        for path, text in texts.items():
            place = self.place(path)
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self

    def link(self, path: str, target: str) -> Machine:
        self.place(path).symlink_to(target)
        return self

    def node(self, path: str, mode: int = 0o660) -> Machine:
        """A device node; a plain file stands for it, which needs no root."""
        place = self.place(path)
        place.touch()
        place.chmod(mode)
        return self

    def place(self, path: str) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def process(self, pid: int, command: str, *opened: str) -> Machine:
        """A process that has these nodes open."""
        self.write({f"/proc/{pid}/comm": f"{command}\n"})
        for number, path in enumerate(opened, 3):
            self.link(f"/proc/{pid}/fd/{number}", path)
        return self

    def temperature(self, celsius: float, zone: str = "npu-thermal", number: int = 6) -> Machine:
        folder = f"/sys/class/thermal/thermal_zone{number}"
        return self.write(
            {
                f"{folder}/type": f"{zone}\n",
                f"{folder}/temp": f"{round(celsius * 1000)}\n",
                f"{folder}/trip_point_0_type": "passive\n",
                f"{folder}/trip_point_0_temp": "85000\n",
                f"{folder}/trip_point_1_type": "critical\n",
                f"{folder}/trip_point_1_temp": "115000\n",
            }
        )

    def soc(self, name: str, board: str = "radxa,rock-5b") -> Machine:
        return self.write({"/proc/device-tree/compatible": f"{board}\0rockchip,{name}\0"})

    def log(self, *lines: str) -> Machine:
        """The kernel's log, where a root path has it."""
        place = self.place("/var/log/dmesg")
        with open(place, "a") as stream:
            stream.writelines(f"[    5.123456] {line.strip()}\n" for line in lines)
        return self


def rknpu_board(root: Path, soc: str = "rk3588", version: str = "0.9.8", *, misc: bool = False) -> Machine:
    """A healthy board with the vendor's driver."""
    machine = Machine(root).soc(soc).temperature(48)
    npu = ADDRESSES[soc][0]
    cores = {"rk3588": 3, "rk3576": 2}.get(soc, 1)
    load = "".join(f" Core{core}:  0%," for core in range(cores)) if cores > 1 else " 0%"
    folder = "/sys/kernel/debug/rknpu"
    machine.write(
        {
            f"{folder}/version": f"RKNPU driver: v{version}\n",
            f"{folder}/load": f"NPU load: {load}\n",
            f"{folder}/power": "off\n",
            f"{folder}/volt": "800000\n",
            f"{folder}/mm": "",
            "/sys/module/rknpu/version": f"{version}\n",
            f"/sys/class/devfreq/{npu}/cur_freq": "1000000000\n",
            f"/sys/class/devfreq/{npu}/min_freq": "300000000\n",
            f"/sys/class/devfreq/{npu}/max_freq": "1000000000\n",
            f"/sys/class/devfreq/{npu}/available_frequencies": "300000000 400000000 1000000000\n",
            f"/sys/class/devfreq/{npu}/available_governors": "userspace performance rknpu_ondemand\n",
            f"/sys/class/devfreq/{npu}/governor": "rknpu_ondemand\n",
            f"/sys/class/devfreq/{npu}/load": "0@1000000000Hz\n",
        }
    )
    machine.place(f"/sys/devices/platform/{npu}").mkdir(parents=True)
    machine.link(f"/sys/bus/platform/drivers/RKNPU/{npu}", f"../../../../devices/platform/{npu}")
    machine.log(LOG_IOMMU)
    if misc:
        return machine.node("/dev/rknpu").node("/dev/dma_heap/system")
    machine.log(LOG_DRM)
    uevent = f"DRIVER=RKNPU\nOF_NAME=npu\nOF_COMPATIBLE_0=rockchip,{soc}-rknpu\n"
    machine.write({f"/sys/devices/platform/{npu}/uevent": uevent})
    _other_card(machine)
    for name in ("card1", "renderD129"):
        machine.place(f"/sys/devices/platform/{npu}/drm/{name}").mkdir(parents=True)
        machine.link(f"/sys/devices/platform/{npu}/drm/{name}/device", f"../../../{npu}")
        machine.link(f"/sys/class/drm/{name}", f"../../devices/platform/{npu}/drm/{name}")
        machine.node(f"/dev/dri/{name}")
    return machine


def rocket_board(root: Path, soc: str = "rk3588", release: str = "6.18.2") -> Machine:
    """A healthy board with the mainline driver: one accel node, whose device is not a core."""
    machine = Machine(root).soc(soc).temperature(48)
    counts = ["           CPU0       CPU1"]
    for number, npu in enumerate(ADDRESSES[soc]):
        machine.write(
            {
                f"/sys/devices/platform/{npu}/uevent": "DRIVER=rocket\nOF_NAME=npu\n",
                f"/sys/devices/platform/{npu}/power/runtime_status": "suspended\n",
                f"/sys/devices/platform/{npu}/power/runtime_active_time": f"{1000 * number}\n",
            }
        )
        machine.link(f"/sys/bus/platform/devices/{npu}", f"../../../devices/platform/{npu}")
        machine.link(f"/sys/bus/platform/drivers/rocket/{npu}", f"../../../../devices/platform/{npu}")
        counts.append(f" {70 + number}:        {number}         10     GICv3 {142 + number} Level     {npu}")
    machine.write(
        {"/proc/interrupts": "\n".join(counts) + "\nIPI0:   5   6   Rescheduling interrupts\nErr:   0\n"}
    )
    machine.write({"/sys/devices/platform/rknn/uevent": "MODALIAS=platform:rknn\n"})
    machine.write({"/proc/sys/kernel/osrelease": f"{release}\n"})
    machine.place("/sys/devices/platform/rknn/accel/accel0").mkdir(parents=True)
    machine.link("/sys/devices/platform/rknn/accel/accel0/device", "../../../rknn")
    machine.link("/sys/class/accel/accel0", "../../devices/platform/rknn/accel/accel0")
    machine.log("rocket fdab0000.npu: Rockchip NPU core 0 version: 1179210309")
    return machine.node("/dev/accel/accel0")


def _other_card(machine: Machine) -> None:
    """The display comes first, with a connector: numbers of nodes mean nothing."""
    machine.write({"/sys/devices/platform/display-subsystem/uevent": "DRIVER=rockchip-drm\n"})
    for name in ("card0", "renderD128"):
        machine.place(f"/sys/devices/platform/display-subsystem/drm/{name}").mkdir(parents=True)
        machine.link(f"/sys/devices/platform/display-subsystem/drm/{name}/device", "../../../display-subsystem")
        machine.link(f"/sys/class/drm/{name}", f"../../devices/platform/display-subsystem/drm/{name}")
        machine.node(f"/dev/dri/{name}")
    machine.place("/sys/class/drm/card0-HDMI-A-1").mkdir(parents=True)
