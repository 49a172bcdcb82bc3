"""`Tokenizer`: text to tokens and back, with the special tokens of a model."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openrknn.llm.tokens.encoders import Encoder

END_NAMES = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>", "<EOT>",
    "<|end_of_role|>", "<eos>",
})  # fmt: skip
"""Control tokens that end a text or a turn, also where the file names only one of them."""


@dataclass(frozen=True)
class Specials:
    """Tokens that are no text, and what texts begin and end with."""

    control: Mapping[str, int]
    """Names that become a token only where special tokens are asked for: <|im_start|>."""
    literal: Mapping[str, int]
    """Names that are always this token, and its text too: a run of spaces, <tool_call>."""
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    ends: frozenset[int] = frozenset()
    """Tokens after which a model has nothing more to say."""
    named: Mapping[str, str] = field(default_factory=dict)
    """bos_token, eos_token, ...: the texts, for chat templates."""
    swallow_space_after: frozenset[int] = frozenset()
    """Space behind these is dropped (Phi-3)."""


class Tokenizer:
    """One vocabulary. `template` is the model's chat template, None if it has none; `templates` has all by name."""

    def __init__(
        self,
        size: int,
        encoder: Encoder,
        piece: Callable[[int], bytes],
        specials: Specials,
        *,
        templates: Mapping[str, str] | None = None,
        drops_first_space: bool = False,
    ) -> None:
        self._size, self._encoder, self._piece, self.specials = size, encoder, piece, specials
        self._drops_first_space = drops_first_space
        self.templates = dict(templates or {})
        self._control_only = Names(specials.literal)
        self._all = Names({**specials.literal, **specials.control})

    @property
    def size(self) -> int:
        return self._size

    @property
    def end_tokens(self) -> frozenset[int]:
        return self.specials.ends

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
        tokens: list[int] = []
        is_start = True
        for part in (self._all if special else self._control_only).cut(text):
            if isinstance(part, int):
                tokens.append(part)
            else:
                swallow = bool(tokens) and is_start and tokens[-1] in self.specials.swallow_space_after
                tokens += self._encoder.encode(part.lstrip() if swallow else part, is_start=is_start)
            is_start = isinstance(part, int)
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
