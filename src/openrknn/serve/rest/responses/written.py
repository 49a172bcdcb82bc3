"""Output items of a response, and the events that tell a client about them while they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openrknn.llm.generation.events import Statistics
from openrknn.llm.generation.toolcalls import ToolCall
from openrknn.serve.llm.words import Row
from openrknn.serve.rest.generating import logprob_words, usage
from openrknn.serve.rest.responses.items import Item, new_id
from openrknn.serve.rest.told import Told

__all__ = ["Written"]

Event = dict[str, Any]


@dataclass(slots=True)
class Written:
    """What the model wrote so far."""

    told: Told
    has_logprobs: bool = False
    as_summary: bool = False
    """Thoughts come as the summary that the client asked for: all of them, unchanged."""
    items: list[Item] = field(default_factory=list)
    finish: str | None = None
    statistics: Statistics = field(default_factory=Statistics)
    _open: Item | None = None

    def take(self, row: Row) -> list[Event]:
        """The events of one row, without their numbers."""
        thoughts = self.told.thought_tokens
        part = self.told.take(row)
        events: list[Event] = []
        if part.thought:
            events += self._begin("reasoning")
            events += self._thought(part.thought)
        piece = row.piece if self.has_logprobs and self.told.thought_tokens == thoughts else None
        if part.text or (piece is not None and self._is_open("message")):
            events += self._begin("message")
            events += self._text(part.text, [] if piece is None else [logprob_words(piece)])
        for call in part.calls:
            events += self._end("completed")
            events += self._call(call)
        if row.finish is not None:
            self.finish, self.statistics = row.finish, row.statistics or Statistics()
            if not self.items:  # clients expect a message, also an empty one
                events += self._begin("message")
            events += self._end("incomplete" if row.finish == "length" else "completed")
        return events

    def stop(self) -> None:
        """Nothing comes any more: it was cancelled, or the model failed."""
        self._end("incomplete")

    def usage(self) -> dict[str, Any]:
        """Tokens, with the names of this interface."""
        words = usage([self.statistics])
        return {
            "input_tokens": words["prompt_tokens"],
            "input_tokens_details": {**words["prompt_tokens_details"], "cache_write_tokens": 0},
            "output_tokens": words["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": self.told.thought_tokens},
            "total_tokens": words["total_tokens"],
        }

    # -- items ---------------------------------------------------------------------------------------------------

    def _is_open(self, kind: str) -> bool:
        return self._open is not None and self._open["type"] == kind

    def _begin(self, kind: str) -> list[Event]:
        if self._is_open(kind):
            return []
        events = self._end("completed")
        item: Item = {"id": new_id(kind), "type": kind, "status": "in_progress"}
        item |= {"role": "assistant", "content": []} if kind == "message" else {"summary": [], "content": []}
        self.items.append(item)
        self._open = item
        events.append(self._about("response.output_item.added", item=_copy(item)))
        if kind == "message":
            part: Item = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item["content"].append(part)
            events.append(self._about("response.content_part.added", item, content_index=0, part=_copy(part)))
        elif self.as_summary:
            part = {"type": "summary_text", "text": ""}
            item["summary"].append(part)
            events.append(self._about("response.reasoning_summary_part.added", item, summary_index=0, part=_copy(part)))
        else:
            part = {"type": "reasoning_text", "text": ""}
            item["content"].append(part)
            events.append(self._about("response.content_part.added", item, content_index=0, part=_copy(part)))
        return events

    def _thought(self, text: str) -> list[Event]:
        item = self.items[-1]
        if self.as_summary:
            item["summary"][0]["text"] += text
            return [self._about("response.reasoning_summary_text.delta", item, summary_index=0, delta=text)]
        item["content"][0]["text"] += text
        return [self._about("response.reasoning_text.delta", item, content_index=0, delta=text)]

    def _text(self, text: str, logprobs: list[Item]) -> list[Event]:
        item = self.items[-1]
        item["content"][0]["text"] += text
        item["content"][0]["logprobs"] += logprobs
        return [self._about("response.output_text.delta", item, content_index=0, delta=text, logprobs=logprobs)]

    def _call(self, call: ToolCall) -> list[Event]:
        """Calls are sent when they are complete: until then they could be text."""
        item: Item = {
            "id": new_id("function_call"), "type": "function_call", "status": "in_progress", "name": call.name,
            "call_id": new_id("call"), "arguments": "",
        }  # fmt: skip
        self.items.append(item)
        events = [self._about("response.output_item.added", item=_copy(item))]
        item |= {"arguments": call.arguments, "status": "completed"}
        events.append(self._about("response.function_call_arguments.delta", item, delta=call.arguments))
        events.append(
            self._about("response.function_call_arguments.done", item, arguments=call.arguments, name=call.name)
        )
        return [*events, self._about("response.output_item.done", item=_copy(item))]

    def _end(self, status: str) -> list[Event]:
        item = self._open
        if item is None:
            return []
        self._open = None
        item["status"] = status
        if item["type"] == "message":
            (part,) = item["content"]
            events = [
                self._about(
                    "response.output_text.done", item, content_index=0, text=part["text"], logprobs=part["logprobs"]
                ),
                self._about("response.content_part.done", item, content_index=0, part=_copy(part)),
            ]
        elif item["summary"]:
            (part,) = item["summary"]
            events = [
                self._about("response.reasoning_summary_text.done", item, summary_index=0, text=part["text"]),
                self._about("response.reasoning_summary_part.done", item, summary_index=0, part=_copy(part)),
            ]
        else:
            (part,) = item["content"]
            events = [
                self._about("response.reasoning_text.done", item, content_index=0, text=part["text"]),
                self._about("response.content_part.done", item, content_index=0, part=_copy(part)),
            ]
        return [*events, self._about("response.output_item.done", item=_copy(item))]

    def _about(self, kind: str, item_of: Item | None = None, **more: Any) -> Event:
        identity = {} if item_of is None else {"item_id": item_of["id"]}
        return {"type": kind, "output_index": len(self.items) - 1, **identity, **more}


def _copy(item: Item) -> Item:
    """As it is now: items go on changing, and events are written later."""
    return {name: [dict(one) for one in value] if isinstance(value, list) else value for name, value in item.items()}
