"""The vendor's driver, with DRM nodes or with /dev/rknpu."""

from __future__ import annotations

from pathlib import Path

from openrknn.chips import CHIPS
from openrknn.monitor import board, files, texts
from openrknn.monitor.clients import clients
from openrknn.monitor.nodes import Found
from openrknn.monitor.reading import Clock, Core, Memory, Npu

__all__ = ["clock", "read"]

FOLDERS = ("/proc/rknpu", "/sys/kernel/debug/rknpu")
"""Two folders with equal files: procfs, where the kernel has it, is for all users; debugfs is for root."""
_DEVFREQ = "/sys/class/devfreq"


def read(root: Path, found: Found, soc: str | None) -> Npu:
    """Everything that the driver tells. `freq` is not read: reading it powers the NPU up."""
    values = {name: _text(root, name) for name in ("version", "load", "power", "volt", "mm")}
    version = values["version"] or files.text(root, "/sys/module/rknpu/version") or ""
    name = found.devices[0] if found.devices else "rknpu"
    folder = _devfreq(root, name)
    sram = texts.sram(values["mm"] or "")
    volts = (values["volt"] or "").strip()
    memory = texts.meminfo(files.text(root, "/proc/meminfo") or "")
    hidden = tuple(
        f"{FOLDERS[1]}/{name}" for name, value in values.items() if value is None and _is_closed(root, name)
    )
    return Npu(
        driver="rknpu",
        name=name,
        interface=found.interface,
        version=texts.driver_version(version),
        nodes=found.nodes,
        cores=_cores(root, values["load"], folder, soc),
        clock=clock(root, folder),
        memory=Memory(
            sram_total_bytes=sram.total_bytes if sram else None,
            sram_used_bytes=sram.used_bytes if sram else None,
            cma_total_bytes=memory.get("CmaTotal"),
            cma_free_bytes=memory.get("CmaFree"),
        ),
        temperatures=board.temperatures(root),
        microvolts=int(volts) if volts.isdigit() else None,
        is_powered=texts.switch(values["power"] or ""),
        clients=clients(root, [node.path for node in found.nodes]),
        hidden=hidden,
    )


def clock(root: Path, folder: str | None) -> Clock:
    """What devfreq says."""
    if folder is None:
        return Clock()
    steps = files.words(root, f"{folder}/available_frequencies")
    return Clock(
        hz=files.number(root, f"{folder}/cur_freq"),
        minimum_hz=files.number(root, f"{folder}/min_freq"),
        maximum_hz=files.number(root, f"{folder}/max_freq"),
        available_hz=tuple(int(step) for step in steps if step.isdigit()),
        governor=(files.text(root, f"{folder}/governor") or "").strip() or None,
        available_governors=files.words(root, f"{folder}/available_governors"),
    )


def _text(root: Path, name: str) -> str | None:
    return next((text for folder in FOLDERS if (text := files.text(root, f"{folder}/{name}")) is not None), None)


def _is_closed(root: Path, name: str) -> bool:
    """There, or in a folder that one cannot look into."""
    try:
        return files.below(root, f"{FOLDERS[1]}/{name}").exists()
    except PermissionError:
        return True


def _devfreq(root: Path, device: str) -> str | None:
    names = [name for name in files.listed(root, _DEVFREQ) if name.endswith((".npu", "-npu", "npu"))]
    chosen = device if device in names else next(iter(names), None)
    return f"{_DEVFREQ}/{chosen}" if chosen else None


def _cores(root: Path, load: str | None, folder: str | None, soc: str | None) -> tuple[Core, ...]:
    loads = texts.loads(load or "")
    if not loads and folder is not None:
        # The vendor's devfreq has one load for all cores, which everybody may read.
        whole = texts.devfreq_load(files.text(root, f"{folder}/load") or "")
        if whole is not None:
            return (Core(0, float(min(whole[0], 100)), whole[0]),)
    if loads:
        return tuple(Core(core, float(min(percent, 100)), percent) for core, percent in sorted(loads.items()))
    return tuple(Core(number) for number in range(CHIPS[soc].cores if soc else 1))
