"""`ACTION [OPTIONS] [-- PROGRAM ARGS...]`: options may be before and after the action.

argparse gives everything after the first word to a positional argument that takes what remains, so the options among
it are parsed here, by the options of the same parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

__all__ = ["Words"]


class Words(argparse.Action):
    """Sets `action` and `program`, and the options between them."""

    def __init__(self, *, actions: Sequence[str], **settings: Any) -> None:
        super().__init__(nargs=argparse.REMAINDER, **settings)
        self._known = actions

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        words = [str(word) for word in values or ()]
        if not words or words[0] not in self._known:
            given = f"not {words[0]!r}" if words else "as in `openrknn board run -- PROGRAM`"
            parser.error(f"say what to do: {', '.join(self._known)}, {given}")
        end = words.index("--") if "--" in words else len(words)
        options = argparse.ArgumentParser(prog=parser.prog, add_help=False, usage=argparse.SUPPRESS)
        for action in parser._actions:  # argparse offers no other list
            if action.option_strings:
                options._add_action(action)
        left = options.parse_known_args(words[1:end], namespace)[1]
        if left:
            parser.error(f"unrecognized arguments: {' '.join(left)}; a program and its arguments come after --")
        namespace.action, namespace.program = words[0], words[end + 1 :]
