"""Constraints: only tokens that a grammar or JSON schema allows. The package `llguidance` follows the grammar."""

from __future__ import annotations

import importlib
import json
import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from openrknn.extras import how_to_install
from openrknn.llm.generation.errors import ConstraintError, NoConstraintsError
from openrknn.llm.generation.sampling import Mask
from openrknn.llm.generation.vocabulary import Vocabulary

__all__ = ["Constraint", "Constraints", "Follower"]

_MOST_CHARACTERS = 256 * 1024
_JSON = {"whitespace_pattern": r"[ \n\t]{0,16}"}
"""Small models can repeat white space indefinitely, which JSON allows."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the text has to be."""

    kind: Literal["json", "json_schema", "regex", "lark"]
    text: str = ""
    """The schema as JSON, the regular expression, or the grammar in Lark's notation."""

    @classmethod
    def json_schema(cls, schema: object) -> Constraint:
        """Of a schema that was parsed."""
        return cls("json_schema", json.dumps(schema))


class Follower:
    """Follows one text through a grammar."""

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher, self._size = matcher, size

    @property
    def is_done(self) -> bool:
        """The grammar allows nothing more but the end."""
        return bool(self._matcher.is_stopped())

    def mask(self, width: int) -> Mask:
        """Which of `width` tokens may come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(bits, bitorder="little", count=min(8 * len(bits), self._size))
        mask: Mask = np.zeros(width, np.bool_)
        count = min(width, len(allowed))
        mask[:count] = allowed[:count]
        return mask

    def accept(self, token: int) -> None:
        """This token came."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintError(f"the constraint cannot be followed: {self._matcher.get_error()!s:.500}")


class Constraints:
    """Compiles constraints for one vocabulary, whose tokens are read once, when the first constraint is asked for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizer: Any = None
        self._lock = threading.Lock()

    def follow(self, constraint: Constraint) -> Follower:
        """Begin a text. ConstraintError says what is wrong with a grammar."""
        if len(constraint.text) > _MOST_CHARACTERS:
            raise ConstraintError(f"a grammar or schema has at most {_MOST_CHARACTERS} characters")
        library = _library()
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = _tokenizer(library, self._vocabulary)
        make = library.LLMatcher
        try:
            grammar = {
                "json": lambda: make.grammar_from_json_schema('{"type": "object"}', _JSON),
                "json_schema": lambda: make.grammar_from_json_schema(constraint.text, _JSON),
                "regex": lambda: make.grammar_from_regex(constraint.text),
                "lark": lambda: make.grammar_from_lark(constraint.text),
            }[constraint.kind]()
        except ValueError as error:
            raise ConstraintError(f"the JSON schema cannot be used: {error!s:.500}") from None
        matcher = make(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            what = {"json_schema": "JSON schema", "regex": "regular expression"}.get(constraint.kind, "grammar")
            raise ConstraintError(f"the {what} cannot be used: {matcher.get_error()!s:.500}")
        return Follower(matcher, self._vocabulary.size)


def _library() -> Any:
    try:
        return importlib.import_module("llguidance")
    except ImportError:
        raise NoConstraintsError(
            f"JSON schemas and grammars need the package llguidance, which is not installed; {how_to_install('llm')}"
        ) from None


class _Tokens:
    """The vocabulary as llguidance asks for it."""

    is_tokenizer_wrapper = True

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        ends = sorted(vocabulary.end_tokens)
        self.eos_token_id = ends[0] if ends else vocabulary.size - 1
        self.bos_token_id = None
        self.tokens = [vocabulary.piece(token) for token in range(vocabulary.size)]
        # Special tokens have no text, so only their ids distinguish them.
        self.special_token_ids = [token for token, piece in enumerate(self.tokens) if not piece]
        self.tokens = [piece or f"<|{token}|>".encode() for token, piece in enumerate(self.tokens)]

    def __call__(self, text: str) -> list[int]:
        return self._vocabulary.encode(text)


def _tokenizer(library: Any, vocabulary: Vocabulary) -> Any:
    words = _Tokens(vocabulary)
    ends = sorted(vocabulary.end_tokens) or [words.eos_token_id]
    return library.LLTokenizer(words, n_vocab=vocabulary.size, eos_token=ends)
