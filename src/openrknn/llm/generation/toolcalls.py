"""Calls of tools in what a model writes.

Hermes and Qwen write `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several if they like, Llama 3 writes
`{"name": ..., "parameters": {...}}` and nothing else, perhaps behind `<|python_tag|>` and with `;` between several.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ToolCall", "ToolText", "tool_schema"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_PYTHON = "<|python_tag|>"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants to have called."""

    name: str
    arguments: str
    """JSON."""


class ToolText:
    """Tells text and calls apart while they are written. `names` are the tools that there are."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)
        self._held = ""
        self._is_inside = self._has_text = False
        self.calls: list[ToolCall] = []

    def feed(self, text: str) -> tuple[str, list[ToolCall]]:
        """Text that is surely text, and calls that are complete."""
        self._held += text
        said, calls = "", []
        while True:
            if self._is_inside:
                at = self._held.find(_CLOSE)
                if at < 0:
                    break
                body, self._held = self._held[:at], self._held[at + len(_CLOSE) :]
                self._is_inside = False
                found = self._read(body)
                calls += found
                said += "" if found else _OPEN + body + _CLOSE
                continue
            at = self._held.find(_OPEN)
            if at >= 0:
                said += self._text(self._held[:at])
                self._held, self._is_inside = self._held[at + len(_OPEN) :], True
                continue
            if not self._may_be_json():
                keep = _overlap(self._held, _OPEN)
                said += self._text(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]
            break
        self.calls += calls
        return said, calls

    def finish(self) -> tuple[str, list[ToolCall]]:
        """What is left at the end: a call without its last tag counts."""
        held, self._held = self._held, ""
        calls = self._read(held)
        self.calls += calls
        if calls:
            return "", calls
        return (_OPEN + held if self._is_inside else self._text(held)), []

    def _text(self, text: str) -> str:
        """White space before and between calls is dropped."""
        if not self._has_text and not text.strip():
            return ""
        self._has_text = True
        return text

    def _may_be_json(self) -> bool:
        """Only an answer that begins so is a call of Llama 3."""
        if self._has_text or self.calls:
            return False
        start = self._held.lstrip()
        return not start or start[0] == "{" or _PYTHON.startswith(start[: len(_PYTHON)])

    def _read(self, body: str) -> list[ToolCall]:
        """The calls, if it is all calls of tools that there are."""
        decoder, found = json.JSONDecoder(), []
        rest = body.strip().removeprefix(_PYTHON).strip()
        while rest:
            try:
                value, end = decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                return []
            for one in value if isinstance(value, list) else [value]:
                call = self._call(one)
                if call is None:
                    return []
                found.append(call)
            rest = rest[end:].strip().removeprefix(";").strip()
        return found

    def _call(self, value: Any) -> ToolCall | None:
        if not isinstance(value, dict) or value.get("name") not in self._names:
            return None
        arguments = value.get("arguments", value.get("parameters", {}))
        if isinstance(arguments, str):
            return ToolCall(str(value["name"]), arguments)
        return ToolCall(str(value["name"]), json.dumps(arguments, ensure_ascii=False))


def tool_schema(tools: Sequence[Any], name: str | None = None) -> dict[str, Any]:
    """The schema of a call: of one of these tools (each {"function": {...}}), or of the one of this name."""
    rows = []
    for tool in tools:
        function = tool["function"]
        if name is None or function["name"] == name:
            parameters = function.get("parameters") or {"type": "object"}
            rows.append(
                {
                    "type": "object",
                    "properties": {"name": {"const": function["name"]}, "arguments": parameters},
                    "required": ["name", "arguments"],
                    "additionalProperties": False,
                }
            )
    return rows[0] if len(rows) == 1 else {"anyOf": rows}


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of the text that the tag begins with."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0
