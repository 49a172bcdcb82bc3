"""The table of commands. To add one, write its module or folder and add its name here."""

from __future__ import annotations

import argparse
import importlib
from typing import Protocol, cast

from openrknn.cli.common.output import Output

__all__ = ["GROUPS", "NAMES", "RENAMED", "Command", "load_command"]

_PICTURES = ("classify", "detect", "segment", "pose", "ocr")
GROUPS = {
    "run models": ("run", "models", "demo", "examples", *_PICTURES, "stream", "watch"),
    "listen and speak": ("transcribe", "speak", "listen", "denoise", "voice"),
    "talk": ("chat", "llm"),
    "compile, measure and compare models": ("compile", "bench", "profile", "compare", "evaluate", "check"),
    "inspect and change files": ("inspect", "lint", "disasm", "diff", "extract", "edit", "coverage"),
    "run and trace programs that use an NPU": ("exec", "library", "device", "board", "spy", "trace", "verify"),
    "boards, servers and clusters": ("doctor", "top", "capabilities", "exporter", "serve", "cdi", "device-plugin"),
    "the shell": ("cache", "completion"),
}
"""What people want to do -> the commands for it, in the order of `openrknn --help`."""

NAMES = tuple(name for group in GROUPS.values() for name in group)

RENAMED = {"vision": "models"}
"""Commands of earlier versions -> what does the same now."""


class Command(Protocol):
    """What a command's module has to offer."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments; --json, --quiet, --color and --debug are there already."""

    def run(self, arguments: argparse.Namespace, output: Output) -> int:
        """Do it, and return the exit code."""


def load_command(name: str) -> Command:
    """One command: the module of its name, or its row in the table of the commands for pictures."""
    if name in _PICTURES:
        from openrknn.cli.pictures import COMMANDS

        return next(command for command in COMMANDS if name == command.NAME)
    return cast(Command, importlib.import_module(f"openrknn.cli.{name.replace('-', '_')}"))
