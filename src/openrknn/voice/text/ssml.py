"""A subset of SSML 1.1: `speak p s break prosody say-as sub phoneme voice lang`. What is not in it is an error.

The reader is expat without entities: a document type is refused, so nothing can be defined, included or unfolded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from xml.parsers import expat

LARGEST = 1 << 20
_DEEPEST = 32
_LONGEST_BREAK = 60.0
_STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.8, "x-strong": 1.2}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.75}
_VOLUMES = {"silent": -120.0, "x-soft": -12.0, "soft": -6.0, "medium": 0.0, "default": 0.0, "loud": 4.0, "x-loud": 8.0}
_PITCHES = {"x-low": -4.0, "low": -2.0, "medium": 0.0, "default": 0.0, "high": 2.0, "x-high": 4.0}
_ELEMENTS = {
    "speak": {"version", "xml:lang", "xmlns"}, "p": {"xml:lang"}, "s": {"xml:lang"}, "break": {"time", "strength"},
    "prosody": {"rate", "volume", "pitch"}, "say-as": {"interpret-as", "format", "detail"}, "sub": {"alias"},
    "phoneme": {"ph", "alphabet"}, "voice": {"name"}, "lang": {"xml:lang"},
}  # fmt: skip
_SPELLED = ("characters", "spell-out", "verbatim", "digits", "telephone")
_AS_THEY_ARE = ("cardinal", "number", "date", "time", "currency", "unit")
"""Our rules see what these are by themselves."""


class SsmlError(ValueError):
    """The document is not SSML that is understood; the message has the line."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Text with one manner of speaking."""

    text: str
    rate: float = 1.0
    """Times as fast."""
    volume: float = 0.0
    """Decibels."""
    pitch: float = 0.0
    """Semitones."""
    voice: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """Silence."""

    seconds: float


def is_ssml(text: str) -> bool:
    """Whether it is SSML: it begins with `<speak`, or with what only XML has before that (`<?xml`, `<!`)."""
    return re.match(r"\s*<(?:\?xml\b|!--|!DOCTYPE\b|(?:\w+:)?speak(?:[\s/>]|$))", text, re.IGNORECASE) is not None


