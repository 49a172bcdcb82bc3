"""Whisper's tokens: bytes of text by rank (GPT-2's BPE), then the special ones by name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.tokens import read_pieces

_CODES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml "
    "cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am "
    "yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue"
)
LANGUAGES = tuple(_CODES.split())
"""In the order of their tokens."""
STEPS = 1501
"""Tokens for times: 0.00 to 30.00 s."""
STEP_SECONDS = 0.02
_TASKS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
_OTHER_NAMES = {"nocaptions": "nospeech"}
_PAIRS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
_SYMBOLS = (*'"#()*+/:;<=>@[\\]^_`{|}~「」『』', *_PAIRS.split())
_NOTES = "♩♪♫♬♭♮♯"
_SUFFIXES = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_UNSPACED = frozenset(("zh", "ja", "th", "lo", "my", "yue"))
"""Written without spaces: every character is a word."""
_ASCII_MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_LOST = "\ufffd"


def special_names(languages: int) -> list[bytes]:
    """The special tokens of OpenAI's models, in their order."""
    words = ["endoftext", "startoftranscript", *LANGUAGES[:languages], *_TASKS]
    times = [f"{number * STEP_SECONDS:.2f}" for number in range(STEPS)]
    return [f"<|{word}|>".encode() for word in (*words, *times)]


class Vocabulary:
    """Tokens of one model."""

    def __init__(self, pieces: Sequence[bytes], name: str = "the tokens", *, multilingual: bool = True) -> None:
        self.pieces = tuple(pieces)
        self._name = name
        specials = {}
        for number, piece in enumerate(self.pieces):
            if piece.startswith(b"<|") and piece.endswith(b"|>"):
                word = piece[2:-2].decode("utf-8", errors="replace")
                specials[_OTHER_NAMES.get(word, word)] = number
        self._specials = specials
        self.end, self.begin = self._special("endoftext"), self._special("startoftranscript")
        self.first_time = self._special("0.00")
        self.no_times, self.previous = self._special("notimestamps"), self._special("startofprev")
        self.no_speech = specials.get("nospeech")
        self._tasks: dict[str, int] = {task: specials[task] for task in ("transcribe", "translate") if task in specials}
        self.multilingual = multilingual
        self.languages: dict[str, int] = {code: specials[code] for code in LANGUAGES if code in specials}
        if not self.multilingual:
            self.languages = {"en": -1}

    @classmethod
    def read(cls, path: Path, *, multilingual: bool) -> Vocabulary:
        """From a set's file."""
        return cls(read_pieces(path), str(path), multilingual=multilingual)

    def __len__(self) -> int:
        return len(self.pieces)

    def _special(self, word: str) -> int:
        if word not in self._specials:
            raise VoiceSetError(f"{self._name}: no token <|{word}|>; these are not Whisper's tokens")
        return self._specials[word]

    def start(self, language: str, task: str) -> tuple[int, ...]:
        """What a text begins with; models for English only know neither languages nor tasks."""
        if not self.multilingual:
            return (self.begin,)
        return (self.begin, self.languages[language], self._tasks[task])

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        """Tokens that are never said: other special ones, and symbols of notes and of speakers' names."""
        found = {self._specials[word] for word in (*_TASKS[:4], "startoftranscript") if word in self._specials}
        if self.no_speech is not None:
            found.add(self.no_speech)
        starts = [self.encode(" -"), self.encode(" '")]
        found |= {tokens[0] for tokens in starts if tokens}
        for symbol in (*_SYMBOLS, *_NOTES):
            for tokens in (self.encode(symbol), self.encode(f" {symbol}")):
                if tokens and (len(tokens) == 1 or symbol in _NOTES):
                    found.add(tokens[0])
        return tuple(sorted(found))

    @cached_property
    def blank(self) -> tuple[int, ...]:
        """Tokens that no text begins with."""
        return (*self.encode(" "), self.end)

    # -- text to tokens ------------------------------------------------------------------------------------------

    @cached_property
    def _ranks(self) -> dict[bytes, int]:
        ranks: dict[bytes, int] = {}
        for number, piece in enumerate(self.pieces[: self.end]):
            if piece:
                ranks.setdefault(piece, number)
        return ranks

    def encode(self, text: str) -> list[int]:
        """Ordinary text; names of special tokens in it are text like any other."""
        return [token for word in _words(text) for token in self._merged(word.encode())]

    def _merged(self, word: bytes) -> list[int]:
        ranks = self._ranks
        if word in ranks:
            return [ranks[word]]
        parts = [word[at : at + 1] for at in range(len(word))]
        while len(parts) > 1:
            rank, at = min((ranks.get(parts[at] + parts[at + 1], len(self.pieces)), at) for at in range(len(parts) - 1))
            if rank == len(self.pieces):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [ranks[part] for part in parts if part in ranks]

    # -- tokens to text ------------------------------------------------------------------------------------------

    def text(self, tokens: Iterable[int]) -> str:
        """What they say, without special tokens."""
        body = b"".join(self.pieces[token] for token in tokens if 0 <= token < self.end)
        return body.decode("utf-8", errors="replace")

    def _shown(self, tokens: Iterable[int]) -> str:
        return b"".join(self.pieces[token] for token in tokens).decode("utf-8", errors="replace")

    def split(self, tokens: Sequence[int], language: str) -> list[tuple[str, list[int]]]:
        """Words with their tokens. Characters are never cut, whatever the tokens do."""
        units = list(self._units(tokens))
        if language in _UNSPACED:
            return units
        words: list[tuple[str, list[int]]] = []
        for text, own in units:
            is_mark = text.strip() in _ASCII_MARKS
            if own[0] >= self.end or text.startswith(" ") or is_mark or not words:
                words.append((text, own))
            else:
                words[-1] = (words[-1][0] + text, words[-1][1] + own)
        return words

    def _units(self, tokens: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
        whole, own, offset = self._shown(tokens), list[int](), 0
        for token in tokens:
            own.append(token)
            text = self._shown(own)
            lost = text.find(_LOST)
            if lost < 0 or (offset + lost < len(whole) and whole[offset + lost] == _LOST):
                yield text, own
                offset += len(text)
                own = []


_SPACES = re.compile(r"\s+")


def _kind(character: str) -> str:
    if character.isspace():
        return "S"
    first = unicodedata.category(character)[0]
    return first if first in "LN" else "O"


def _words(text: str) -> Iterator[str]:
    """As GPT-2 cuts text: suffixes, then runs of letters, of numbers, or of others, with one space before them."""
    at = 0
    while at < len(text):
        suffix = next((one for one in _SUFFIXES if text.startswith(one, at)), None)
        if suffix:
            yield suffix
            at += len(suffix)
            continue
        first = at + (text[at] == " " and at + 1 < len(text) and not text[at + 1].isspace())
        kind = _kind(text[first])
        if kind == "S":
            match = _SPACES.match(text, at)
            assert match is not None  # it begins with one
            # The last space belongs to the word behind it.
            end = match.end() if match.end() == len(text) or match.end() - at == 1 else match.end() - 1
        else:
            end = first + 1
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        yield text[at:end]
        at = end
