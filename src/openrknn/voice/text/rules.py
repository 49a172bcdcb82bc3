"""What English and German share: a language's words in a table, and rules that use them in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RANGE = re.compile(r"(?<=\d)\s?[–—]\s?(?=[$€£]?\d)|(?<=\d)-(?=\d+(?:[.,]\d+)?\s?(?:%|°|[a-zA-Z€]))")
"""A dash between two numbers. A hyphen only before a unit: `10-20 km`; `555-1234` may be a telephone number."""
PAUSE = re.compile(r"\s+[–—-]\s+|\s*—\s*")
_ADDRESS = re.compile(r"\b(?:https?://|www\.)[^\s<>\"']+|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b", re.IGNORECASE)
_DOMAIN = re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|de|io|dev|eu|ch|at|uk|fr|info|edu|gov)\b(?:/[^\s<>\"']*)?")
ACRONYM = re.compile(r"\b[A-Z]{2,6}\b(?!\.)")
_AS_LETTERS = frozenset(
    [
        "AI",
        "API",
        "BBC",
        "CEO",
        "CIA",
        "CPU",
        "DNA",
        "DVD",
        "EU",
        "FAQ",
        "FBI",
        "GPU",
        "HIV",
        "IBM",
        "ID",
        "IO",
        "IP",
        "IT",
        "LED",
        "NPU",
        "OK",
        "PC",
        "PDF",
        "SMS",
        "SQL",
        "TV",
        "UK",
        "UN",
        "URL",
        "US",
        "USA",
        "USB",
        "VIP",
        "VPN",
        "WLAN",
        "XML",
        "ZDF",
        "ARD",
        "BMW",
        "SPD",
        "CDU",
        "FDP",
        "EDV",
        "GEZ",
        "LKW",
        "PKW",
        "TÜV",
        "AG",
        "SUV",
        "SDK",
        "IDE",
        "PCB",
        "SSD",
        "FM",
        "AC",
        "DC",
    ]
)
"""Acronyms with vowels that are read letter by letter; those without vowels always are."""


@dataclass(frozen=True)
class Words:
    """The words of a language that rules put in."""

    cardinal: Callable[[int], str]
    point: str
    minus: str
    to: str
    percent: str
    at: str
    dot: str
    slash: str
    dash: str
    underscore: str
    digits: tuple[str, ...]
    units: Mapping[str, tuple[str, str]]
    """Sign -> (one, many)."""
    per: str


def addresses(text: str, words: Words) -> str:
    """URLs and mail addresses, as people say them."""

    def said(match: re.Match[str]) -> str:
        address = match[0].rstrip(".,;:!?)")
        rest = match[0][len(address) :]
        address = re.sub(r"^(?:https?://)?(?:www\.)?", "", address, flags=re.IGNORECASE).split("?")[0].rstrip("/")
        marks = {"@": words.at, ".": words.dot, "/": words.slash, "-": words.dash, "_": words.underscore}
        parts = re.split(r"([@./_-])", address)
        return " ".join(marks.get(part, part) for part in parts if part) + rest

    return _DOMAIN.sub(said, _ADDRESS.sub(said, text))


def acronyms(text: str) -> str:
    """Letter by letter where it has no vowel or is known; others may be words, and espeak-ng knows many."""

    def spelled(match: re.Match[str]) -> str:
        word = match[0]
        if word in _AS_LETTERS or not re.search("[AEIOUYÄÖÜ]", word):
            return ".".join(word)  # espeak-ng says the letters of a word with dots
        return word

    return ACRONYM.sub(spelled, text)


def number(text: str, words: Words, point: str) -> str:
    """A number as it is written: sign, separators of thousands, decimals."""
    thousands = "," if point == "." else "."
    sign = f"{words.minus} " if text[:1] in "-−" else ""
    whole, _, decimals = text.lstrip("+-−").replace(thousands, "").partition(point)
    if len(whole) > 15 or (len(whole) > 1 and whole[0] == "0" and not decimals):
        said = digits(whole, words)
    else:
        said = words.cardinal(int(whole or 0))
    return sign + said + (f" {words.point} {digits(decimals, words)}" if decimals else "")


def digits(text: str, words: Words) -> str:
    """One after the other."""
    return " ".join(words.digits[int(digit)] for digit in text if digit.isdecimal())


def is_one(text: str) -> bool:
    """Whether a unit behind the number is a single one."""
    return text.lstrip("+-−") == "1"


def unit_pattern(words: Words, figure: str) -> re.Pattern[str]:
    """A number and a unit, or a unit per another."""
    names = "|".join(re.escape(name) for name in sorted(words.units, key=len, reverse=True))
    return re.compile(rf"({figure})\s?({names})(?:/({names}))?(?![\w/])")


def units(text: str, words: Words, figure: str, point: str) -> str:
    """`5 km/h` in words."""

    def said(match: re.Match[str]) -> str:
        one, many = words.units[match[2]]
        per = f" {words.per} {words.units[match[3]][0]}" if match[3] else ""
        return f"{number(match[1], words, point)} {one if is_one(match[1]) else many}{per}"

    return unit_pattern(words, figure).sub(said, text)
