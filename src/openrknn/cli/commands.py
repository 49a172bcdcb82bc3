"""The table of commands. To add one, write its module and add its name here."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from typing import Protocol, cast

from openrknn.cli.output import Output

__all__ = ["GROUPS", "NAMES", "Command", "load_command", "names"]

GROUPS = {
    "see it work": ("run", "demo", "classify", "detect", "segment", "pose", "ocr", "stream"),
    "make, measure and compare models": ("compile", "bench", "profile", "compare"),
    "look into files": ("inspect", "lint", "disasm", "diff", "extract", "edit", "coverage"),
    "programs without an NPU, and what programs do with one": ("exec", "device", "spy", "trace", "verify"),
    "boards, servers and clusters": ("doctor", "top", "capabilities", "exporter", "serve", "cdi", "device-plugin"),
    "this program": ("completion",),
}
"""What people want to do -> the commands for it, in the order of `openrknn --help`."""

NAMES = tuple(name for group in GROUPS.values() for name in group)


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
