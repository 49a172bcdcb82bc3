"""Text to phonemes: by espeak-ng for most voices, letter by letter for voices of the type `text`."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Sequence

from openrknn.voice.errors import PhonemeError
from openrknn.voice.piper.clauses import Clause, clauses_of
from openrknn.voice.piper.config import PiperConfig

__all__ = ["espeak_lines", "phonemes_of"]

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
