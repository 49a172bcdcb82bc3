"""Recordings with transcripts: LibriSpeech's .trans.txt, a table, JSON lines, or a text file beside each recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openrknn.evaluate.datasets.files import SOUNDS, inside, is_sound, name_in, read_text, walk
from openrknn.evaluate.datasets.tables import Table
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import Dataset, Sample, TextTruth

_LONGEST = 1 << 20


def read_librispeech(folder: Path) -> Dataset | None:
    """SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt with lines "NAME TEXT", and NAME.flac beside it."""
    samples = []
    for path in walk(folder):
        if not path.name.endswith(".trans.txt"):
            continue
        for number, line in enumerate(read_text(path).splitlines(), 1):
            name, _, text = line.strip().partition(" ")
            if not name:
                continue
            where = f"{path}: line {number}"
            files = [inside(path.parent, f"{name}{suffix}", where) for suffix in SOUNDS]
            file = next((one for one in files if one.is_file()), None)
            if file is None:
                raise DatasetError(f"{where}: there is no recording {name} ({', '.join(SOUNDS)}) beside it")
            samples.append(Sample(name_in(folder, file), TextTruth(text), file))
    return Dataset(folder, "LibriSpeech", "speech", tuple(samples)) if samples else None


def read_speech_table(table: Table) -> Dataset:
    """Recordings and text; the files are beside the table, or in clips/, wavs/ or audio/."""
    return speech_dataset(table.path, "table of recordings and text", table.rows)


def speech_dataset(path: Path, kind: str, rows: Sequence[tuple[str, str]]) -> Dataset:
    """Rows of (file, text)."""
    base = path.parent
    first = rows[0][0]
    places = [base / name for name in ("", "clips", "wavs", "audio")]
    root = next((place for place in places if inside(place, first, str(path)).is_file()), None)
    if root is None:
        raise DatasetError(f"{path}: {first!r:.120} is neither beside it nor in clips/, wavs/ or audio/ there")
    samples = tuple(Sample(file, TextTruth(text), inside(root, file, str(path))) for file, text in rows)
    return Dataset(path, kind, "speech", samples)


def read_speech_pairs(folder: Path) -> Dataset | None:
    """Recordings with a text file beside each."""
    sounds = [path for path in walk(folder) if is_sound(path)]
    pairs = [(path, path.with_suffix(".txt")) for path in sounds if path.with_suffix(".txt").is_file()]
    if not pairs:
        return None
    samples = tuple(
        Sample(name_in(folder, path), TextTruth(" ".join(read_text(text, _LONGEST).split())), path)
        for path, text in pairs
    )
    left = len(sounds) - len(pairs)
    notes = (f"{left} recordings have no text file beside them and are left out",) if left else ()
    return Dataset(folder, "recordings and text", "speech", samples, notes=notes)
