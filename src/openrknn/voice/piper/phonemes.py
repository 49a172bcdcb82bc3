"""Text to clauses, phonemes and the numbers of a voice: by espeak-ng, or letter by letter for the type `text`."""

from __future__ import annotations

import importlib
import logging
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from openrknn.voice.errors import PhonemeError
from openrknn.voice.piper.config import BOS, EOS, PAD, PiperConfig
from openrknn.voice.talkers import Said

Phonemise = Callable[[str, str], list[str]]
"""(text, voice of espeak-ng) -> phonemes of its clauses, a line each."""

_RAW = re.compile(r"(\[\[.*?\]\])", re.DOTALL)
_SWITCH = re.compile(r"\([^)]+\)")
"""espeak-ng's mark where words of another language begin and end."""
_SECONDS = 60
_LONGEST = 1 << 20


def phonemes_of(text: str, config: PiperConfig, phonemise: Phonemise | None = None) -> list[list[str]]:
    """Phonemes of each sentence. `[[ phonemes ]]` in the text are taken as they are."""
    if len(text) > _LONGEST:
        raise PhonemeError(f"a text of {len(text)} letters at once is too long; at most {_LONGEST}: stream it by pages")
    if config.phoneme_type == "text":
        sentences = _sentences(clauses_of(text), [clause.text for clause in clauses_of(text)], marked=True)
        return [list(unicodedata.normalize("NFD", sentence)) for sentence in sentences]
    if config.phoneme_type != "espeak":
        raise PhonemeError(
            f"the voice takes phonemes of the type {config.phoneme_type!r}; openrknn makes 'espeak' and 'text'. Give "
            "phonemes yourself: text in [[ ]] is taken as it is"
        )
    found: list[list[str]] = []
    joins = False
    for part in _RAW.split(text):
        if part.startswith("[[") and part.endswith("]]"):
            found = found or [[]]
            found[-1] += list(unicodedata.normalize("NFD", part[2:-2].strip()))
            joins = True
            continue
        spoken = _spoken(part, config, phonemise or espeak_lines)
        if joins and spoken:
            found[-1] += [*([" "] if part[:1].isspace() else []), *spoken.pop(0)]
        found += spoken
        if part.strip():
            joins = False
        if part[-1:].isspace() and found and found[-1] and found[-1][-1] != " " and part is not text:
            found[-1].append(" ")
    return [sentence for sentence in found if any(mark.strip() for mark in sentence)]


def _spoken(text: str, config: PiperConfig, phonemise: Phonemise) -> list[list[str]]:
    clauses = clauses_of(text)
    if not clauses:
        return []
    lines = phonemise(text, config.espeak_voice)
    if len(lines) != len(clauses):
        # The program saw other clauses than we did: each alone, so that no mark goes to the wrong one.
        lines = [" ".join(phonemise(clause.text, config.espeak_voice)) for clause in clauses]
    sentences = _sentences(clauses, [_SWITCH.sub("", line).strip() for line in lines])
    return [_clustered(list(unicodedata.normalize("NFD", sentence)), config) for sentence in sentences]


def _sentences(clauses: Sequence[Clause], lines: Sequence[str], *, marked: bool = False) -> list[str]:
    """Lines of clauses joined to sentences; `marked`: the lines have their marks already."""
    found, parts = [], ""
    for clause, line in zip(clauses, lines, strict=True):
        parts += line + ("" if marked else clause.mark)
        if clause.is_last:
            found.append(parts)
            parts = ""
        else:
            parts += " "
    return [*found, *([parts.rstrip()] if parts.strip() else [])]


def _clustered(phonemes: list[str], config: PiperConfig) -> list[str]:
    """Neighbours that the voice knows as one, the longest first."""
    if not config.clusters:
        return phonemes
    longest = max(map(len, config.clusters))
    found, place = [], 0
    while place < len(phonemes):
        for count in range(min(longest, len(phonemes) - place), 1, -1):
            if tuple(phonemes[place : place + count]) in config.clusters:
                break
        else:
            count = 1
        found.append("".join(phonemes[place : place + count]))
        place += count
    return found


