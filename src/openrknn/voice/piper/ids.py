"""Phonemes to the numbers of a voice: beginning, each phoneme with a pad behind it, end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from openrknn.voice.errors import PhonemeError
from openrknn.voice.piper.config import BOS, EOS, PAD, PiperConfig

__all__ = ["ids_of", "pieces"]

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