def parse_ssml(text: str) -> list[Utterance | Break]:
    """Its parts in order."""
    if len(text) > LARGEST:
        raise SsmlError(f"SSML of {len(text)} letters; at most {LARGEST} are read at once")
    reader = _Reader()
    try:
        reader.parser.Parse(text.strip().encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise SsmlError(f"SSML, line {error.lineno}: {expat.ErrorString(error.code)}") from None
    return reader.finished()


class _Reader:
    def __init__(self) -> None:
        # The text is decoded already: what its declaration says of its bytes is over.
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._found: list[Utterance | Break] = []
        self._manners: list[Utterance] = [Utterance("")]
        self._names: list[str] = []
        self._instead: list[str | None] = [None]
        """What is said instead of the text inside an element; None: the text."""
        self._spells: list[str] = [""]

    def _wrong(self, what: str) -> SsmlError:
        return SsmlError(f"SSML, line {self.parser.CurrentLineNumber}: {what}")

    def _doctype(self, *_: object) -> None:
        raise self._wrong("a document type is not read; leave <!DOCTYPE ...> out")

    def _start(self, name: str, given: dict[str, str]) -> None:
        if name not in _ELEMENTS:
            raise self._wrong(f"<{name:.40}> is not understood; these are: {', '.join(_ELEMENTS)}")
        if not self._names and name != "speak":
            raise self._wrong(f"the first element is <speak>, not <{name}>")
        if len(self._names) >= _DEEPEST:
            raise self._wrong(f"more than {_DEEPEST} elements inside each other")
        allowed = _ELEMENTS[name]
        if unknown := [key for key in given if key not in allowed and not key.startswith(("xmlns:", "xsi:"))]:
            raise self._wrong(f"<{name}> takes {', '.join(sorted(allowed))}, and not {unknown[0]!r:.40}")
        if name in ("p", "s"):
            self._say("\n\n")
        if name == "break":
            self._found.append(Break(self._seconds(given)))
        self._names.append(name)
        self._manners.append(self._manner(name, given))
        self._instead.append(self._replaced(name, given))
        spells = self._needed(name, given, "interpret-as") if name == "say-as" else self._spells[-1]
        if spells not in ("", *_SPELLED, *_AS_THEY_ARE, "ordinal"):
            raise self._wrong(
                f"interpret-as {spells!r:.40} is not understood; {', '.join((*_SPELLED, 'ordinal', *_AS_THEY_ARE))}"
            )
        self._spells.append(spells)

    def _manner(self, name: str, given: dict[str, str]) -> Utterance:
        manner = self._manners[-1]
        if language := given.get("xml:lang"):
            manner = replace(manner, language=language[:40])
        if name == "voice":
            return replace(manner, voice=self._needed(name, given, "name"))
        return self._prosody(manner, given) if name == "prosody" else manner

    def _replaced(self, name: str, given: dict[str, str]) -> str | None:
        if name == "sub":
            return self._needed(name, given, "alias")
        if name != "phoneme":
            return self._instead[-1]
        if given.get("alphabet", "ipa") != "ipa":
            raise self._wrong(f"phonemes of the alphabet {given['alphabet']!r:.40}; 'ipa' is understood")
        return f"[[{self._needed(name, given, 'ph').replace('[', '').replace(']', '')}]]"

    def _end(self, name: str) -> None:
        instead = self._instead.pop()
        self._names.pop()
        self._manners.pop()
        self._spells.pop()
        if name in ("sub", "phoneme") and instead is not None:
            self._say(instead)
        if name in ("p", "s"):
            self._say("\n\n")

    def _text(self, text: str) -> None:
        if self._instead[-1] is not None:
            return
        spells = self._spells[-1]
        if spells in _SPELLED:
            text = _spelled(text)
        elif spells == "ordinal":
            text = re.sub(r"\d+", lambda match: match[0] + _ending(int(match[0])), text)
        self._say(text)

    def _say(self, text: str) -> None:
        manner = self._manners[-1]
        last = self._found[-1] if self._found else None
        if isinstance(last, Utterance) and replace(last, text="") == manner:
            self._found[-1] = replace(last, text=last.text + text)
        else:
            self._found.append(replace(manner, text=text))

    def finished(self) -> list[Utterance | Break]:
        return [part for part in self._found if isinstance(part, Break) or part.text.strip()]

    def _needed(self, name: str, given: dict[str, str], key: str) -> str:
        value = given.get(key, "").strip()
        if not value:
            raise self._wrong(f"<{name}> needs {key}")
        return value[:1000]

    def _seconds(self, given: dict[str, str]) -> float:
        if time := given.get("time"):
            match = re.fullmatch(r"\s*\+?(\d+(?:\.\d+)?)(ms|s)\s*", time)
            seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1.0
            if not 0 <= seconds <= _LONGEST_BREAK:
                raise self._wrong(f"a break of {time!r:.40}; 0 to {_LONGEST_BREAK:g}s can be, as 500ms or 1.5s")
            return seconds
        strength = given.get("strength", "medium")
        if strength not in _STRENGTHS:
            raise self._wrong(f"a break of the strength {strength!r:.40}; there are {', '.join(_STRENGTHS)}")
        return _STRENGTHS[strength]

    def _prosody(self, manner: Utterance, given: dict[str, str]) -> Utterance:
        rate = self._one(given.get("rate", "100%"), _RATES, r"(\d+(?:\.\d+)?)(%?)", "rate", "80% or 1.2")
        if isinstance(rate, re.Match):
            rate = float(rate[1]) / (100 if rate[2] else 1)
        volume = self._one(given.get("volume", "medium"), _VOLUMES, r"([+-]?\d+(?:\.\d+)?)dB", "volume", "+6dB")
        if isinstance(volume, re.Match):
            volume = float(volume[1])
        pitch = self._one(given.get("pitch", "medium"), _PITCHES, r"([+-]\d+(?:\.\d+)?)(st|%)", "pitch", "+2st or -10%")
        if isinstance(pitch, re.Match):
            steps = float(pitch[1])
            pitch = steps if pitch[2] == "st" else 12.0 * (steps / 100 if abs(steps) < 50 else 0.5 * steps / abs(steps))
        rate, volume, pitch = manner.rate * rate, manner.volume + volume, manner.pitch + pitch
        if not 0.2 <= rate <= 5 or not -120 <= volume <= 20 or abs(pitch) > 12:
            raise self._wrong("a rate of 20% to 500%, a volume up to +20dB and a pitch of -12st to +12st can be")
        return replace(manner, rate=rate, volume=volume, pitch=pitch)

    def _one(
        self, value: str, names: dict[str, float], pattern: str, what: str, example: str
    ) -> float | re.Match[str]:  # fmt: skip
        if value in names:
            return names[value]
        match = re.fullmatch(pattern, value.strip())
        if match is None:
            raise self._wrong(f"a {what} of {value!r:.40}; write {example}, or {', '.join(names)}")
        return match


def _spelled(text: str) -> str:
    """Letters with dots, which espeak-ng reads by their names; figures one by one."""
    words = []
    for word in text.split():
        marks = [mark.upper() for mark in word if mark.isalnum()]
        joined = "".join(f"{mark}." if mark.isalpha() else f" {mark} " for mark in marks)
        words.append(re.sub(r"\.(?=\s|$)", "", joined))
    return " ".join(" ".join(words).split())


def _ending(value: int) -> str:
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
