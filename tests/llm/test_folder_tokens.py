"""tokenizer.json and the files beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from openrknn.errors import BadTextError
from openrknn.llm.errors import TokenizerError
from openrknn.llm.templates import ChatTemplate
from openrknn.llm.tokens import open_tokenizer
from openrknn.llm.tokens.pieces import _BYTES

_SIGNS = {value: sign for sign, value in _BYTES.items()}


def save(folder: Path, made: Any, **files: Any) -> Path:
    made.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def byte_pairs(tmp_path: Path) -> Path:
    tokens = {_SIGNS[value]: value for value in range(256)} | {"he": 256, "Ġhe": 257}
    made = Tokenizer(models.BPE(tokens, [("h", "e"), ("Ġ", "he")]))
    split = pre_tokenizers.Split(Regex(r" ?\p{L}+|\s+|[^\s\p{L}]+"), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<|begin|>", special=True), AddedToken("<|im_end|>", special=True)])
    made.add_tokens([AddedToken("<tool>", normalized=False)])
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 258)])
    made.enable_truncation(3)
    return save(
        tmp_path, made, generation_config={"eos_token_id": [259, 10**9]},
        tokenizer_config={
            "bos_token": {"content": "<|begin|>"}, "eos_token": "<|im_end|>", "chat_template": "{{ bos_token }}!",
        },
    )  # fmt: skip


def test_byte_level(byte_pairs: Path) -> None:
    tokenizer = open_tokenizer(byte_pairs)
    assert tokenizer.size == 261
    assert tokenizer.encode("he he") == [258, 256, 257]
    assert tokenizer.encode("<|begin|>he<|im_end|>") == [258, 256, 259]
    assert tokenizer.encode("<tool>", begin=False, special=False) == [260]
    text = "<|im_end|> naïve \U0001f642"
    plain = tokenizer.encode(text, special=False, begin=False)
    assert 259 not in plain
    assert tokenizer.decode(plain) == text
    assert tokenizer.decode([258, 256, 260, 259]) == "he<tool>"
    assert tokenizer.end_tokens == {259}
    assert ChatTemplate.of(tokenizer).render([]) == "<|begin|>!"
    stream = tokenizer.stream()
    assert [stream.feed(token) for token in tokenizer.encode("é", begin=False)] == ["", "é"]


def test_a_template_in_a_file_of_its_own(byte_pairs: Path) -> None:
    (byte_pairs / "chat_template.jinja").write_text("{{ eos_token }}")
    assert ChatTemplate.of(open_tokenizer(byte_pairs)).render([]) == "<|im_end|>"


def test_sentence_pieces_with_bytes(tmp_path: Path) -> None:
    tokens = {"<unk>": 0, **{f"<0x{value:02X}>": 1 + value for value in range(256)}, "▁": 257, "a": 258, "▁a": 259}
    made = Tokenizer(models.BPE(tokens, [("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    tokenizer = open_tokenizer(save(tmp_path, made))
    assert tokenizer.encode("a a") == [259, 259]
    assert tokenizer.decode(tokenizer.encode("a é")) == "a é"


def test_word_pieces(tmp_path: Path) -> None:
    made = Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "wor": 3, "##ld": 4}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer = open_tokenizer(save(tmp_path, made))
    assert tokenizer.encode("World wor") == [1, 3, 4, 3, 2]
    assert tokenizer.decode([1, 3, 4, 3, 2]) == "world wor"


def test_folders_without_one_say_so(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="is not there"):
        open_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(TokenizerError, match="SentencePiece model"):
        open_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match="cannot be read"):
        open_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(BadTextError, match="no JSON"):
        open_tokenizer(tmp_path)


@pytest.mark.parametrize("number", [2**31, -1, "1", None, True])
def test_tokens_are_numbered_without_large_gaps(byte_pairs: Path, number: Any) -> None:
    said = json.loads((byte_pairs / "tokenizer.json").read_text())
    said["model"]["vocab"]["he"] = number
    (byte_pairs / "tokenizer.json").write_text(json.dumps(said))
    with pytest.raises(TokenizerError, match="a token with the number"):
        open_tokenizer(byte_pairs)


def test_a_vocabulary_that_cannot_encode_is_an_error(tmp_path: Path) -> None:
    made = Tokenizer(models.BPE({"a": 0}, [], unk_token=""))
    tokenizer = open_tokenizer(save(tmp_path, made))
    with pytest.raises(TokenizerError, match="cannot encode"):
        tokenizer.encode("b")
