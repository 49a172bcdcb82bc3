"""`open_model`: from a file to a `LanguageModel` that generates, chats and embeds."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.llm.compiled_assets import tokenizer_in
from openrknn.llm.config import LanguageConfig
from openrknn.llm.file import is_language, read_language
from openrknn.llm.files import FileSource, open_weights
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.model import Details, LanguageModel
from openrknn.llm.generation.speculation import ModelDrafter, Speculation
from openrknn.llm.home import find_model
from openrknn.llm.ports import makes_embeddings
from openrknn.llm.reference import ReferenceEngine
from openrknn.llm.templates import ChatTemplate
from openrknn.llm.tokens import Tokenizer, open_tokenizer

__all__ = ["REFERENCE_NOTICE", "SLOW_DRAFTS", "SOFTWARE_NOTICE", "open_model"]

REFERENCE_NOTICE = "float reference on the CPU: not the NPU"
SLOW_DRAFTS = "no graph verifies several drafts at once, so they make it slower: compile with --drafts 8"
SOFTWARE_NOTICE = "software NPU: no NPU was found, or another device was asked for"
_DRAFTS = 4
"""Tokens of a draft model at a time."""


def open_model(
    where: str | os.PathLike[str],
    *,
    device: str = "auto",
    sequences: int = 8,
    capacity: int | None = None,
    drafts: int = 0,
    draft_model: str | os.PathLike[str] | None = None,
) -> LanguageModel:
    """Open a compiled model (.rknnz), a GGUF file, a folder of Hugging Face, or the name of a model at home.

    `sequences` are computed together, `capacity` is how many tokens a conversation may have, `drafts` how many tokens
    n-grams propose at a time, or `draft_model`: a smaller model with the same vocabulary (four at a time unless
    `drafts` says otherwise). A compiled model runs on the NPU or on the software NPU (`device`); weights that are not
    compiled run in float on the CPU, and `details.notice` reports it.
    """
    if draft_model is None:
        return _opened(where, device, sequences, capacity, Speculation.ngrams(drafts) if drafts else None)
    draft = _opened(draft_model, device, sequences, None, None)
    try:
        if makes_embeddings(draft.generator.engine.config):
            raise UnsupportedError(f"{draft_model}: it makes embeddings and no text, so that it cannot draft; use a "
                                   "smaller model of the same family")  # fmt: skip
        proposing = Speculation(lambda: ModelDrafter(draft.generator.engine), drafts or _DRAFTS)
        model = _opened(where, device, sequences, capacity, proposing)
    except BaseException:
        draft.close()
        raise
    model.draft = draft
    if not _same_tokens(model.generator, draft.generator):
        model.close()
        raise UnsupportedError(
            f"{draft_model}: its tokens are not those of {where}, so that it cannot draft for it; use a smaller model "
            "of the same family"
        )
    return model


def _same_tokens(model: Generator, draft: Generator) -> bool:
    """Columns of logits mean the same."""
    ours, theirs, size = model.vocabulary, draft.vocabulary, model.vocabulary.size
    if theirs.size != size or draft.engine.config.vocabulary < size:
        return False
    return all(ours.piece(token) == theirs.piece(token) for token in range(size))


def _opened(
    where: str | os.PathLike[str], device: str, sequences: int, capacity: int | None, speculation: Speculation | None
) -> LanguageModel:
    path = find_model(where)
    if path.is_file() and is_language(path):
        return _compiled(path, device, capacity, sequences, speculation)
    if not device.startswith(("auto", "software")):
        raise UnsupportedError(
            f"{path.name} is not compiled, so that it cannot run on {device!r:.60}: "
            "`openrknn llm compile` makes a file for the NPU"
        )
    source = open_weights(path, context=capacity)
    vocabulary = open_tokenizer(path)
    engine = ReferenceEngine(source, capacity=capacity)
    details = Details(
        path.name.removesuffix(".gguf"), source.config.architecture, parameters(source), source.config.context,
        _size(path), "safetensors" if path.is_dir() else "gguf", _most_used(source),
        notice=REFERENCE_NOTICE, template=vocabulary.template or "", pooling=source.config.pooling,
    )  # fmt: skip
    generator = Generator(engine, vocabulary, most_sequences=sequences, speculation=speculation)
    return LanguageModel(details, generator, template=_template(vocabulary), embedder=engine)


def _compiled(
    path: Path, device: str, capacity: int | None, sequences: int, speculation: Speculation | None
) -> LanguageModel:
    from openrknn.llm.embedder import NpuEmbedder
    from openrknn.llm.npu import NpuEngine

    file = read_language(path)
    if capacity is not None and capacity > file.capacity:
        raise UnsupportedError(
            f"{path}: it was compiled for {file.capacity} tokens, fewer than {capacity}; compile it with --context"
        )
    vocabulary = tokenizer_in(file.assets, str(path))
    embedder = NpuEmbedder(file, device) if makes_embeddings(file.config) else None
    engine = embedder or NpuEngine(file, device, batch=None if sequences > 1 else 0)
    config = file.config
    notice = SOFTWARE_NOTICE if engine.session.device.name.startswith("software") else ""
    verifies = any(one.logits and one.tokens > one.sequences == 1 for one in file.graphs)
    if speculation is not None and embedder is None and not verifies:
        notice = f"{notice}; {SLOW_DRAFTS}" if notice else SLOW_DRAFTS
    context = file.capacity if embedder is not None else config.context
    details = Details(
        path.stem, config.architecture, _count(config), context, path.stat().st_size, "rknn",
        f"for {file.target}", notice=notice, template=vocabulary.template or "", pooling=config.pooling,
    )  # fmt: skip
    generator = Generator(engine, vocabulary, most_sequences=sequences, speculation=speculation)
    return LanguageModel(details, generator, template=_template(vocabulary), embedder=embedder)


def _template(vocabulary: Tokenizer) -> ChatTemplate | None:
    return ChatTemplate.of(vocabulary) if vocabulary.template else None


def _count(config: LanguageConfig) -> int:
    """Numbers in the matrices of a model whose weights are compiled."""
    attention = config.width * config.head_size * (2 * config.heads + 2 * config.kv_heads)
    forward = (3 if config.gated else 2) * config.width * config.hidden
    ends = config.vocabulary * config.width * (1 if config.tied_head else 2)
    return config.layers * (attention + forward) + ends


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
