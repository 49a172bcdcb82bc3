"""Tokenizers out of GGUF metadata: ids, special tokens, bytes, streams; real vocabularies where a folder has them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.llm.errors import TokenizerError
from openrknn.llm.files.gguf import GgufFile
from openrknn.llm.tokens import open_tokenizer
from openrknn.llm.tokens.gguf_tokens import gguf_tokenizer
from openrknn.llm.tokens.pieces import _BYTES
from openrknn.llm.tokens.splits import known, split_of

_SIGNS = {value: sign for sign, value in _BYTES.items()}
VOCABULARIES = os.environ.get("OPENRKNN_LLAMA_VOCABULARIES")
"""The folder models/ of llama.cpp, which is inside the source archive of llama-cpp-python."""


def byte_pair_metadata(**more: Any) -> dict[str, Any]:
    tokens = [_SIGNS[value] for value in range(256)]
    tokens += ["he", "ll", "hell", "hello", "Ġhello", "Ġw", "<|im_start|>", "<|im_end|>", "<tool>", "12"]
    types = np.ones(len(tokens), np.int32)
    types[262:264], types[264] = 3, 4
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ w", "1 2"],
        "tokenizer.ggml.token_type": types, "tokenizer.ggml.bos_token_id": 262, "tokenizer.ggml.eos_token_id": 263,
        **{f"tokenizer.{key}": value for key, value in more.items()},
    }  # fmt: skip


def sentence_piece_metadata(**more: Any) -> dict[str, Any]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    pieces = {"▁": -1, "a": -2, "b": -3, "ab": -10, "▁a": -11, "▁ab": -12, "ba": -9, "aba": -20, "\n": -5}
    scores = [0.0] * len(tokens) + [float(score) for score in pieces.values()]
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens + list(pieces),
        "tokenizer.ggml.scores": np.array(scores, np.float32), "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.{key}": value for key, value in more.items()},
    }  # fmt: skip


def test_byte_pairs_merge_in_order_and_digits_stand_alone() -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata())
    assert tokenizer.encode("hello hello") == [259, 260]
    assert tokenizer.encode("12") == [ord("1"), ord("2")]
    assert gguf_tokenizer(byte_pair_metadata(**{"ggml.pre": "gpt-2"})).encode("12") == [265]


def test_special_names_are_tokens_only_where_asked() -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata())
    assert tokenizer.encode("<|im_start|>hello<|im_end|>") == [262, 259, 263]
    plain = tokenizer.encode("<|im_start|>", special=False)
    assert 262 not in plain
    assert tokenizer.decode(plain) == "<|im_start|>"
    assert tokenizer.encode("<tool>", special=False) == [264]
    assert tokenizer.decode([262, 259, 264, 263]) == "hello<tool>"
    assert tokenizer.end_tokens == {263}


def test_what_texts_begin_with_is_added_once() -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata(**{"ggml.add_bos_token": True}))
    assert tokenizer.encode("hello") == [262, 259]
    assert tokenizer.encode("<|im_start|>hello") == [262, 259]
    assert tokenizer.encode("hello", begin=False) == [259]


@pytest.mark.parametrize("text", ["", "naïve \U0001f642 日本\n", "\x00\x7f\ufffd", " a  b "])
def test_text_comes_back(text: str) -> None:
    for metadata in (byte_pair_metadata(), sentence_piece_metadata()):
        tokenizer = gguf_tokenizer(metadata)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_stream_never_has_half_a_character() -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata())
    stream = tokenizer.stream()
    parts = [stream.feed(token) for token in tokenizer.encode("a\U0001f642é")]
    assert parts == ["a", "", "", "", "\U0001f642", "", "é"]
    stream.feed(0xC3)
    assert stream.finish() == "\ufffd"


def test_sentence_pieces_merge_by_score() -> None:
    tokenizer = gguf_tokenizer(sentence_piece_metadata())
    tokens: list[str] = sentence_piece_metadata()["tokenizer.ggml.tokens"]
    # "ba" (-9) goes before "ab" (-10), and then "▁a" (-11) before "aba" (-20).
    assert [tokens[token] for token in tokenizer.encode("aba")] == ["<s>", "▁a", "ba"]
    assert [tokens[token] for token in tokenizer.encode("ab")] == ["<s>", "▁ab"]
    assert [tokens[token] for token in tokenizer.encode("é")] == ["<s>", "▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("é ab\n")) == "é ab\n"


def test_word_pieces_of_bert() -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁wor", "ld", "▁!"]
    metadata = {
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.token_type": np.array([3, 2, 3, 3, 1, 1, 1, 1]), "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 3,
    }  # fmt: skip
    tokenizer = gguf_tokenizer(metadata)
    assert tokenizer.encode("Héllo WORLD! xyz") == [2, 4, 5, 6, 7, 1, 3]
    assert tokenizer.decode([2, 4, 5, 6, 3]) == " hello world"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ggml.model": "rwkv"}, "rwkv"),
        ({"ggml.pre": "unheard-of"}, "unheard-of"),
        ({"ggml.merges": ["h zzz"]}, "merge 0"),
        ({"ggml.merges": ["h"]}, "merge 0"),
        ({"ggml.tokens": []}, "empty"),
        ({"ggml.tokens": 7}, "ggml.tokens"),
        ({"ggml.eos_token_id": 5000}, "5000"),
        ({"ggml.token_type": np.ones(3)}, "token_type"),
    ],
)
def test_vocabularies_that_are_none_have_errors(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        gguf_tokenizer(byte_pair_metadata(**change))


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata())
    for token in (-1, tokenizer.size):
        with pytest.raises(ValueError, match="not in the vocabulary"):
            tokenizer.piece(token)


@pytest.mark.parametrize("name", known())
def test_every_way_to_cut_text_compiles_and_loses_nothing(name: str) -> None:
    tokenizer = gguf_tokenizer(byte_pair_metadata(**{"ggml.pre": name}))
    text = "Don't he's 1234 x\r\n\n  ü's 日本語 ⅷ!? \t"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert split_of(name).expressions


@pytest.mark.skipif(not VOCABULARIES, reason="OPENRKNN_LLAMA_VOCABULARIES names no folder of llama.cpp's vocabularies")
@pytest.mark.parametrize(
    "path",
    sorted(Path(VOCABULARIES or ".").glob("ggml-vocab-*.gguf.inp")) if VOCABULARIES else [],
    ids=lambda path: path.name,
)
def test_the_ids_of_llama_cpp(path: Path) -> None:
    model = path.with_suffix("")
    metadata = GgufFile(model).metadata
    if metadata["tokenizer.ggml.model"] == "gemma4" or metadata.get("tokenizer.ggml.pre") == "deepseek-llm":
        with pytest.raises(TokenizerError):
            open_tokenizer(model)
        return
    tokenizer = open_tokenizer(model)
    with path.open(encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    wanted = path.with_suffix(".out").read_text(encoding="utf-8").split("\n")
    for text, numbers in zip(texts, wanted, strict=False):
        expected = [int(number) for number in numbers.split()]
        assert tokenizer.encode(text, special=False, begin=False) == expected, text
        if metadata["tokenizer.ggml.model"] != "bert":
            assert tokenizer.decode(expected) == text