def espeak_lines(text: str, voice: str) -> list[str]:
    """What the program espeak-ng makes of it, one line for each clause."""
    program = shutil.which("espeak-ng") or shutil.which("espeak")
    if program is None:
        return _by_package(text, voice)
    # A mark that switches phoneme mode would let the text choose phonemes; here only [[ ]] of ours does.
    plain = text.replace("\0", " ")
    try:
        done = subprocess.run(
            [program, "-q", "--ipa", "-b", "1", "-v", voice, "--stdin"], input=plain.encode(errors="replace"),
            capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PhonemeError(f"{program} could not be run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise PhonemeError(
            f"{program} does not speak the language {voice!r} of this voice, or failed: {said or done.returncode}; "
            "`espeak-ng --voices` lists what it speaks"
        )
    return [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]


def _by_package(text: str, voice: str) -> list[str]:
    try:
        phonemize_espeak = importlib.import_module("piper_phonemize").phonemize_espeak
    except ImportError:
        raise PhonemeError(
            "neither the program espeak-ng nor the package piper-phonemize is here, and one of them has to say how "
            "words are spoken; install it: apt install espeak-ng (or pip install piper-phonemize)"
        ) from None
    lines: list[str] = []
    for sentence in phonemize_espeak(text, voice):
        clauses = re.split(r"[.!?,;:]\s*", "".join(sentence))
        lines += [clause.strip() for clause in clauses if clause.strip()]
    return lines


_MARKS = dict(zip("。．！？，、；：؟،؛।", "..!?,,;:?,;.", strict=True))
"""Other scripts' marks, as phoneme maps have them."""
_CLOSERS = "\"'”’»)]}›"
_END = re.compile(
    rf"(?P<mark>\.{{2,}}|…|[.!?,;:]+(?=[{re.escape(_CLOSERS)}]*(?:\s|$))|[{''.join(_MARKS)}])"
    rf"[{re.escape(_CLOSERS)}]*|\n\s*\n"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """Some words, and how they end: one of `.!?,;:` or nothing."""

    text: str
    mark: str
    is_last: bool
    """Of its sentence."""


def clauses_of(text: str) -> list[Clause]:
    """Clauses of all sentences, in order; what holds nothing that can be said is left out."""
    found: list[Clause] = []
    start = 0
    for match in _END.finditer(text):
        raw = match["mark"]
        if raw is not None and raw == "." and _goes_on(text, match.end()):
            continue
        mark = _mark(raw)
        end = match.start() if raw is None else match.end()
        _add(found, text[start:end], mark, is_last=raw is None or mark in {".", "!", "?"})
        start = match.end()
    _add(found, text[start:], "", is_last=True)
    return found


def _goes_on(text: str, place: int) -> bool:
    """A dot before a small letter is an abbreviation's: `e.g. this`."""
    rest = text[place:].lstrip(" \t\n")
    return bool(rest) and rest[0].islower()


def _mark(raw: str | None) -> str:
    if raw is None or raw == "…" or raw.startswith(".."):
        return ""
    return _MARKS.get(raw[0], raw[0])


def _add(found: list[Clause], text: str, mark: str, *, is_last: bool) -> None:
    said = " ".join(text.split())
    if any(letter.isalnum() for letter in said):
        found.append(Clause(said, mark, is_last))
    elif found and is_last and not found[-1].is_last:
        found[-1] = Clause(found[-1].text, found[-1].mark or mark, is_last=True)


_LOG = logging.getLogger(__name__)
_SHARE = 0.25
_FEW = 2
"""Of the phonemes may be unknown: a rare sound can be left out, another alphabet cannot."""


def ids_of(phonemes: Sequence[str], config: PiperConfig) -> list[int]:
    """The numbers that the model takes. Phonemes that the voice does not know are left out, as Piper does it."""
    ids, pad = [*config.ids[BOS], *config.ids[PAD]], config.ids[PAD]
    missing: dict[str, int] = {}
    for phoneme in phonemes:
        numbers = config.ids.get(phoneme)
        if numbers is None:
            missing[phoneme] = missing.get(phoneme, 0) + 1
        else:
            ids += [*numbers, *pad]
    said = sum(1 for phoneme in phonemes if phoneme.strip())
    if missing:
        names = ", ".join(f"{name!r} (U+{ord(name[0]):04X})" for name in list(missing)[:8])
        count = sum(missing.values())
        if count == said or count > max(_FEW, _SHARE * said):
            raise PhonemeError(
                f"the voice's phoneme_id_map does not know {count} of {said} phonemes: {names}; the "
                f"map and the phonemes (type {config.phoneme_type!r}, espeak voice {config.espeak_voice!r}) do not go "
                "together: is the config that of this voice?"
            )
        _LOG.warning("phonemes that the voice does not know are left out: %s", names)
    return [*ids, *config.ids[EOS]]


def pieces(phonemes: Sequence[str], config: PiperConfig, longest: int) -> Iterator[list[str]]:
    """A sentence in pieces of at most so many numbers, cut behind a mark or between words where that is possible."""
    widest = max(len(numbers) for numbers in config.ids.values()) + len(config.ids[PAD])
    room = max(1, (longest - 3 * widest) // widest)
    rest = list(phonemes)
    while len(rest) > room:
        places = range(room, room // 2, -1)
        cut = next((place for marks in (";:,", " ") for place in places if rest[place - 1] in marks), room)
        yield rest[:cut]
        rest = rest[cut:]
        while rest and not rest[0].strip():
            rest.pop(0)
    if any(phoneme.strip() for phoneme in rest):
        yield rest


def sentences_of(text: str, config: PiperConfig, longest: int, language: str = "") -> list[Said]:
    """Sentences and their numbers; `language`: a voice of espeak-ng for words of another language."""
    spoken = replace(config, espeak_voice=language) if language else config
    return [
        Said("".join(piece), tuple(ids_of(piece, config)))
        for sentence in phonemes_of(text, spoken)
        for piece in pieces(sentence, config, longest)
    ]
