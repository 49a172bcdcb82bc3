"""Names of special tokens inside a text, and the text between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openrknn.llm.tokens.encoders import Encoder


class SpecialText:
    """Cuts names of tokens out of a text, and gives what is between them to an encoder.

    `control`: names that become a token only where special tokens are asked for: <|im_start|>. `literal`: names that
    are always this token: a run of spaces, <tool_call>. `swallowing`: tokens behind which space is dropped (Phi-3).
    """

    def __init__(
        self, encoder: Encoder, control: Mapping[str, int], literal: Mapping[str, int], swallowing: frozenset[int]
    ) -> None:
        self._encoder, self._swallowing = encoder, swallowing
        self._literal, self._all = Names(literal), Names({**literal, **control})

    def encode(self, text: str, *, special: bool) -> list[int]:
        tokens: list[int] = []
        is_start = True
        for part in (self._all if special else self._literal).cut(text):
            if isinstance(part, int):
                tokens.append(part)
            else:
                swallow = bool(tokens) and is_start and tokens[-1] in self._swallowing
                tokens += self._encoder.encode(part.lstrip() if swallow else part, is_start=is_start)
            is_start = isinstance(part, int)
        return tokens


class Names:
    """Finds names of tokens in text; of two that begin at the same place, the longer one."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self._names = {name: token for name, token in names.items() if name}
        lengths: dict[str, set[int]] = {}
        for name in self._names:
            lengths.setdefault(name[0], set()).add(len(name))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def cut(self, text: str) -> Iterable[str | int]:
        """The text in order: pieces of it, and tokens."""
        start = at = 0
        while at < len(text):
            for length in self._lengths.get(text[at], ()):
                token = self._names.get(text[at : at + length])
                if token is not None:
                    if start < at:
                        yield text[start:at]
                    yield token
                    at += length
                    start = at
                    break
            else:
                at += 1
        if start < len(text):
            yield text[start:]
