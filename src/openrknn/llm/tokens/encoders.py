"""Text without special tokens into numbers: one class for each kind of vocabulary."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from openrknn.extras import missing
from openrknn.llm.errors import MissingPackageError, TokenizerError
from openrknn.llm.tokens.splits import Split

SPACE = "\u2581"
"""What SentencePiece writes for a space."""


class Encoder(Protocol):
    """Text into tokens; `is_start`: nothing is before it, or a special token."""

    def encode(self, text: str, *, is_start: bool) -> list[int]: ...


class ScoredPieces:
    """SentencePiece's BPE: of all neighbours that are a token together, those with the best score become one."""

    def __init__(self, tokens: Mapping[str, int], scores: Sequence[float], *, space_first: bool, unknown: int) -> None:
        self._tokens, self._scores, self._space_first, self._unknown = tokens, scores, space_first, unknown
        self._bytes = [tokens.get(f"<0x{value:02X}>", unknown) for value in range(256)]

    def encode(self, text: str, *, is_start: bool) -> list[int]:
        if not text:
            return []
        if self._space_first and is_start:
            text = " " + text
        return [token for piece in self._merge(text.replace(" ", SPACE)) for token in self._numbers(piece)]

    def _numbers(self, piece: str) -> list[int]:
        if piece in self._tokens:
            return [self._tokens[piece]]
        return [self._bytes[value] for value in piece.encode()]

    def _merge(self, text: str) -> list[str]:
        pieces: list[str] = list(text)
        after = [*range(1, len(pieces)), -1]
        before = list(range(-1, len(pieces) - 1))
        queue: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right >= 0:
                joined = pieces[left] + pieces[right]
                token = self._tokens.get(joined)
                if token is not None:
                    heapq.heappush(queue, (-self._scores[token], left, right, joined))

        for left in range(len(pieces) - 1):
            offer(left, left + 1)
        while queue:
            _, left, right, joined = heapq.heappop(queue)
            # One of the two may have become part of another piece meanwhile.
            if not pieces[left] or not pieces[right] or pieces[left] + pieces[right] != joined:
                continue
            pieces[left], pieces[right] = joined, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [piece for piece in pieces if piece]


class _Library:
    """A model of the `tokenizers` library."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, is_start: bool) -> list[int]:
        return library_encode(self._tokenizer, text) if text else []


def tokenizers_library() -> Any:
    """The package, or the error that says how to get it."""
    try:
        import tokenizers
    except ImportError as error:
        raise MissingPackageError(f"the vocabulary of a model: {missing(error, 'llm')}") from error
    return tokenizers


def library_encode(tokenizer: Any, text: str, *, whole: bool = False) -> list[int]:
    """`whole`: with what the library puts around a text."""
    try:
        return list(tokenizer.encode(text, add_special_tokens=whole).ids)
    except Exception as error:
        # The library has no kind of error of its own; a vocabulary without the token for unknown text is one.
        raise TokenizerError(f"the vocabulary cannot encode a text: {str(error)[:200]}") from error


def byte_pairs(tokens: Mapping[str, int], merges: Sequence[str], split: Split) -> Encoder:
    """GPT-2's BPE: bytes as printable characters, merged in the order of the list."""
    library = tokenizers_library()
    pairs = []
    for number, merge in enumerate(merges):
        cut = merge.find(" ", 1)
        left, right = merge[:cut], merge[cut + 1 :]
        if cut < 0 or left not in tokens or right not in tokens or left + right not in tokens:
            raise TokenizerError(f"merge {number} ({merge[:40]!r}) does not join two tokens to a third")
        pairs.append((left, right))
    model = library.models.BPE(dict(tokens), pairs, ignore_merges=split.whole_words)
    made = library.Tokenizer(model)
    cuts = [library.pre_tokenizers.Split(library.Regex(each), "isolated") for each in split.expressions]
    cuts.append(library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    made.pre_tokenizer = library.pre_tokenizers.Sequence(cuts)
    return _Library(made)


def word_pieces(tokens: Mapping[str, int], unknown: str) -> Encoder:
    """BERT's vocabulary: words from the left, the longest token first."""
    library = tokenizers_library()
    made = library.Tokenizer(library.models.WordPiece(dict(tokens), unk_token=unknown, max_input_chars_per_word=1000))
    # A vocabulary without capital letters was trained on lower case.
    lowers = not any(text.isalpha() and text.isascii() and text != text.lower() for text in tokens)
    made.normalizer = library.normalizers.BertNormalizer(lowercase=lowers)
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    return _Library(made)


def unigrams(pieces: Sequence[tuple[str, float]], unknown: int, normaliser: bytes) -> Encoder:
    """SentencePiece's unigram model: the pieces whose scores have the largest sum."""
    library = tokenizers_library()
    made = library.Tokenizer(library.models.Unigram(list(pieces), unk_id=unknown, byte_fallback=False))
    steps = [library.normalizers.Precompiled(normaliser)] if normaliser else []
    steps.append(library.normalizers.Replace(library.Regex(" {2,}"), " "))
    made.normalizer = library.normalizers.Sequence(steps)
    made.pre_tokenizer = library.pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=True)
    return _Library(made)
