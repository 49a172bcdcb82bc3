"""`truncation: auto`: the oldest messages of a conversation are left out until the rest fits into the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrknn.serve.errors import BadRequestError, ModelFailedError
from openrknn.serve.llm.language import Language

__all__ = ["count_tokens", "truncated"]

Message = dict[str, Any]


async def count_tokens(language: Language, client: str, messages: Sequence[Message], **more: Any) -> int:
    """Of the whole prompt, as the chat template writes it."""
    answer = await language.ask("tokenize", client, messages=list(messages), **more)
    tokens = answer.get("tokens")
    if not isinstance(tokens, list):
        raise ModelFailedError("the model counted no tokens")
    return len(tokens)


async def truncated(
    language: Language, client: str, messages: list[Message], most_tokens: int | None, **more: Any
) -> list[Message]:
    """Instructions at the beginning stay, and so does the last message.

    A quarter of the context is left for the answer, or what the request asks for, up to a half.
    """
    capacity = language.card.capacity
    room = capacity - min(most_tokens or capacity // 4, capacity // 2)
    head = next((number for number, one in enumerate(messages) if one["role"] != "system"), len(messages))
    # The output of a tool does not stand without its call.
    starts = [number for number in range(head, len(messages)) if messages[number]["role"] != "tool"] or [head]
    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        rest = [*messages[:head], *messages[starts[middle] :]]
        if await count_tokens(language, client, rest, **more) <= room:
            high = middle
        else:
            low = middle + 1
    rest = [*messages[:head], *messages[starts[low] :]]
    if low and low == len(starts) - 1 and await count_tokens(language, client, rest, **more) > capacity:
        raise BadRequestError(
            f"the last message alone does not fit into the context of {capacity} tokens"
        ).about("input", "context_length_exceeded")  # fmt: skip
    return rest
