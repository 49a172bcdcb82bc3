"""What a request for a response asks, as a request to a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from openrknn.llm.generation.request import Request
from openrknn.serve.errors import BadRequestError
from openrknn.serve.llm.language import Language
from openrknn.serve.rest.asked import Tools, format_of, generation_request, template_options, tools_of
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.known_fields import RESPONSE_REASONING, RESPONSE_TEXT, RESPONSES, check_known
from openrknn.serve.rest.responses.items import Item, messages_of_items, new_id, read_items
from openrknn.serve.rest.responses.store import Store
from openrknn.serve.rest.responses.written import Written
from openrknn.serve.rest.told import Told

__all__ = ["Asked", "read_asked"]

_MANY = 1_000_000
_MOST_TOP = 20
_MOST_METADATA = 16
_LOGPROBS = "message.output_text.logprobs"
_INCLUDES = (_LOGPROBS, "reasoning.encrypted_content")
"""The second is taken: thoughts are not hidden here, so there is nothing to encrypt."""
_SUMMARIES = ("auto", "concise", "detailed")
_TOOL = ("type", "name", "description", "parameters", "strict")


@dataclass(slots=True)
class Asked:
    """One request."""

    language: Language
    input: tuple[Item, ...]
    """With the items of the responses before."""
    instructions: str
    tools: Tools
    options: dict[str, Any]
    """Variables of the chat template."""
    request: Request
    most_tokens: int | None
    truncates: bool
    is_stored: bool
    is_background: bool
    is_stream: bool
    most_calls: int | None
    has_logprobs: bool
    as_summary: bool
    shown: dict[str, Any]
    """The fields of the request that are fields of its response."""
    identity: str = field(default_factory=lambda: new_id("resp"))
    created: float = field(default_factory=time.time)

    def messages(self) -> list[dict[str, Any]]:
        """For the chat template."""
        return messages_of_items(self.input, self.instructions)

    def written(self) -> Written:
        """Where its answer goes."""
        told = Told(self.tools.names, self.most_calls, self.request.constraint is not None)
        return Written(told, self.has_logprobs, self.as_summary)

    def words(self, status: str, written: Written | None = None, **more: Any) -> dict[str, Any]:
        """The response as it is now."""
        is_done = written is not None and written.finish is not None
        reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self.identity, "object": "response", "created_at": self.created, "status": status, "error": None,
            "incomplete_details": reason, "completed_at": time.time() if status == "completed" else None,
            "output": [] if written is None else written.items, **self.shown,
            "usage": written.usage() if written is not None and is_done else None, **more,
        }  # fmt: skip


def read_asked(fields: Fields, find: Callable[[Any], Language], store: Store) -> Asked:
    """Checked; what cannot be done here is named."""
    check_known(fields, RESPONSES)
    language = find(fields.raw("model") or "")
    text, reasoning = fields.inside("text"), fields.inside("reasoning")
    check_known(text, RESPONSE_TEXT, "text.")
    check_known(reasoning, RESPONSE_REASONING, "reasoning.")
    tools = _tools(fields)
    constraint = tools.constraint or format_of(_response_format(text))
    logprobs = _logprobs(fields)
    most = fields.integer("max_output_tokens", None, 1, _MANY)
    summary = reasoning.raw("summary") or reasoning.raw("generate_summary")
    if summary is not None and summary not in _SUMMARIES:
        raise BadRequestError(f"'reasoning.summary' is {', '.join(_SUMMARIES)}, not {summary!r:.40}")
    truncation = fields.text("truncation", "disabled")
    if truncation not in ("auto", "disabled"):
        raise BadRequestError(f"'truncation' is auto or disabled, not {truncation!r:.40}")
    is_stream, is_background = fields.flag("stream"), fields.flag("background")
    is_stored = fields.flag("store", default=True)
    _check_flags(fields, is_stream=is_stream, is_background=is_background, is_stored=is_stored)
    previous = fields.raw("previous_response_id")
    before = _before(previous, store)
    wanted = generation_request(fields, most=most, logprobs=logprobs, constraint=constraint)
    parallel = fields.flag("parallel_tool_calls", default=True)
    shown = {
        "model": language.name, "instructions": fields.raw("instructions"), "max_output_tokens": most,
        "previous_response_id": previous, "temperature": wanted.sampling.temperature, "top_p": wanted.sampling.top_p,
        "tools": fields.raw("tools") or [], "tool_choice": fields.raw("tool_choice") or "auto",
        "parallel_tool_calls": parallel, "metadata": _metadata(fields), "background": is_background,
        "truncation": truncation, "store": is_stored, "top_logprobs": logprobs or 0,
        "reasoning": {"effort": reasoning.raw("effort"), "summary": summary},
        "text": {"format": text.raw("format") or {"type": "text"}, "verbosity": "medium"},
        "user": fields.raw("user"), "safety_identifier": fields.raw("safety_identifier"),
        "prompt_cache_key": fields.raw("prompt_cache_key"), "service_tier": "default",
    }  # fmt: skip
    return Asked(
        language, (*before, *read_items(fields.raw("input"), store.item)), fields.text("instructions"), tools,
        template_options(fields, language, reasoning.raw("effort"), "reasoning.effort"), wanted, most,
        truncation == "auto", is_stored, is_background, is_stream, None if parallel else 1, logprobs is not None,
        summary is not None, shown,
    )  # fmt: skip


def _check_flags(fields: Fields, *, is_stream: bool, is_background: bool, is_stored: bool) -> None:
    if fields.raw("stream_options") is not None and not is_stream:
        raise BadRequestError("'stream_options' is for answers with 'stream': true")
    if is_background and is_stream:
        raise BadRequestError("'background' and 'stream' cannot be combined here: retrieve the response by its id")
    if is_background and not is_stored:
        raise BadRequestError("'background' needs 'store': the response is asked for later")


def _before(previous: Any, store: Store) -> tuple[Item, ...]:
    if previous is None:
        return ()
    found = store.find(previous)
    status = found.words["status"]
    if status not in ("completed", "incomplete"):
        raise BadRequestError(f"'previous_response_id': {previous} has the status {status}").about(
            "previous_response_id"
        )
    return found.items


def _logprobs(fields: Fields) -> int | None:
    include = fields.raw("include") or []
    if not isinstance(include, list):
        raise fields.wrong("include", "a list")
    for one in include:
        if one not in _INCLUDES:
            raise BadRequestError(f"'include' has {one!r:.80}; there are {' and '.join(_INCLUDES)}")
    count = fields.integer("top_logprobs", 0, 0, _MOST_TOP)
    return count if count or _LOGPROBS in include else None


def _metadata(fields: Fields) -> dict[str, Any]:
    given = fields.inside("metadata").words
    if len(given) > _MOST_METADATA or not all(isinstance(one, str) and len(one) <= 512 for one in given.values()):
        raise BadRequestError(f"'metadata' has up to {_MOST_METADATA} texts of up to 512 characters")
    return dict(given)


def _response_format(text: Fields) -> Fields:
    """text.format, as /v1/chat/completions has it."""
    form = text.inside("format")
    schema = {"schema": form.raw("schema")} if form.raw("type") == "json_schema" else {}
    return Fields({"response_format": {"type": form.raw("type"), "json_schema": schema}})


def _tools(fields: Fields) -> Tools:
    """tools and tool_choice, as /v1/chat/completions has them."""
    given = fields.raw("tools")
    if given is not None and not isinstance(given, list):
        raise fields.wrong("tools", "a list")
    made = [_tool(number, one) for number, one in enumerate(given or [])]
    choice = fields.raw("tool_choice")
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind == "function":
            choice = {"type": "function", "function": {"name": choice.get("name")}}
        elif kind == "allowed_tools":
            made, choice = _allowed(made, choice)
        else:
            raise BadRequestError(f"'tool_choice' is of type {kind!r:.60}; this server has the client's functions only")
    return tools_of(Fields({"tools": made, "tool_choice": choice}))


def _tool(number: int, given: Any) -> dict[str, Any]:
    where = f"tools[{number}]"
    if not isinstance(given, dict):
        raise BadRequestError(f"{where} is not an object")
    if given.get("type") != "function":
        raise BadRequestError(
            f"{where} is of type {given.get('type')!r:.60}; this server has no tools of its own, only functions that "
            "the client calls: leave it out"
        ).about(where, "unsupported_tool")
    function = {name: value for name, value in given.items() if name in _TOOL[1:] and value is not None}
    return {"type": "function", "function": function}


def _allowed(made: list[dict[str, Any]], choice: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    """Of the tools, those that may be called now."""
    tools, mode = choice.get("tools"), choice.get("mode", "auto")
    if mode not in ("auto", "required") or not isinstance(tools, list) or not tools:
        raise BadRequestError("'tool_choice' of type allowed_tools has a mode (auto or required) and tools")
    names = {one.get("name") if isinstance(one, dict) else None for one in tools}
    found = [one for one in made if one["function"].get("name") in names]
    if len(found) != len(names):
        raise BadRequestError("'tool_choice.tools' has functions that are not in 'tools'")
    return found, mode
