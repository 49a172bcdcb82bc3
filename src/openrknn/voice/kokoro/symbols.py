"""Kokoro's symbols: IPA with letters of its own for diphthongs; the number of each is its row in the model's table."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

from openrknn.voice.errors import PhonemeError
from openrknn.voice.piper.config import BOS, EOS, PAD, PiperConfig
from openrknn.voice.piper.phonemes import Phonemise, phonemes_of

_LOG = logging.getLogger(__name__)
RATE = 24000
LONGEST = 510
"""Symbols at once: as many as the model has places for, without the pad at each end."""
ROWS = 178
"""Of the model's table."""

_RUNS: tuple[tuple[int, str], ...] = (
    (1, ";:,.!?"), (9, '—…"()“” \u0303ʣʥʦʨᵝ\uab67AI'), (31, "O"), (33, "Q"), (35, "ST"), (39, "W"), (41, "Yᵊ"),
    (43, "abcdef"), (50, "hijklmnopqrstuvwxyzɑɐɒæ"), (75, "βɔɕç"), (80, "ɖðʤə"), (85, "ɚɛɜ"), (90, "ɟ"), (92, "ɡ"),
    (99, "ɥ"), (101, "ɨɪʝ"), (110, "ɯɰŋɳɲɴø"), (118, "ɸθœ"), (123, "ɹ"), (125, "ɾɻ"), (128, "ʁɽʂʃʈʧ"), (135, "ʊʋ"),
    (138, "ʌɣɤ"), (142, "χʎ"), (147, "ʒʔ"), (156, "ˈˌː"), (162, "ʰ"), (164, "ʲ"), (169, "↓"), (171, "→↗↘"), (177, "ᵻ"),
)  # fmt: skip
SYMBOLS: dict[str, int] = {
    letter: first + place for first, letters in _RUNS for place, letter in enumerate(letters)
}  # fmt: skip
"""Symbol -> number. Gaps in the numbers are rows that were never trained."""

LANGUAGES = {
    "a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "p": "pt-br", "j": "", "z": "",
}  # fmt: skip
"""First letter of a voice's name -> voice of espeak-ng; empty: none whose phonemes the model was trained with."""

_SHARED = (
    ("dʒ", "ʤ"), ("tʃ", "ʧ"), ("dz", "ʣ"), ("ts", "ʦ"), ("eɪ", "A"), ("aɪ", "I"), ("aʊ", "W"), ("ɔɪ", "Y"),
    ("oʊ", "O"), ("əʊ", "Q"), ("c\u0327", "ç"), ("\u0361", ""), ("\u0329", ""), ("\u032a", ""), ("g", "ɡ"),
)  # fmt: skip
_ENGLISH = (("ʔ", "t"), ("əl", "ᵊl"), ("ɐ", "ə"), ("ɬ", "l"), ("x", "k"), ("r", "ɹ"), ("ʲ", "j"))
_AMERICAN = (("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɚ", "əɹ"), ("ɾ", "T"), ("ː", ""))
_BRITISH = (("eə", "ɛː"), ("ɚ", "ə"))
_POSSESSIVE = re.compile(r" z(?=[;:,.!?—…\"”) ]|$)")


def in_symbols(phonemes: str, letter: str) -> str:
    """Phonemes of espeak-ng as Kokoro was trained with them; `letter`: the language in the voice's name."""
    rules = list(_SHARED)
    if letter in "ab":
        # The endings of words in "-ts" and "-dz" are two sounds in English.
        rules = [rule for rule in rules if rule[0] not in ("ts", "dz")]
        rules += [*_ENGLISH, *(_AMERICAN if letter == "a" else _BRITISH)]
    for old, new in rules:
        phonemes = phonemes.replace(old, new)
    return _POSSESSIVE.sub("z", phonemes)


def config_of(letter: str) -> PiperConfig:
    """What `phonemes_of` has to know of the language."""
    marks = dict.fromkeys((PAD, BOS, EOS), (0,))
    ids = {symbol: (number,) for symbol, number in SYMBOLS.items()} | marks
    return PiperConfig(RATE, LANGUAGES[letter], ids, ROWS)


def sentences_of(text: str, letter: str, phonemise: Phonemise | None = None) -> list[str]:
    """Sentences in Kokoro's symbols. `[[ phonemes ]]` in the text are taken as they are."""
    if not LANGUAGES[letter]:
        spoken = re.sub(r"\[\[.*?\]\]", "", text, flags=re.DOTALL)
        if any(mark.isalnum() for mark in spoken):
            raise PhonemeError(
                "Kokoro's Japanese and Chinese voices take phonemes that espeak-ng does not make; give them yourself: "
                "text in [[ ]] is taken as Kokoro's symbols"
            )
        return [part.strip() for part in re.findall(r"\[\[(.*?)\]\]", text, re.DOTALL) if part.strip()]
    found = phonemes_of(text, config_of(letter), phonemise)
    return [in_symbols("".join(sentence), letter) for sentence in found]


def ids_of(symbols: str) -> list[int]:
    """Numbers with a pad at each end. Symbols that the model does not know are left out and reported."""
    unknown = sorted({mark for mark in symbols if mark not in SYMBOLS})
    numbers = [SYMBOLS[mark] for mark in symbols if mark in SYMBOLS]
    if len(numbers) * 2 < len(symbols) or not any(number > SYMBOLS[" "] for number in numbers):
        raise PhonemeError(f"Kokoro knows too few of the symbols in {symbols!r:.60}; is it another language?")
    if unknown:
        _LOG.warning("symbols that Kokoro does not know are left out: %s", " ".join(map(repr, unknown)))
    return [0, *numbers, 0]


def pieces(symbols: str, longest: int = LONGEST) -> Iterator[str]:
    """A sentence in pieces that the model has room for, cut behind a mark or between words."""
    rest = symbols
    while len(rest) > longest:
        cut = max(rest.rfind(mark, longest // 2, longest) for mark in ";:,—")
        cut = cut if cut >= 0 else rest.rfind(" ", longest // 2, longest)
        cut = cut + 1 if cut >= 0 else longest
        yield rest[:cut].strip()
        rest = rest[cut:].strip()
    if rest:
        yield rest


def named(letters: Sequence[str]) -> str:
    """The language of a voice by its name: `af_heart` -> `a`."""
    letter = letters[0] if letters else ""
    return letter if letter in LANGUAGES else "a"
