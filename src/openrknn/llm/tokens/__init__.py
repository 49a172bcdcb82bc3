"""Text to tokens and back, as the file of a model says.

open_tokenizer    path -> `Tokenizer`
"""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.llm.files.gguf import GgufFile
from openrknn.llm.tokens.folder_tokens import folder_tokenizer
from openrknn.llm.tokens.gguf_tokens import gguf_tokenizer
from openrknn.llm.tokens.tokenizer import Tokenizer, TokenStream

__all__ = ["TokenStream", "Tokenizer", "open_tokenizer"]


def open_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The vocabulary of a GGUF file, or of a folder with tokenizer.json."""
    found = Path(path)
    if found.is_dir():
        return folder_tokenizer(found)
    return gguf_tokenizer(GgufFile(found).metadata)
