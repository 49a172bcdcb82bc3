"""Folders of Hugging Face: `model.safetensors` (also in parts), or `pytorch_model.bin` as a zip of pickles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from openrknn.errors import RknnError
from openrknn.llm.files.jsonfile import read_object
from openrknn.llm.files.safetensors import INDEX, WHOLE, folder_tensors
from openrknn.llm.files.types import to_floats
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.pickled import read_state
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint
from openrknn.voice.make.whisper.names import renamed

PICKLED = "pytorch_model.bin"
_MOST_PAIRS = 2000


def read(folder: Path) -> Checkpoint:
    """With the numbers of heads in `config.json` and the heads for times in `generation_config.json`."""
    try:
        if (folder / INDEX).is_file() or (folder / WHOLE).is_file():
            arrays: dict[str, Array] = {
                name: to_floats(one.data, one.form, one.shape[-1]).reshape(one.shape)
                for name, one in folder_tensors(folder).items()
            }
        else:
            arrays = {name: np.asarray(value, np.float32) for name, value in read_state(folder / PICKLED).items()}
    except RknnError as error:
        raise VoiceSetError(f"{folder}: {error}") from error
    return Checkpoint(renamed(arrays), folder.name, alignment=alignment(folder), heads=heads(folder)).checked()


def settings(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of the folder, or nothing where there is none."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        return read_object(path)
    except RknnError as error:
        raise VoiceSetError(f"{path}: {error}") from error


def heads(folder: Path) -> tuple[int, int]:
    """Of encoder and decoder; 0 where nothing says it."""
    row = settings(folder, "config.json")
    found = []
    for key in ("encoder_attention_heads", "decoder_attention_heads"):
        value = row.get(key, 0)
        if type(value) is not int or not 0 <= value <= 256:
            raise VoiceSetError(f"{folder / 'config.json'}: {key} is {value!r:.40}")
        found.append(value)
    return found[0], found[1]


def alignment(folder: Path) -> tuple[tuple[int, int], ...]:
    """(layer, head) that follow the words, if a file has them."""
    for name in ("generation_config.json", "config.json"):
        pairs = settings(folder, name).get("alignment_heads")
        if pairs:
            usable = (
                isinstance(pairs, list)
                and len(pairs) <= _MOST_PAIRS
                and all(
                    isinstance(pair, list)
                    and len(pair) == 2
                    and all(type(one) is int and 0 <= one < 256 for one in pair)
                    for pair in pairs
                )
            )
            if not usable:
                raise VoiceSetError(f"{folder / name}: alignment_heads is no list of pairs: {pairs!r:.60}")
            return tuple((pair[0], pair[1]) for pair in pairs)
    return ()
