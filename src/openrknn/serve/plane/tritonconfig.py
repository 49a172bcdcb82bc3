"""Triton's ModelConfig, as JSON from a client, in the words of our own `ModelConfig`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.config import ModelConfig

__all__ = ["read_triton_config"]

_MOST_BYTES = 1 << 20
_NOT_OURS = ("ensemble_scheduling", "sequence_batching")
_WITHOUT_EFFECT = (
    "name", "platform", "backend", "runtime", "batch_input", "batch_output", "optimization", "default_model_filename",
    "cc_model_filenames", "metric_tags", "model_warmup", "model_operations", "model_transaction_policy",
    "model_repository_agents", "response_cache", "model_metrics",
)  # fmt: skip
_OWN = ("cores", "task", "family", "threshold", "reader", "labels")
"""Keys of model.toml that may be among Triton's `parameters`."""
_MOST = 1 << 20


def read_triton_config(config: object, name: str) -> ModelConfig:
    """Check it; what an NPU cannot have is refused, what makes no difference is ignored."""
    if not isinstance(config, str) or len(config) > _MOST_BYTES:
        raise BadRequestError("'config' is the JSON of a model configuration, as a text")
    try:
        words = orjson.loads(config)
    except ValueError as error:
        raise BadRequestError(f"'config' is not JSON: {error}") from None
    if not isinstance(words, dict):
        raise BadRequestError("'config' is not a JSON object")
    if words.get("name") not in {None, "", name}:
        raise BadRequestError(f"'config' is for a model {str(words['name'])[:80]!r}, and {name!r} is to be loaded")
    made: dict[str, Any] = {}
    for key, value in words.items():
        if key in _NOT_OURS:
            raise BadRequestError(f"'config' has {key}, which this server does not offer")
        if key not in _READERS and key not in _WITHOUT_EFFECT:
            raise BadRequestError(f"'config' has {key[:80]!r}, which is no part of a model configuration")
        if key in _READERS:
            made.update(_READERS[key](value))
    levels, level = made.get("priority_levels"), made.get("default_priority")
    if level is not None and (levels is None or level > levels):
        raise BadRequestError("'config': default_priority_level has to be one of priority_levels")
    return ModelConfig(**made)


def _instances(value: object) -> dict[str, Any]:
    groups = _list(value, "instance_group")
    counts = [_whole(group.get("count", 1), "instance_group.count") for group in groups]
    return {"instances": sum(counts)} if any(counts) else {}


def _batching(value: object) -> dict[str, Any]:
    words = _object(value, "dynamic_batching")
    made: dict[str, Any] = {}
    names = {"priority_levels": "priority_levels", "default_priority_level": "default_priority"}
    for key, ours in names.items():
        if _whole(words.get(key, 0), key):
            made[ours] = int(words[key])
    if _whole(words.get("max_queue_delay_microseconds", 0), "max_queue_delay_microseconds", most=10**9):
        made["batch_delay_ms"] = int(words["max_queue_delay_microseconds"]) / 1000
    policy = _object(words.get("default_queue_policy", {}), "default_queue_policy")
    if _whole(policy.get("max_queue_size", 0), "max_queue_size"):
        made["queue_size"] = int(policy["max_queue_size"])
    if _whole(policy.get("default_timeout_microseconds", 0), "default_timeout_microseconds", most=10**12):
        made["timeout_ms"] = int(policy["default_timeout_microseconds"]) / 1000
    if policy.get("timeout_action", "REJECT") not in {"REJECT", 0}:
        raise BadRequestError("'config': timeout_action can be REJECT only")
    if words.get("priority_queue_policy"):
        raise BadRequestError("'config': there is one queue policy for all priorities; use default_queue_policy")
    return made


def _versions(value: object) -> dict[str, Any]:
    words = _object(value, "version_policy")
    if "specific" in words:
        numbers = [_whole(number, "version") for number in _listed(words["specific"], "versions")]
        if not numbers or not all(numbers):
            raise BadRequestError("'config': version_policy.specific has no versions")
        return {"versions": tuple(numbers)}
    if _object(words.get("latest", {}), "latest").get("num_versions", 1) not in {0, 1, "1"}:
        raise BadRequestError("'config': version_policy.latest can have one version only; use all, or specific")
    return {"versions": "all" if "all" in words else "latest"}


def _parameters(value: object) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, given in _object(value, "parameters").items():
        text = _object(given, "parameters").get("string_value")
        if key not in _OWN or not isinstance(text, str) or not text or len(text) > 255:
            raise BadRequestError(f"'config': parameters may be {', '.join(_OWN)}, each a string_value")
        try:
            made[key] = int(text) if key == "cores" else float(text) if key == "threshold" else text
        except ValueError:
            raise BadRequestError(f"'config': parameter {key} is a number") from None
        if key == "cores" and not 1 <= made[key] <= 64:
            raise BadRequestError("'config': parameter cores is a number from 1 on")
    return made


def _ports(value: object, key: str) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    ports = []
    for entry in _list(value, key):
        name, kind, dims = entry.get("name"), entry.get("data_type"), entry.get("dims")
        if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(dims, list) or len(dims) > 16:
            raise BadRequestError(f"'config': each {key} has a name, a data_type and dims")
        ports.append((name, kind, tuple(-1 if size in {-1, "-1"} else _whole(size, "dims") for size in dims)))
    return tuple(ports)


def _outputs(value: object) -> dict[str, Any]:
    labels = [entry["label_filename"] for entry in _list(value, "output") if entry.get("label_filename")]
    if not all(isinstance(one, str) and len(one) < 256 for one in labels):
        raise BadRequestError("'config': label_filename is the name of a file")
    return {"outputs": _ports(value, "output"), **({"labels": labels[0]} if labels else {})}


_READERS: Mapping[str, Callable[[object], dict[str, Any]]] = {
    "instance_group": _instances,
    "dynamic_batching": _batching,
    "version_policy": _versions,
    "parameters": _parameters,
    "input": lambda value: {"inputs": _ports(value, "input")},
    "output": _outputs,
    "max_batch_size": lambda value: {"most_batch": _whole(value, "max_batch_size")},
}


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestError(f"'config': {what} is not an object")
    return value


def _list(value: object, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > 256 or not all(isinstance(one, dict) for one in value):
        raise BadRequestError(f"'config': {what} is not a list of objects")
    return value


def _listed(value: object, what: str) -> list[Any]:
    found = _object(value, "specific").get(what)
    return found if isinstance(found, list) and len(found) <= 256 else []


def _whole(value: object, what: str, *, most: int = _MOST) -> int:
    """Large numbers of protobuf's JSON are texts."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        raise BadRequestError(f"'config': {what} is a whole number from 0 to {most}")
    return number
