"""A language model without weights, for servers: what it writes can be computed again by hand."""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.llm.engine import Cache
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.model import Details, LanguageModel
from openrknn.llm.generation.speculation import Speculation
from openrknn.llm.weights import Floats
from tests.llm.fakes import END, SIZE, FakeEngine, FakeVocabulary, by_hand

CRASH, HANG, SLOW = b"crash", b"hang!", b"slow!"


class FragileEngine(FakeEngine):
    """Prompts can break it. After `SAY:text|` it writes that text and ends; after `slow!` it goes on and on."""

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        text = bytes(token for token in [*cache.tokens, *tokens] if token < 256)
        if CRASH in text:
            ctypes.string_at(0)
        if HANG in text:
            threading.Event().wait()
        if SLOW in text:
            time.sleep(0.01)
        return super().forward(cache, tokens, all_logits=all_logits)

    def logits(self, tokens: Sequence[int]) -> Floats:
        row = super().logits(tokens)
        text = bytes(token for token in tokens if token < 256)
        text = text[max(text.rfind(b"<u>"), 0) :]  # an earlier message is answered already
        at = text.rfind(b"SAY:")
        if SLOW in text:
            row[END] = -20
        if at >= 0 and b"|" in text[at:]:
            said, _, written = text[at + 4 :].partition(b"|")
            written = written.removeprefix(b"</u><a>").removeprefix(b"<think>\n")
            row[:SIZE] = -20
            row[said[len(written)] if len(written) < len(said) else END] = 20
        return row


class FakeTemplate:
    def render(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> str:
        head = f"tools={json.dumps(tools)}" if tools else ""
        head += "".join(f"{key}={value};" for key, value in more.items())
        return head + "".join(f"<{one['role'][0]}>{one['content']}</{one['role'][0]}>" for one in messages) + "<a>"


class ThinkingTemplate(FakeTemplate):
    """Begins a thought, unless it is told not to."""

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> str:
        text = super().render(messages, tools=tools, **more)
        return text + "<think>\n" if more.get("enable_thinking", True) else text


class FakeEmbedder:
    def hidden(self, tokens: Sequence[int]) -> Floats:
        return np.stack([np.array([token, 1, len(tokens)], np.float32) for token in tokens])


def open_fake_language(
    where: str, device: str, sequences: int, drafts: int = 0, draft_model: str | None = None
) -> LanguageModel:
    """For `Server(open_language=...)`; a worker finds it by its name."""
    assert device == "auto"
    name = Path(where).stem
    size = Path(where).stat().st_size
    thinks = name == "thinker"
    source = "{% if enable_thinking %}<think>{% endif %}" if thinks else "{{x}}"
    details = Details(name, "fake", 1234, 512, size, "gguf", "Q4_1", "MIT", "not the NPU", source)
    speculation = Speculation.ngrams(drafts) if drafts else None
    if draft_model is not None:
        draft = FakeEngine()
        speculation = Speculation.model(draft, draft.config.vocabulary, drafts or 4)
    generator = Generator(FragileEngine(), FakeVocabulary(), most_sequences=sequences, speculation=speculation)
    template = ThinkingTemplate() if thinks else FakeTemplate()
    return LanguageModel(details, generator, template=template, embedder=FakeEmbedder())


def greedy(prompt: str, count: int) -> str:
    """What it writes after a prompt at temperature 0."""
    tokens = by_hand(FakeEngine(), list(prompt.encode()), count)
    return b"".join(map(FakeVocabulary().piece, tokens)).decode("utf-8", "replace")


def chat_prompt(*contents: str) -> str:
    """Of a chat with these messages of a user."""
    return FakeTemplate().render([{"role": "user", "content": one} for one in contents])
