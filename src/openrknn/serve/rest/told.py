"""`Told`: splits what a model writes in a chat into thoughts, text and tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from openrknn.llm.generation.thinking import ThinkText
from openrknn.llm.generation.toolcalls import ToolCall, ToolText
from openrknn.serve.llm.words import Row

__all__ = ["Part", "Told"]


@dataclass(frozen=True, slots=True)
class Part:
    """What one event completes."""

    thought: str = ""
    text: str = ""
    calls: Sequence[ToolCall] = ()

    def __bool__(self) -> bool:
        return bool(self.thought or self.text or self.calls)


@dataclass(slots=True)
class Told:
    """One answer. `is_constrained`: it follows a grammar from its first token, so that it has no thoughts."""

    tools: Sequence[str] = ()
    most_calls: int | None = None
    is_constrained: bool = False
    thought_tokens: int = 0
    parts: list[Part] = field(default_factory=list)
    calls: int = 0
    _think: ThinkText | None = None
    _tool_text: ToolText | None = None
    _is_begun: bool = False

    def take(self, row: Row) -> Part:
        """The next event."""
        if not self._is_begun:
            self._is_begun = True
            self._think = None if self.is_constrained else ThinkText(row.opened)
            self._tool_text = ToolText(self.tools) if self.tools else None
        is_last = row.finish is not None
        thought, text = "", row.text
        if self._think is not None:
            was_inside = self._think.is_inside
            thought, text = self._think.feed(row.text, is_last=is_last)
            self.thought_tokens += not is_last and (was_inside or self._think.is_inside)
        calls: list[ToolCall] = []
        if self._tool_text is not None:
            text, calls = self._tool_text.feed(text)
            if is_last:
                more, rest = self._tool_text.finish()
                text, calls = text + more, calls + rest
        if self.most_calls is not None:
            calls = calls[: max(0, self.most_calls - self.calls)]
        self.calls += len(calls)
        part = Part(thought, text, calls)
        self.parts.append(part)
        return part

    @property
    def thought(self) -> str:
        """All thoughts."""
        return "".join(part.thought for part in self.parts)

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(part.text for part in self.parts)

    @property
    def all_calls(self) -> list[ToolCall]:
        """In their order."""
        return [call for part in self.parts for call in part.calls]
