"""The table of commands. To add one, write its module and add its name here."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from typing import Protocol, cast

from openrknn.cli.output import Output

__all__ = ["NAMES", "Command", "load_command", "names"]

NAMES = (
    "run",
    "demo",
    "classify",
    "detect",
    "segment",
    "pose",
    "ocr",
    "stream",
    "serve",
    "bench",
    "profile",
    "compare",
    "inspect",
    "disasm",
    "diff",
    "extract",
    "edit",
    "exec",
    "device",
    "spy",
    "coverage",
    "trace",
    "verify",
    "capabilities",
    "doctor",
    "top",
    "exporter",
    "cdi",
    "device-plugin",
    "completion",
)
"""In the order of `openrknn --help`."""


class Command(Protocol):
    """What a command's module has to offer."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments; --json, --quiet, --color and --debug are there already."""

    def run(self, arguments: argparse.Namespace, output: Output) -> int:
        """Do it, and return the exit code."""


def names() -> tuple[str, ...]:
    """The commands that are installed."""
    return tuple(name for name in NAMES if importlib.util.find_spec(_module(name)))


def _module(name: str) -> str:
    return f"openrknn.cli.{name.replace('-', '_')}"


def load_command(name: str) -> Command:
    """The module of one command."""
    return cast(Command, importlib.import_module(_module(name)))
