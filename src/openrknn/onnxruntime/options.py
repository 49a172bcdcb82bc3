"""`providers` and `provider_options` as ONNX Runtime takes them, and what ours mean.

Values may be strings, which is all that ONNX Runtime itself knows: `"cache": "off"`, `"shapes": "x=1x3x224x224"`,
`"constants": '{"sr": 16000}'`.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from openrknn.compiler.errors import OptionError
from openrknn.onnxruntime.real import CPU, RKNN, onnxruntime
from openrknn.partition import PartitionOptions

PROVIDERS_VARIABLE = "OPENRKNN_PROVIDERS"
"""RknnExecutionProvider (or 1): ours goes in front of what the program asks for."""
OPTIONS_VARIABLE = "OPENRKNN_PROVIDER_OPTIONS"
"""Options for programs that give none: JSON, or key=value with ; between them. What a program says is stronger."""

OPTIONS = {
    "target": "the chip that parts are compiled for: rk3588, rk3566, ...",
    "device": "where they run: auto, simulator, a device node, as openrknn.Session takes it",
    "precision": "fp16, int8 or mixed; without it int8 with calibration data or a quantised model, else fp16",
    "calibrate": "a folder, an .npz, arrays, a function that gives them, or a CalibrationDataReader",
    "cache": "a folder for compiled parts, or on, off",
    "prefer": "cost: what is faster by estimate; npu: all that can be; cpu: nothing",
    "shapes": "input shapes to compile ahead: x=1x3x224x224, JSON, or a list of dicts",
    "learn_shapes": "on: compile for new shapes when they come; off: these run on the CPU",
    "probe": "on: compare the first run with the CPU, and leave to it what fp16 cannot hold; off",
    "constants": "inputs that are always the same: JSON or a dict",
    "outputs": "names to cut the model at, with commas between them",
    "compile": "more keywords of openrknn.compile: JSON or a dict",
}
"""Options of our provider -> what they are."""

_OTHER_NAMES = {"calibration": "calibrate"}
_WORDS = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}

_COPIED = (
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode", "execution_order",
    "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads", "log_severity_level",
    "log_verbosity_level", "logid", "use_deterministic_compute", "use_per_session_threads",
)  # fmt: skip


class Request(NamedTuple):
    """What a program asks for when it asks for us."""

    options: dict[str, Any]
    """Of our provider, as given."""
    others: dict[str, dict[str, str]]
    """The other providers that are here -> their options."""


def request(providers: Any, provider_options: Any) -> Request | None:
    """The options for openrknn; None if the program chose other providers and nothing overrides it."""
    forced = os.environ.get(PROVIDERS_VARIABLE, "").strip().lower() in {RKNN.lower(), "rknn", "1", "on", "true"}
    if providers is None or not len(providers):
        wanted: dict[str, dict[str, Any]] = {RKNN: {}, CPU: {}} if providers is None or forced else {}
    else:
        wanted = _pairs(providers, provider_options)
        if RKNN not in wanted and forced:
            # The program meant a machine without NPU: that its providers are not here is no news.
            wanted = {RKNN: {}, **{name: given for name, given in wanted.items() if name == CPU}}
    if RKNN not in wanted:
        return None
    options = {**_from_environment(), **wanted.pop(RKNN)}
    available = [RKNN, *onnxruntime.get_available_providers()]
    for name in list(wanted):
        if name not in available:
            text = f"Specified provider '{name}' is not in available provider names.Available providers: "
            warnings.warn(f"{text}'{', '.join(available)}'", UserWarning, stacklevel=4)
            wanted.pop(name)
        elif name != CPU:
            warnings.warn(f"Provider '{name}' is ignored: what {RKNN} leaves runs on {CPU}.", UserWarning, stacklevel=4)
            wanted.pop(name)
    return Request(options, {name: {str(k): str(v) for k, v in given.items()} for name, given in wanted.items()})


def _pairs(providers: Any, provider_options: Any) -> dict[str, dict[str, Any]]:
    """Provider -> options, with ONNX Runtime's words for what is wrong."""
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(name, str) for name in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(given, dict) for given in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        entries: list[Any] = list(zip(providers, provider_options, strict=True))
    else:
        entries = [(one, {}) if isinstance(one, str) else one for one in providers]
    pairs: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if not (
            isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)
        ):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if entry[0] in pairs:
            warnings.warn(f"Duplicate provider '{entry[0]}' encountered, ignoring.", UserWarning, stacklevel=5)
            continue
        pairs[entry[0]] = entry[1]
    return pairs


