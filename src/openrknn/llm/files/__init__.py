"""Weights out of GGUF files and Hugging Face folders.

open_weights      path -> a `WeightSource` with canonical names
"""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.llm.files.folder_model import open_folder
from openrknn.llm.files.gguf import GgufFile
from openrknn.llm.files.gguf_model import open_gguf
from openrknn.llm.files.source import FileSource

__all__ = ["FileSource", "open_weights"]


def open_weights(path: str | os.PathLike[str], *, context: int | None = None) -> FileSource:
    """A GGUF file (of a split one: the first part), or a folder with config.json and safetensors.

    Nothing but descriptions is read yet. `context`: positions that will be used. It matters for models with two sets of
    rotary divisors (Phi-3 "128k"): without it, or up to the original context, they have the set for short texts and
    `config.context` is that original context.
    """
    found = Path(path)
    if found.is_dir():
        return open_folder(found, context)
    return open_gguf(GgufFile(found), context)
