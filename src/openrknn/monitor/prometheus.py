"""A reading in the words of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from openrknn.monitor.merge import merged
from openrknn.monitor.reading import Npu, Reading

__all__ = ["labelled", "text"]

Sample = tuple[str, str, str, Mapping[str, str], float]
"""Name, type, help, labels, value."""
_MICRO = 1e6


def text(reading: Reading, more: Iterable[Sample] = ()) -> str:
    """The exposition format; samples of one name stand together, as it asks for."""
    groups: dict[str, list[str]] = {}
    for name, kind, meaning, labels, value in (*_samples(reading), *more):
        lines = groups.setdefault(name, [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"])
        lines.append(f"{labelled(name, labels)} {value:.10g}")
    return "".join(f"{line}\n" for lines in groups.values() for line in lines)


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """ "name{a="b"}" with what must be escaped escaped."""
    escaped = (
        (key, str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for key, value in labels.items()
    )
    inside = ",".join(f'{key}="{value}"' for key, value in escaped)
    return f"{name}{{{inside}}}" if inside else name


def _samples(reading: Reading) -> Iterator[Sample]:
    for npu in merged(reading.npus, _series):
        labels = {"npu": npu.name, "driver": npu.driver}
        if npu.driver == "software":
            labels["pid"] = str(npu.clients[0].pid)
        info = {**labels, "version": npu.version or "", "soc": reading.soc or ""}
        yield "openrknn_npu_info", "gauge", "Always 1; which NPUs there are", info, 1
        yield from _core_samples(npu, labels)
        for name, meaning, value in _values(npu):
            if value is not None:
                yield f"openrknn_npu_{name}", "gauge", meaning, labels, value
        for kind, size in asdict(npu.memory).items():
            if size is not None:
                place = {**labels, "kind": kind.removesuffix("_bytes")}
                yield "openrknn_npu_memory_bytes", "gauge", "Memory of the NPU, by kind", place, size
        for zone in npu.temperatures:
            place = {**labels, "zone": zone.zone}
            yield "openrknn_npu_temperature_celsius", "gauge", "Temperature of the NPU", place, zone.celsius
        if npu.jobs is not None:
            yield "openrknn_npu_jobs_total", "counter", "Jobs that ran", labels, npu.jobs
            yield "openrknn_npu_failed_jobs_total", "counter", "Jobs that failed", labels, npu.failed_jobs or 0
    yield from _rga_samples(reading)


def _rga_samples(reading: Reading) -> Iterator[Sample]:
    for number, engine in enumerate(() if reading.rga is None else reading.rga.engines):
        if engine.load_percent is not None:
            labels = {"engine": engine.name, "number": str(number)}
            load = engine.load_percent / 100
            yield "openrknn_rga_load_ratio", "gauge", "Load of an RGA core, from 0 to 1", labels, load


def _series(npu: Npu) -> tuple[str, str, int]:
    """What tells NPUs apart in labels: one process may have opened several software NPUs."""
    return npu.driver, npu.name, npu.clients[0].pid if npu.driver == "software" else 0


def _core_samples(npu: Npu, labels: Mapping[str, str]) -> Iterator[Sample]:
    for core in npu.cores:
        place = {**labels, "core": str(core.number)}
        if core.load_percent is not None:
            yield "openrknn_npu_load_ratio", "gauge", "Load of a core, from 0 to 1", place, core.load_percent / 100
        if core.busy_seconds is not None:
            meaning = "Time in which a core was busy (rocket: powered)"
            yield "openrknn_npu_busy_seconds_total", "counter", meaning, place, core.busy_seconds
        if core.interrupts is not None:
            meaning = "Interrupts of a core, one per task"
            yield "openrknn_npu_interrupts_total", "counter", meaning, place, core.interrupts


def _values(npu: Npu) -> Iterator[tuple[str, str, float | None]]:
    clock = npu.clock
    yield "clock_hertz", "Clock of the NPU", clock.hz
    yield "clock_maximum_hertz", "Highest clock that is allowed", clock.maximum_hz
    yield "volts", "Supply of the NPU", None if npu.microvolts is None else npu.microvolts / _MICRO
    yield "powered", "Whether the NPU is switched on", None if npu.is_powered is None else int(npu.is_powered)
    yield "clients", "Processes that have the NPU open", len({client.pid for client in npu.clients})
