"""`open_model`: from a file to a `LanguageModel` that generates, chats and embeds."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

from openrknn.llm.files import FileSource, open_weights
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.model import Details, LanguageModel
from openrknn.llm.generation.speculation import Speculation
from openrknn.llm.home import find_model
from openrknn.llm.reference import ReferenceEngine
from openrknn.llm.templates import ChatTemplate
from openrknn.llm.tokens import open_tokenizer

__all__ = ["REFERENCE_NOTICE", "open_model"]

REFERENCE_NOTICE = "float reference on the CPU: not the NPU"


def open_model(
    where: str | os.PathLike[str],
    *,
    device: str = "auto",
    sequences: int = 8,
    capacity: int | None = None,
    drafts: int = 0,
) -> LanguageModel:
    """Open a GGUF file, a folder of Hugging Face, or the name of a model at home.

    `sequences` are computed together, `capacity` is how many tokens a conversation may have, `drafts` how many tokens
    n-grams propose at a time. Weights run in float on the CPU: `details.notice` says so.
    """
    del device  # the reference has none
    path = find_model(where)
    source = open_weights(path, context=capacity)
    vocabulary = open_tokenizer(path)
    engine = ReferenceEngine(source, capacity=capacity)
    speculation = Speculation.ngrams(drafts) if drafts else None
    generator = Generator(engine, vocabulary, most_sequences=sequences, speculation=speculation)
    template = ChatTemplate.of(vocabulary) if vocabulary.template else None
    details = Details(
        path.name.removesuffix(".gguf"), source.config.architecture, parameters(source), source.config.context,
        _size(path), "safetensors" if path.is_dir() else "gguf", _most_used(source),
        notice=REFERENCE_NOTICE, template=vocabulary.template or "", pooling=source.config.pooling,
    )  # fmt: skip
    return LanguageModel(details, generator, template=template, embedder=engine)


def parameters(source: FileSource) -> int:
    """Numbers in all weights."""
    return sum(math.prod(source.shape(name)) for name in source.names())


def _most_used(source: FileSource) -> str:
    """The number format that most numbers have."""
    counts: Counter[str] = Counter()
    for name, form in source.formats().items():
        counts[form] += math.prod(source.shape(name))
    return counts.most_common(1)[0][0] if counts else ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(one.stat().st_size for one in path.iterdir() if one.is_file())
