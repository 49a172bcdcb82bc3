"""What generation needs of a tokenizer."""

from __future__ import annotations

from typing import Protocol


class Vocabulary(Protocol):
    """Text to tokens and back. Implemented by `openrknn.llm.tokens`."""

    @property
    def size(self) -> int:
        """Tokens that it knows; logits beyond it belong to none."""
        ...

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a text or a turn."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt. Names of special tokens in it become those tokens."""
        ...

    def piece(self, token: int) -> bytes:
        """What a token adds to the text; special tokens add nothing."""
        ...
