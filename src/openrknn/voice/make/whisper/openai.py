"""OpenAI's own files (`tiny.en.pt`): a zip with a pickle, read without running it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.pickled import read_tree
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint

_LARGEST = 1 << 33


def read(path: Path) -> Checkpoint:
    """`dims` and `model_state_dict`."""
    tree = read_tree(path, _LARGEST)
    dims, state = tree.get("dims"), tree.get("model_state_dict")
    if not isinstance(dims, dict) or not isinstance(state, dict):
        raise VoiceSetError(f"{path}: no checkpoint of OpenAI's Whisper: it has {', '.join(list(tree)[:4])}")
    arrays: dict[str, Array] = {
        str(name): np.asarray(value, np.float32) for name, value in state.items() if isinstance(value, np.ndarray)
    }
    heads = tuple(dims.get(name) for name in ("n_audio_head", "n_text_head"))
    if not all(isinstance(head, int) and 0 < head <= 256 for head in heads):
        raise VoiceSetError(f"{path}: the numbers of heads are {heads!r:.60}")
    return Checkpoint(arrays, path.name, heads=(int(heads[0] or 0), int(heads[1] or 0))).checked()
