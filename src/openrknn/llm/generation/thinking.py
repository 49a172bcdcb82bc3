"""What a model thinks before it answers: the text between `<think>` and `</think>`.

The model writes both tags (Qwen 3), or the chat template ends with the first one (DeepSeek R1).
"""

from __future__ import annotations

__all__ = ["CLOSING_TAGS", "ThinkText", "can_think", "opened_thought"]

_TAGS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
CLOSING_TAGS = tuple(close for _, close in _TAGS)
_SWITCHES = ("enable_thinking", "reasoning_effort")
"""Variables of templates that switch it on and off."""


def can_think(template: str) -> bool:
    """Whether a chat template is one of a model that thinks."""
    return any(name in template for name in (*_SWITCHES, *(tag for pair in _TAGS for tag in pair)))


def opened_thought(prompt: str) -> str:
    """The closing tag where a prompt ends with an opening one; otherwise empty."""
    end = prompt.rstrip()
    return next((close for tag, close in _TAGS if end.endswith(tag)), "")


class ThinkText:
    """Tells thoughts and answer apart while they are written. `opened`: the closing tag of the current thought."""

    def __init__(self, opened: str = "") -> None:
        self._close = opened
        self._held = ""
        self._is_start = True
        """The current part has only white space so far."""
        self._may_open = True
        """No part of the answer has come: a thought may begin."""

    @property
    def is_inside(self) -> bool:
        """Whether a thought is in progress."""
        return bool(self._close)

    def feed(self, text: str, *, is_last: bool = False) -> tuple[str, str]:
        """(thought, answer): what surely is one or the other."""
        self._held += text
        thought = said = ""
        while True:
            if self._is_start:
                self._held = self._held.lstrip()
            if self._may_open and self._is_start:
                if any(tag.startswith(self._held) for tag, _ in _TAGS) and not is_last:
                    return thought, said  # it may become a tag
                found = next((pair for pair in _TAGS if self._held.startswith(pair[0])), None)
                if found is not None:
                    self._held, self._close = self._held[len(found[0]) :], found[1]
                    continue
            if not self._close:
                self._may_open = self._may_open and not self._held
                self._is_start = self._is_start and not self._held
                said, self._held = said + self._held, ""
                return thought, said
            at = self._held.find(self._close)
            if at < 0:
                keep = 0 if is_last else _unsure(self._held, self._close)
                end = len(self._held) - keep
                thought, self._held = thought + self._held[:end], self._held[end:]
                self._is_start = self._is_start and not thought
                self._may_open = self._may_open and not thought
                return thought, said
            thought += self._held[:at].rstrip()
            self._held = self._held[at + len(self._close) :]
            self._close, self._is_start, self._may_open = "", True, False


def _unsure(text: str, tag: str) -> int:
    """Length of the longest end of the text that the tag begins with, or that is white space: none ends a thought."""
    size = next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
    return len(text) - len(text[: len(text) - size].rstrip())
