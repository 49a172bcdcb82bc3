"""`LanguageModel`: a model that is open, with everything that its file says about chats and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.llm.config import Pooling
from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.generation.generator import Generator
from openrknn.llm.weights import Floats

__all__ = ["Details", "Embedder", "LanguageModel", "Template", "pooled"]


class Template(Protocol):
    """How messages become a prompt."""

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> str:
        """The text up to where the assistant begins to write."""
        ...


class Embedder(Protocol):
    """What gives the rows of the last layer."""

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """[tokens, width], after the last norm."""
        ...


@dataclass(frozen=True, slots=True)
class Details:
    """What is shown about a model."""

    name: str
    architecture: str
    parameters: int
    context: int
    size_bytes: int
    format: str
    """gguf, safetensors or rknn."""
    quantisation: str = ""
    licence: str = ""
    notice: str = ""
    """What is not as it should be: that it does not run on the NPU, for example."""
    template: str = ""
    pooling: Pooling = "none"


class LanguageModel:
    """Generates if it has a generator, chats if it has a template, embeds if it has an embedder."""

    def __init__(
        self,
        details: Details,
        generator: Generator,
        *,
        template: Template | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.details, self.generator, self.template, self._embedder = details, generator, template, embedder
        self.draft: LanguageModel | None = None
        """A smaller model whose engine proposes tokens; closed with this one."""

    @property
    def can_embed(self) -> bool:
        """Whether `embed` works."""
        return self._embedder is not None

    def chat_tokens(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> list[int]:
        """The tokens of a chat."""
        return self.generator.vocabulary.encode(self.chat_prompt(messages, tools, **more))

    def chat_prompt(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> str:
        """The prompt of a chat."""
        if self.template is None:
            raise UnsupportedError(
                f"{self.details.name}: the file has no chat template, so that it is not known how it wants to be "
                "addressed; send a whole prompt instead (/v1/completions, /api/generate with raw)"
            )
        if not messages:
            raise PromptError("there are no messages; give at least one")
        return self.template.render(messages, tools=tools, **more)

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """The rows of the last layer, after the last norm: [tokens, width]."""
        if self._embedder is None:
            raise UnsupportedError(f"{self.details.name}: this engine gives no embeddings")
        if not tokens:
            raise PromptError("there is no text to embed")
        if len(tokens) > self.details.context:
            raise ContextFullError(
                f"the text has {len(tokens)} tokens and the model takes {self.details.context}; split it"
            )
        return self._embedder.hidden(tokens)

    def embed(self, tokens: Sequence[int], pooling: Pooling | None = None) -> Floats:
        """One vector of length 1 for a text."""
        usual = self.details.pooling if self.details.pooling != "none" else "mean"
        return pooled(self.hidden(tokens), pooling or usual)

    def close(self) -> None:
        """Give everything back."""
        self.generator.close()
        if self.draft is not None:
            self.draft.close()


def pooled(rows: Floats, pooling: Pooling) -> Floats:
    """Rows [tokens, width] as one vector of length 1."""
    if pooling == "none":
        raise ValueError("pooling is mean, cls or last")
    whole = rows.astype(np.float64)
    vector = {"mean": lambda: whole.mean(axis=0), "cls": lambda: whole[0], "last": lambda: whole[-1]}[pooling]()
    length = float(np.linalg.norm(vector))
    made: Floats = (vector / length if length > 0 else vector).astype(np.float32)
    return made
