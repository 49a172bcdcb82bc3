"""Prompts on disk: keys and values of a beginning that many requests share, computed once and loaded later."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from openrknn.errors import BadTextError, FormatError, TruncatedError, UnsupportedError
from openrknn.llm.engine import Cache
from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.generation.model import LanguageModel
from openrknn.wholefiles import write_atomically

__all__ = ["SavingEngine", "load_prompt", "save_prompt"]

Rows = npt.NDArray[Any]
_MAGIC = b"ORKNPRM1"
_DIGEST = slice(8, 40)
_HEAD = slice(40, 48)
_START = 48
_MOST_HEAD = 64 << 20
_TYPES = ("<f2", "<f4")


@runtime_checkable
class SavingEngine(Protocol):
    """An engine whose caches can be taken out and put back: [layers, 2 (keys, values), kv_heads, tokens, head_size]."""

    def rows_of(self, cache: Any) -> Rows:
        """A copy of a cache's rows."""
        ...

    def restore(self, tokens: Sequence[int], rows: Rows) -> Cache:
        """A cache with these rows."""
        ...


def save_prompt(model: LanguageModel, prompt: Sequence[int], path: str | os.PathLike[str]) -> None:
    """Write keys and values of a prompt. The file belongs to this model in this form.

    Of what a request before has computed, nothing is computed again; the rest is, and is a prefix for requests to come.
    """
    engine = _engine(model)
    if not prompt:
        raise PromptError("there is no prompt to keep")
    if len(prompt) > model.generator.engine.capacity:
        raise ContextFullError(
            f"the prompt has {len(prompt)} tokens and the context holds {model.generator.engine.capacity}"
        )
    prefixes = model.generator.scheduler.prefixes
    held = prefixes.holding(prompt)
    if held is not None:
        rows = np.ascontiguousarray(engine.rows_of(held))
        held.close()
    else:
        cache, done = prefixes.take(prompt)
        try:
            model.generator.engine.forward(cache, list(prompt[done:]))
            rows = np.ascontiguousarray(engine.rows_of(cache))
        except BaseException:
            cache.close()
            raise
        prefixes.give(prompt, cache)
    rows = rows.astype(rows.dtype.newbyteorder("<"))
    head = json.dumps(
        {"model": _identity(model), "tokens": list(prompt), "shape": rows.shape, "type": rows.dtype.str}
    ).encode()
    body = len(head).to_bytes(8, "little") + head + rows.tobytes()
    write_atomically(Path(path), _MAGIC + hashlib.sha256(body).digest() + body)


def load_prompt(model: LanguageModel, path: str | os.PathLike[str]) -> int:
    """Put a prompt among the prefixes of the model's generator; how many tokens it has."""
    engine = _engine(model)
    data = memoryview(Path(path).read_bytes())
    if len(data) < _START or bytes(data[:8]) != _MAGIC:
        raise FormatError(f"{path}: this is no prompt that `save_prompt` wrote")
    if hashlib.sha256(data[40:]).digest() != bytes(data[_DIGEST]):
        raise FormatError(f"{path}: the prompt is damaged (SHA-256); make it again")
    size = int.from_bytes(data[_HEAD], "little")
    if size > min(_MOST_HEAD, len(data) - _START):
        raise TruncatedError(f"{path}: the prompt ends inside its head")
    tokens, shape, kind = _head(bytes(data[_START : _START + size]), model, str(path))
    rows = np.frombuffer(data[_START + size :], kind)
    if rows.size != int(np.prod(shape)):
        raise TruncatedError(f"{path}: {rows.size} numbers are there and {int(np.prod(shape))} were announced")
    model.generator.scheduler.prefixes.give(tokens, engine.restore(tokens, rows.reshape(shape).copy()))
    return len(tokens)


def _head(text: bytes, model: LanguageModel, path: str) -> tuple[list[int], tuple[int, ...], str]:
    try:
        words = json.loads(text)
        name, tokens, shape, kind = words["model"], words["tokens"], tuple(words["shape"]), words["type"]
        is_right = all(type(one) is int and one >= 0 for one in (*tokens, *shape)) and kind in _TYPES
    except (ValueError, KeyError, TypeError, RecursionError):
        is_right = False
    if not is_right:
        raise BadTextError(f"{path}: the head of the prompt is not one that `save_prompt` wrote")
    if name != _identity(model):
        raise PromptError(f"{path}: this prompt was computed by {name!r:.120}, and this is {_identity(model)!r:.120}")
    engine = model.generator.engine
    config = engine.config
    wanted = (config.layers, 2, config.kv_heads, len(tokens), config.head_size)
    if shape != wanted or not 0 < len(tokens) <= engine.capacity or max(tokens) >= config.vocabulary:
        raise PromptError(f"{path}: the prompt has the shape {shape}, and this model takes {wanted}")
    return tokens, shape, kind


def _engine(model: LanguageModel) -> SavingEngine:
    engine = model.generator.engine
    if not isinstance(engine, SavingEngine):
        raise UnsupportedError(f"{model.details.name}: the caches of this engine cannot be written")
    return engine


def _identity(model: LanguageModel) -> str:
    details = model.details
    return f"{details.name} {details.format} {details.architecture} {details.quantisation} {details.size_bytes}"
