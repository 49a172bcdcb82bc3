"""The vocabulary in the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openrknn.llm.errors import TokenizerError
from openrknn.llm.tokens.encoders import SPACE, Encoder, ScoredPieces, byte_pairs, unigrams, word_pieces
from openrknn.llm.tokens.names import SpecialText
from openrknn.llm.tokens.pieces import byte_level, sentence_piece, word_piece
from openrknn.llm.tokens.splits import split_of
from openrknn.llm.tokens.tokenizer import END_NAMES, Specials, Tokenizer

_UNKNOWN, _CONTROL, _USER = 2, 3, 4
_KINDS = {"gpt2", "llama", "bert", "t5"}
_NAMED = {
    "bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id", "sep_token": "seperator_token_id", "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}  # fmt: skip


def gguf_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Of the kinds gpt2 (byte-level BPE), llama (SentencePiece BPE), bert (WordPiece) and t5 (unigram)."""
    return _Reader(metadata).tokenizer()


class _Reader:
    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        self.kind = self._get("ggml.model", str)
        if self.kind not in _KINDS:
            raise TokenizerError(f"tokenizer.ggml.model is {self.kind!r}; {', '.join(sorted(_KINDS))} are known")
        self.texts = self._texts("ggml.tokens")
        if not self.texts:
            raise TokenizerError("tokenizer.ggml.tokens is empty", section="metadata")
        self.types = self._numbers("ggml.token_type", 1)
        self.scores = self._numbers("ggml.scores", 0)

    def tokenizer(self) -> Tokenizer:
        control = self._of_type(_CONTROL) | self._of_type(_UNKNOWN)
        # Some files call the end of a turn plain text.
        control |= {text: token for token, text in enumerate(self.texts) if text in END_NAMES}
        literal = {text: token for text, token in self._of_type(_USER).items() if text not in control}
        encoder, piece = self._encoder()
        silent, spoken = frozenset(control.values()), {token: text.encode() for text, token in literal.items()}

        def text_of(token: int) -> bytes:
            return b"" if token in silent else spoken[token] if token in spoken else piece(self.texts[token])

        is_spm = self.kind == "llama"
        whole = SpecialText(encoder, control, literal, self._swallowing(control, literal))
        return Tokenizer(
            len(self.texts), whole, text_of, self._specials(control), templates=self._templates(),
            drops_first_space=is_spm and self._flag("ggml.add_space_prefix", True),
        )  # fmt: skip

    def _encoder(self) -> tuple[Encoder, Callable[[str], bytes]]:
        tokens = {text: token for token, text in enumerate(self.texts)}
        if self.kind == "gpt2":
            split = split_of(self._get("ggml.pre", str, ""))
            return byte_pairs(tokens, self._texts("ggml.merges"), split), byte_level
        unknown = self._id("unknown_token_id")
        if unknown is None:
            unknown = 0
        if self.kind == "llama":
            first = self._flag("ggml.add_space_prefix", True)
            return ScoredPieces(tokens, self.scores.tolist(), space_first=first, unknown=unknown), sentence_piece
        if self.kind == "t5":
            charsmap = self._metadata.get("tokenizer.ggml.precompiled_charsmap", b"")
            pairs = list(zip(self.texts, self.scores.tolist(), strict=True))
            return unigrams(pairs, unknown, bytes(charsmap)), sentence_piece
        # Words begin with the sign of a space, and what continues them has none: the other way round than BERT's ##.
        control = {token for token, kind in enumerate(self.types) if kind in (_CONTROL, _UNKNOWN)}
        words = {}
        for text, token in tokens.items():
            inside = text.removeprefix(SPACE) if text.startswith(SPACE) else f"##{text}"
            words[text if token in control or text[:1] == "[" else inside] = token
        name = self.texts[unknown]
        if name not in words:
            raise TokenizerError(f"the token for unknown words, {name[:40]!r}, is not in the vocabulary")
        return word_pieces(words, name), word_piece

    def _specials(self, control: Mapping[str, int]) -> Specials:
        ids = {name: self._id(key) for name, key in _NAMED.items()}
        bos, eos, cls, sep = ids["bos_token"], ids["eos_token"], ids["cls_token"], ids["sep_token"]
        is_bert = self.kind == "bert"
        begins = self.kind != "gpt2" or split_of(self._get("ggml.pre", str, "")).begins
        first = (cls if cls is not None else bos) if is_bert else bos
        last = (sep if sep is not None else eos) if is_bert else eos
        begin = (first,) if first is not None and self._flag("ggml.add_bos_token", begins) else ()
        end = (last,) if last is not None and self._flag("ggml.add_eos_token", is_bert or self.kind == "t5") else ()
        ends = {eos, self._id("eot_token_id"), self._id("eom_token_id"), *(control.get(name) for name in END_NAMES)}
        named = {name: self.texts[token] for name, token in ids.items() if token is not None}
        return Specials(begin, end, frozenset(token for token in ends if token is not None), named)

    def _swallowing(self, control: Mapping[str, int], literal: Mapping[str, int]) -> frozenset[int]:
        """Phi-3 drops space behind its special tokens; only the model's name tells it."""
        if "phi-3" not in str(self._metadata.get("general.name", "")).lower().replace("phi3", "phi-3"):
            return frozenset()
        keep = {"<unk>", "<s>", "<|endoftext|>"}
        return frozenset(token for text, token in {**control, **literal}.items() if text not in keep)

    def _templates(self) -> dict[str, str]:
        found = {}
        if "tokenizer.chat_template" in self._metadata:
            found["default"] = self._get("chat_template", str)
        for name in self._metadata.get("tokenizer.chat_templates", []):
            if isinstance(name, str) and isinstance(self._metadata.get(f"tokenizer.chat_template.{name}"), str):
                found[name] = self._metadata[f"tokenizer.chat_template.{name}"]
        return found

    def _of_type(self, kind: int) -> dict[str, int]:
        return {self.texts[token]: int(token) for token in np.flatnonzero(self.types == kind) if self.texts[token]}

    def _get(self, key: str, kind: type, default: Any = None) -> Any:
        value = self._metadata.get(f"tokenizer.{key}", default)
        if not isinstance(value, kind):
            raise TokenizerError(f"tokenizer.{key} is missing or of the wrong kind", section="metadata")
        return value

    def _flag(self, key: str, default: bool) -> bool:
        return bool(self._get(key, bool, default))

    def _texts(self, key: str) -> list[str]:
        found = self._get(key, list)
        if not all(isinstance(text, str) for text in found):
            raise TokenizerError(f"tokenizer.{key} is no list of texts", section="metadata")
        return list(found)

    def _numbers(self, key: str, default: int) -> Any:
        found = self._metadata.get(f"tokenizer.{key}")
        if found is None:
            return np.full(len(self.texts), default)
        if not isinstance(found, np.ndarray) or len(found) != len(self.texts):
            raise TokenizerError(f"tokenizer.{key} does not have a number for each token", section="metadata")
        if not np.isfinite(found).all():
            raise TokenizerError(f"tokenizer.{key} has numbers that are none", section="metadata")
        return found

    def _id(self, key: str) -> int | None:
        found = self._metadata.get(f"tokenizer.ggml.{key}")
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < len(self.texts):
            raise TokenizerError(f"tokenizer.ggml.{key} is {found!r}, which is no token", section="metadata")
        return found
