"""Regular expressions of strangers: what may take for ever is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openrknn.llm.errors import TokenizerError
from openrknn.llm.tokens import open_tokenizer
from openrknn.llm.tokens.patterns import check_pattern

FINE = [
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[]a]+|[^]a]+|[a-z&&[^aeiou]]+",
    r"(?>a+b?)+|(?:a{1,2}){3}|(?#(a+)x|{",
    "",
]
HOSTILE = [r"(a+)+$", r"(a|a)*b", r"(?:\w+\s?)*x", r"([a-z]*)*", r"(a?){100}", r"(((a+)b?)+)", r"(?:a|ab){2,}",
           r"(?i:(x+x+)+y)"]  # fmt: skip


@pytest.mark.parametrize("pattern", FINE)
def test_published_ones_are_taken(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_nested_repetitions_are_refused(pattern: str) -> None:
    with pytest.raises(TokenizerError, match="too slow to run"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("(" * 60 + ")" * 60, "groups in more than"), ("(a", "without its end"), ("a)", "closes nothing"),
     ("[a", "class without"), ("a\\", "backslash"), ("a" * 30_000, "30000 characters")],
)  # fmt: skip
def test_damaged_ones_are_errors(pattern: str, why: str) -> None:
    with pytest.raises(TokenizerError, match=why):
        check_pattern(pattern)


def test_a_folder_with_a_hostile_pattern_is_not_opened(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    split = {"type": "Split", "pattern": {"Regex": HOSTILE[0]}, "behavior": "Isolated", "invert": False}
    said: dict[str, Any] = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]},
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    with pytest.raises(TokenizerError, match=r"'\(a\+\)\+\$' has a repetition"):
        open_tokenizer(tmp_path)
    split["pattern"] = {"Regex": FINE[0]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    assert open_tokenizer(tmp_path).encode("aa") == [0, 0]
