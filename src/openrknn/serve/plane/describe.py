"""Models and servers described as the protocol wants it; JSON for REST, and by the same names for gRPC."""

from __future__ import annotations

import contextlib
import importlib.metadata
import mmap
from pathlib import Path
from typing import Any

from openrknn.serve.plane.config import LEVELS
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import Served
from openrknn.serve.plane.stats import Stats

__all__ = ["EXTENSIONS", "model_config", "model_metadata", "server_metadata", "statistics", "version"]

EXTENSIONS = (
    "classification", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
    "model_configuration", "binary_tensor_data", "statistics", "logging",
)  # fmt: skip
"""What every openrknn server supports, by Triton's names."""


def server_metadata(plane: Plane) -> dict[str, Any]:
    """Name, version and what it can do beside the protocol proper."""
    some = {"system_shared_memory": not plane.regions.refusal, "trace": plane.traces.is_offered}
    return {"name": "openrknn", "version": version(), "extensions": [*EXTENSIONS, *(key for key in some if some[key])]}


def version() -> str:
    """Of openrknn."""
    return importlib.metadata.version("openrknn")


def model_metadata(plane: Plane, served: Served) -> dict[str, Any]:
    """What to send and what to expect."""
    return {
        "name": served.name,
        "versions": plane.repository.versions(served.name) or [served.version],
        "platform": served.card.platform,
        "inputs": [port.as_json() for port in served.signature.inputs],
        "outputs": [port.as_json() for port in served.signature.outputs],
    }


def model_config(served: Served) -> dict[str, Any]:
    """As Triton's model configuration: clients look up max_batch_size here. Dims leave the batch out."""
    batch = served.signature.batch if served.signature.batch > 1 else 0

    def ends(inputs: bool) -> list[dict[str, Any]]:
        ports = served.signature.inputs if inputs else served.signature.outputs
        return [
            {"name": port.name, "data_type": f"TYPE_{port.datatype}", "dims": list(port.shape[1 if batch else 0 :])}
            for port in ports
        ]

    config, queue = served.config, served.queue
    levels = config.priority_levels or LEVELS
    return {
        "name": served.name,
        "platform": served.card.platform,
        "backend": "openrknn",
        "dynamic_batching": {
            "max_queue_delay_microseconds": round(1e6 * served.batch_delay_seconds),
            "priority_levels": levels,
            "default_priority_level": config.level(0),
            "default_queue_policy": {
                "default_timeout_microseconds": round(1000 * (config.timeout_ms or 0)),
                "allow_timeout_override": True,
                "max_queue_size": queue.size,
            },
        },
        "max_batch_size": batch,
        "input": ends(True),
        "output": ends(False),
        "instance_group": [{"name": served.device_name, "kind": "KIND_CPU", "count": len(served.instances)}],
    }


def statistics(served: Served) -> dict[str, Any]:
    """Counts and nanoseconds since the model was loaded."""
    stats = served.stats
    stages = stats.stages
    return {
        "name": served.name,
        "version": served.version,
        "last_inference": stats.last_milliseconds,
        "inference_count": stats.items,
        "execution_count": stats.executions,
        "inference_stats": {
            "success": _duration(stats.successes, stages["total"].sum),
            "fail": _duration(sum(stats.failures.values()), stats.failed_seconds),
            "queue": _stage(stats, "queue"),
            "compute_input": _stage(stats, "pre"),
            "compute_infer": _stage(stats, "npu"),
            "compute_output": _stage(stats, "post"),
            "cache_hit": _duration(0, 0.0),
            "cache_miss": _duration(0, 0.0),
        },
        "memory_usage": [{"type": "CPU", "id": 0, "byte_size": size} for size in _memory(served)],
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _duration(int(row[0]), row[1]),
                "compute_infer": _duration(int(row[0]), row[2]),
                "compute_output": _duration(int(row[0]), row[3]),
            }
            for size, row in sorted(stats.batches.items())
        ],
    }


def _memory(served: Served) -> list[int]:
    """Bytes of the processes that the model runs in; those in the server's own process are not separated."""
    found = []
    for pid in served.host.pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            found.append(int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE)
    return found


def _stage(stats: Stats, name: str) -> dict[str, int]:
    return _duration(stats.stages[name].count, stats.stages[name].sum)


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": int(seconds * 1e9)}
