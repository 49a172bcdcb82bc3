"""`Tokenizer`: text to tokens and back, with the special tokens of a model."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

END_NAMES = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>", "<EOT>",
    "<|end_of_role|>", "<eos>",
})  # fmt: skip
"""Control tokens that end a text or a turn, also where the file names only one of them."""


class TextEncoder(Protocol):
    """A whole text into tokens; `special`: names of control tokens become those tokens."""

    def encode(self, text: str, *, special: bool) -> list[int]: ...


@dataclass(frozen=True)
class Specials:
    """What texts begin and end with, and tokens that mean something."""

    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    ends: frozenset[int] = frozenset()
    """Tokens after which a model has nothing more to say."""
    named: Mapping[str, str] = field(default_factory=dict)
    """bos_token, eos_token, ...: the texts, for chat templates."""


class Tokenizer:
    """One vocabulary. `template` is the model's chat template, None if it has none; `templates` has all by name."""

    def __init__(
        self,
        size: int,
        encoder: TextEncoder,
        piece: Callable[[int], bytes],
        specials: Specials,
        *,
        templates: Mapping[str, str] | None = None,
        drops_first_space: bool = False,
    ) -> None:
        self._size, self._encoder, self._piece, self.specials = size, encoder, piece, specials
        self._drops_first_space = drops_first_space
        self.templates = dict(templates or {})

    @property
    def size(self) -> int:
        return self._size

    @property
    def end_tokens(self) -> frozenset[int]:
        return self.specials.ends

    @property
    def start(self) -> int | None:
        """The token that texts and chats start with, if the file names one."""
        if self.specials.begin:
            return self.specials.begin[0]
        named = self.specials.named.get("bos_token")
        found = self.encode(named, begin=False) if named else []
        return found[0] if len(found) == 1 else None

    @property
    def template(self) -> str | None:
        return self.templates.get("default")

    def encode(self, text: str, *, special: bool = True, begin: bool = True) -> list[int]:
        """The tokens of a text.

        `special`: names of control tokens in it become those tokens; without it they are text as any other, which is
        right for text that somebody else wrote. `begin`: with what the file says texts begin and end with (BOS, CLS,
        SEP), unless it is there already.
        """
        # A lone surrogate cannot be in a file or a request; U+FFFD is what UTF-8 decoders make of it.
        text = text.encode("utf-8", "replace").decode() if not text.isascii() else text
        tokens = self._encoder.encode(text, special=special)
        if not begin:
            return tokens
        first, last = self.specials.begin, self.specials.end
        if tuple(tokens[: len(first)]) != first:
            tokens = [*first, *tokens]
        if last and tuple(tokens[-len(last) :]) != last:
            tokens = [*tokens, *last]
        return tokens

    def piece(self, token: int) -> bytes:
        """What a token adds to the text: perhaps a part of a character; control tokens add nothing."""
        if not 0 <= token < self._size:
            raise ValueError(f"token {token} is not in the vocabulary of {self._size}")
        return self._piece(token)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of all tokens; bytes that are no UTF-8 become U+FFFD."""
        text = b"".join(map(self.piece, tokens)).decode("utf-8", "replace")
        return text[1:] if self._drops_first_space and text.startswith(" ") else text

    def stream(self) -> TokenStream:
        return TokenStream(self)


class TokenStream:
    """Text of tokens one by one: a character comes when its last byte is there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        return self._decoder.decode(self._tokenizer.piece(token))

    def finish(self) -> str:
        """What is left at the end: U+FFFD for half a character."""
        return self._decoder.decode(b"", True)
