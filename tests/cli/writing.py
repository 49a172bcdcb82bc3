"""Which options of all commands write, and command lines that get as far as the check of what they name."""

from __future__ import annotations

import argparse
from pathlib import Path

from openrknn.cli.commands import NAMES
from openrknn.cli.common.outputs import OutputFile, OutputFolder
from openrknn.cli.main import build_parser
from tests.container.places import golden

__all__ = ["NOT_WRITTEN", "outputs", "valued_options", "words_for"]

# fmt: off
NOT_WRITTEN = frozenset({
    "--accuracy-data", "--accuracy-drop",
    "--adapt", "--api-server", "--batch", "--batch-delay", "--beam", "--ca-file", "--cache", "--calibrate",
    "--camera", "--chip",
    "--clear",
    "--client-connections", "--client-rate", "--client-streams", "--color", "--config", "--constant", "--context",
    "--core-list", "--cores", "--count", "--custom-string", "--device", "--dra-shares", "--drafts", "--drain",
    "--drain-delay", "--driver", "--engine", "--expect", "--explain", "--family", "--fault", "--files", "--first",
    "--fit", "--fp16-layers", "--fps", "--frames", "--golden", "--graph", "--group", "--group-id", "--grpc-port",
    "--host", "--hotwords",
    "--ignore", "--input/-i", "--instances", "--interval", "--job", "--json-schema", "--kernel", "--kubelet-dir",
    "--labels", "--language", "--layout", "--length-scale", "--library", "--limit", "--line", "--llm",
    "--loudness", "--speed",
    "--llm-client-requests", "--llm-draft-model", "--llm-drafts", "--llm-keep-alive", "--llm-sequences", "--log",
    "--log-format", "--log-level", "--machine", "--max-audio", "--max-body", "--max-memory", "--max-model",
    "--max-tokens", "--mean", "--memory", "--method", "--metrics-host", "--metrics-port", "--min-p", "--min-snr",
    "--mirror", "--model", "--module", "--name", "--node", "--noise-scale", "--noise-w", "--only", "--op", "--order",
    "--otlp", "--outputs", "--overlap", "--partial", "--partial-cost",
    "--pause", "--poll", "--port", "--precision", "--prefer",
    "--presence-penalty", "--prompt", "--queue", "--rate", "--reader", "--reference", "--rename", "--repeat",
    "--repeat-penalty", "--resource", "--root", "--run-timeout", "--runs", "--seconds", "--seed", "--self-test",
    "--shapes", "--share", "--shared-memory", "--shares", "--software", "--software-chip", "--sort", "--source",
    "--speaker", "--speakers", "--std", "--stop", "--strategy", "--system", "--taint-effect", "--target", "--task",
    "--temperature",
    "--threads", "--threshold", "--timeout", "--tls-cert", "--tls-client-ca", "--tls-key", "--token-file", "--tokens",
    "--top", "--top-k", "--top-p", "--uninstall", "--vad", "--verify-with", "--versions", "--voice", "--voice-streams",
    "--wake", "--warmup", "--weights", "--window", "--workers", "--wyoming", "action", "audio", "config",
    "file", "files",
    "first", "message", "model", "models", "name", "onnx", "other", "program", "second", "shell", "sources", "text",
    "what", "words",
    "--budget", "--float", "--max-drop", "--require", "--size", "--worst", "data",
})
# fmt: on
"""Options and arguments that take a value and write nothing. --kubelet-dir is the kubelet's: our socket in it has a
fixed name. --uninstall removes what --install wrote. A new option is written here, or declared as an output."""


def _parsers() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser(NAMES)
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices


def valued_options() -> list[tuple[str, str, argparse.Action]]:
    """Command, name, action: whatever takes a value."""
    found = []
    for command, parser in _parsers().items():
        for action in parser._actions:
            if action.nargs != 0 and not isinstance(action, argparse._HelpAction):
                found.append((command, "/".join(sorted(action.option_strings)) or action.dest, action))
    return found


def outputs(kind: type[argparse.Action]) -> list[tuple[str, argparse.Action]]:
    """The options that write files, or folders."""
    return [(command, action) for command, _, action in valued_options() if isinstance(action, kind)]


def words_for(command: str, action: argparse.Action, value: object, given: Path) -> list[str]:
    """A command line whose output is `value` and whose inputs are all `given`."""
    flag = [max(action.option_strings, key=len)] if action.option_strings else []
    lines: dict[str, list[object]] = {
        "denoise": [given],
        "evaluate": [given, given],
        "trace": ["timeline", given],
        "cdi": ["generate", "--software", "1"],
        "voice": ["get", given],
        "models": ["get", "coco-ssd"],
        "llm": ["get", given],
        "exec": ["--", given],
        "board": ["run", "--module", given, "--", given],
        "spy": ["--", given],
        "compare": [given, given],
        "speak": ["hello", "--voice", given],
        "edit": [given, "--custom-string", "x"],
        "verify": [given],
        "serve": [given],
        "compile": [given],
        "transcribe": [given, "--model", "none"],
        "doctor": [given],
        "demo": [],
        "examples": [],
        "library": [],
        "device": [],
        "device-plugin": [],
    }
    other = lines.get(command, [given])
    pictures = ("classify", "detect", "segment", "pose", "ocr")
    other = [*other, given] if command in pictures else other
    named = [*flag, value]
    return [str(word) for word in ([command, *named, *other] if flag else [command, *other, *named])]


MODEL = golden("conv_rk3588_i8")
ALL = [*outputs(OutputFile), *outputs(OutputFolder)]
