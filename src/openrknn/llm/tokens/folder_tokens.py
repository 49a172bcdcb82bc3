"""The vocabulary of a Hugging Face folder: tokenizer.json, and what the files beside it say about special tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from openrknn.errors import TooComplexError
from openrknn.llm.errors import TokenizerError
from openrknn.llm.files.jsonfile import parse_object
from openrknn.llm.tokens.encoders import library_encode, tokenizers_library
from openrknn.llm.tokens.patterns import check_patterns
from openrknn.llm.tokens.pieces import byte_level, hash_piece, sentence_piece
from openrknn.llm.tokens.tokenizer import END_NAMES, Specials, Tokenizer

_MOST_BYTES = 256 << 20
_MOST_BESIDE = 16 << 20
_LARGEST_GAP = 100_000
_LONGEST_TEMPLATE = 4 << 20
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json", "chat_template.jinja")
"""All that is read; a compiled model keeps them."""


def folder_files(folder: Path) -> dict[str, bytes]:
    """Those that are there, of bounded size."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        if (folder / "tokenizer.model").is_file():
            raise TokenizerError(
                f"{folder} has a SentencePiece model and no tokenizer.json: save its tokenizer once with "
                "transformers, or use a GGUF file"
            )
        raise TokenizerError(f"{path} is not there")
    found = {}
    for name in FILES:
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                found[name] = file.read(_MOST_BYTES + 1)
    return found


def folder_tokenizer(folder: Path) -> Tokenizer:
    """All kinds that the `tokenizers` library reads."""
    return files_tokenizer(folder_files(folder))


def files_tokenizer(files: Mapping[str, bytes]) -> Tokenizer:
    """Of what was in a folder: tokenizer.json at least."""
    data = files["tokenizer.json"]
    if len(data) > _MOST_BYTES:
        raise TokenizerError(f"tokenizer.json has more than {_MOST_BYTES} bytes")
    said = parse_object(data, "tokenizer.json")
    _check_numbers(said)
    check_patterns(said)
    made, plain = (_made(data) for _ in range(2))
    plain.encode_special_tokens = True
    return _Folder(files, (made, plain), said).tokenizer()


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """The object in a file beside it; empty where there is none."""
    data = files.get(name)
    if data is None:
        return {}
    if len(data) > _MOST_BESIDE:
        raise TooComplexError(f"{name} has more than {_MOST_BESIDE} bytes, the most that is read")
    return parse_object(data, name)


def _made(data: bytes) -> Any:
    library = tokenizers_library()
    try:
        made = library.Tokenizer.from_str(data.decode("utf-8"))
        # Settings for training: a prompt is neither cut nor filled up.
        made.no_truncation()
        made.no_padding()
    except Exception as error:
        # The library has no kind of error of its own.
        raise TokenizerError(f"tokenizer.json cannot be read: {str(error)[:200]}") from error
    return made


def _check_numbers(said: dict[str, Any]) -> None:
    """Tokens are numbered without large gaps: some of what the library does takes as long as the largest number."""
    model = said.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    numbers = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    added = said.get("added_tokens")
    numbers += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    size = len(numbers) + (len(vocabulary) if isinstance(vocabulary, list) else 0)
    wrong = [number for number in numbers if type(number) is not int or not 0 <= number < size + _LARGEST_GAP]
    if wrong:
        raise TokenizerError(f"tokenizer.json has a token with the number {str(wrong[0])[:40]}, and {size} tokens")


class _Folder:
    def __init__(self, files: Mapping[str, bytes], both: tuple[Any, Any], said: dict[str, Any]) -> None:
        self._files, self._said, self._beside = files, said, _object(files, "tokenizer_config.json")
        self._made, self._plain = both
        self._added = {int(token): found for token, found in self._made.get_added_tokens_decoder().items()}

    def tokenizer(self) -> Tokenizer:
        size = max([self._made.get_vocab_size(with_added_tokens=True), *(token + 1 for token in self._added)])
        control = {str(found.content): token for token, found in self._added.items() if found.special}
        silent = frozenset(control.values())
        literal = {token: str(found.content).encode() for token, found in self._added.items() if not found.special}
        meaning = self._meaning()

        def text_of(token: int) -> bytes:
            if token in silent:
                return b""
            text = self._made.id_to_token(token)
            return literal[token] if token in literal else meaning(text) if text is not None else b""

        begin, end = self._template()
        named = {key: text for key in _NAMED if (text := _content(self._beside.get(key)))}
        ends = {control[name] for name in END_NAMES if name in control} | self._ends(size)
        if named.get("eos_token") in control:
            ends.add(control[named["eos_token"]])
        return Tokenizer(
            size, _Library(self._made, self._plain), text_of, Specials(begin, end, frozenset(ends), named),
            templates=self._templates(), drops_first_space=self._drops_first_space(),
        )  # fmt: skip

    def _meaning(self) -> Callable[[str], bytes]:
        kinds = set(_kinds(self._said.get("decoder")))
        if "ByteLevel" in kinds:
            return byte_level
        return hash_piece if "WordPiece" in kinds else sentence_piece

    def _drops_first_space(self) -> bool:
        return bool({"Strip", "Metaspace", "WordPiece"} & set(_kinds(self._said.get("decoder"))))

    def _template(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the library puts around a text."""
        plain, whole = library_encode(self._made, "a"), library_encode(self._made, "a", whole=True)
        for first in range(len(whole) - len(plain) + 1):
            if whole[first : first + len(plain)] == plain:
                return tuple(whole[:first]), tuple(whole[first + len(plain) :])
        return (), ()

    def _ends(self, size: int) -> set[int]:
        found: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            value = _object(self._files, name).get("eos_token_id")
            values = value if isinstance(value, list) else [value]
            found |= {token for token in values if type(token) is int and 0 <= token < size}
        return found

    def _templates(self) -> dict[str, str]:
        own = self._files.get("chat_template.jinja")
        if own is not None and len(own) <= _LONGEST_TEMPLATE:
            return {"default": own.decode("utf-8", "replace")}
        said = self._beside.get("chat_template")
        if isinstance(said, str):
            return {"default": said}
        pairs = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
        return {str(item.get("name")): item["template"] for item in pairs if isinstance(item.get("template"), str)}


class _Library:
    """The library finds names of tokens itself."""

    def __init__(self, made: Any, plain: Any) -> None:
        self._made, self._plain = made, plain

    def encode(self, text: str, *, special: bool) -> list[int]:
        return library_encode(self._made if special else self._plain, text)


def _kinds(decoder: Any) -> list[str]:
    """The types of a decoder and of those inside it."""
    text = json.dumps(decoder)
    found = decoder.get("decoders", []) if isinstance(decoder, dict) and len(text) < 100_000 else []
    own = [decoder["type"]] if isinstance(decoder, dict) and isinstance(decoder.get("type"), str) else []
    return own + [inner["type"] for inner in found if isinstance(inner, dict) and isinstance(inner.get("type"), str)]


def _content(value: Any) -> str:
    """A special token is a text, or an object with its text."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""