def _from_environment() -> dict[str, Any]:
    text = os.environ.get(OPTIONS_VARIABLE, "").strip()
    if text.startswith("{"):
        return dict(_json(OPTIONS_VARIABLE, text))
    given = {}
    for word in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = word.partition("=")
        if not equals:
            raise OptionError(f"{OPTIONS_VARIABLE}: {word!r} is not key=value; put ; between options, or write JSON")
        given[key.strip()] = value.strip()
    return given


def cpu_options(given: Any) -> Any:
    """Options of a session for the parts of the CPU: what is written of the whole is not written by each."""
    if given is None or not (given.enable_profiling or given.optimized_model_filepath):
        return given
    copy = onnxruntime.SessionOptions()
    for name in _COPIED:
        if hasattr(given, name):
            setattr(copy, name, getattr(given, name))
    return copy


def partition_options(given: Mapping[str, Any], session_options: Any = None) -> PartitionOptions:
    """Options of our provider as the partition takes them, and those of the session for the parts of the CPU."""
    named = {_OTHER_NAMES.get(str(key), str(key)): value for key, value in given.items()}
    unknown = sorted(set(named) - set(OPTIONS))
    if unknown:
        text = ", ".join(f"{key} ({what})" for key, what in OPTIONS.items())
        raise OptionError(f"{RKNN} has no option {', '.join(map(repr, unknown))}; there are: {text}")
    words: dict[str, Any] = {"session_options": session_options}
    for key, value in named.items():
        if value is None or value == "":
            continue  # as if it had not been said
        match key:
            case "calibrate":
                words["calibration"] = _calibration(value)
            case "shapes":
                words[key] = _shapes(value)
            case "constants" | "compile":
                words[key] = _mapping(key, value)
            case "outputs":
                words[key] = tuple(filter(None, value.split(","))) if isinstance(value, str) else tuple(value)
            case "cache":
                words[key] = _WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value
            case "learn_shapes" | "probe":
                words[key] = _switch(key, value)
            case _:
                words[key] = str(value)
    return PartitionOptions(**words)


def _switch(key: str, value: Any) -> bool:
    if isinstance(value, str):
        if value.strip().lower() not in _WORDS:
            raise OptionError(f"{key}={value!r} is neither on nor off")
        return _WORDS[value.strip().lower()]
    return bool(value)


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"{key} is not JSON: {error}") from None


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    found = _json(key, value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise OptionError(f"{key} is {type(found).__name__}; give a dict, or JSON that starts with {{")
    return found


def _shapes(value: Any) -> tuple[Mapping[str, Sequence[int]], ...]:
    """One dict per bucket."""
    if isinstance(value, str) and value.lstrip()[:1] not in {"[", "{"}:
        value = [dict(_shape(word) for word in bucket.split(",") if word.strip()) for bucket in value.split(";")]
    elif isinstance(value, str):
        value = _json("shapes", value)
    if isinstance(value, Mapping):
        value = [value]
    buckets = []
    for bucket in value:
        if not isinstance(bucket, Mapping):
            raise OptionError(f"shapes: {bucket!r} is no dict of input name -> sizes")
        buckets.append({str(name): tuple(int(size) for size in sizes) for name, sizes in bucket.items()})
    return tuple(bucket for bucket in buckets if bucket)


def _shape(word: str) -> tuple[str, tuple[int, ...]]:
    found = re.fullmatch(r"\s*(.+?)=(\d+(?:x\d+)*)\s*", word)
    if not found:
        raise OptionError(f"shapes: {word!r} is not NAME=1x3x224x224; put , between inputs and ; between buckets")
    return found[1], tuple(map(int, found[2].split("x")))


def _calibration(value: Any) -> Any:
    """What `openrknn.compile` takes; a function is called, and a reader of onnxruntime.quantization is read."""
    if hasattr(value, "get_next"):
        return list(_read(value))
    return value() if callable(value) else value


def _read(reader: Any) -> Iterator[Any]:
    while (sample := reader.get_next()) is not None:
        yield sample
