"""OpenAI requests to language models, converted to openrknn's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.llm.generation.constraint import Constraint
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.thinking import can_think
from openrknn.llm.generation.toolcalls import tool_schema
from openrknn.serve.errors import BadRequestError
from openrknn.serve.llm.language import Language
from openrknn.serve.llm.words import request_words
from openrknn.serve.rest.fields import Fields

__all__ = [
    "MOST_CHOICES", "Tools", "chat_logprobs", "choice_words", "format_of", "generation_request", "messages_of",
    "sampling_of", "template_options", "thinking_options", "tools_of",
]  # fmt: skip

MOST_CHOICES = 16
_MOST_STOPS = 16
_MOST_TOP = 20
_MOST_TOOLS = 128
_MOST_SEED = 2**63
_MANY = 1_000_000
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def sampling_of(fields: Fields) -> Sampling:
    """Temperature and the rest; top_k, min_p and repetition_penalty as other servers have them."""
    return Sampling(
        temperature=fields.number("temperature", 1.0, 0.0, 2.0),
        top_p=fields.number("top_p", 1.0, 0.0, 1.0),
        top_k=max(0, fields.integer("top_k", 0, -1, _MANY)),
        min_p=fields.number("min_p", 0.0, 0.0, 1.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.01, 100.0),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        bias=_bias(fields),
        seed=fields.integer("seed", None, -_MOST_SEED, _MOST_SEED),
    )


def _bias(fields: Fields) -> dict[int, float]:
    given = fields.inside("logit_bias")
    found = {}
    for key in given.words:
        if not key.isascii() or not key.isdigit() or len(key) > 9:
            raise BadRequestError(f"'logit_bias' has tokens by their numbers, not {key!r:.40}")
        found[int(key)] = given.number(key, 0.0, -100.0, 100.0)
    return found


def generation_request(
    fields: Fields, *, most: int | None, logprobs: int | None, constraint: Constraint | None = None
) -> Request:
    """How the text goes on."""
    return Request(
        sampling=sampling_of(fields),
        max_tokens=most,
        stop=fields.texts("stop", _MOST_STOPS),
        ignore_end=fields.flag("ignore_eos"),
        logprobs=logprobs,
        constraint=constraint,
    )


def chat_logprobs(fields: Fields) -> int | None:
    """How many alternatives; None: no log-probabilities."""
    count = fields.integer("top_logprobs", 0, 0, _MOST_TOP)
    if fields.flag("logprobs"):
        return count
    if count:
        raise BadRequestError("'top_logprobs' needs 'logprobs': true")
    return None


def choice_words(request: Request, number: int) -> dict[str, Any]:
    """A request for choice `number` of several: a seed of its own."""
    words = request_words(request)
    if request.sampling.seed is not None:
        words["sampling"]["seed"] = request.sampling.seed + number
    return words


# -- messages --------------------------------------------------------------------------------------------------------


def messages_of(fields: Fields) -> list[dict[str, Any]]:
    """Checked and simplified: contents are texts, arguments of calls are objects, as templates expect them."""
    given = fields.raw("messages")
    if not isinstance(given, list) or not given:
        raise BadRequestError("'messages' is a list of at least one message")
    return [_message(number, one) for number, one in enumerate(given)]


def _message(number: int, given: Any) -> dict[str, Any]:
    where = f"messages[{number}]"
    if not isinstance(given, dict):
        raise BadRequestError(f"{where} is not an object")
    role = given.get("role")
    if role not in _ROLES:
        raise BadRequestError(f"{where} has the role {role!r:.40}; roles are {', '.join(_ROLES)}")
    made: dict[str, Any] = {
        "role": "system" if role == "developer" else role, "content": _content(where, given.get("content"))
    }  # fmt: skip
    for name in ("images", "audio", "function_call"):
        if given.get(name):
            hint = "send 'tool_calls'" if name == "function_call" else "this server takes text only"
            raise BadRequestError(f"{where} has {name!r}; {hint}")
    for name in ("name", "tool_call_id", "tool_name"):
        if isinstance(given.get(name), str):
            made[name] = given[name]
    thought = given.get("reasoning_content") or given.get("thinking")
    if isinstance(thought, str) and thought:
        made["reasoning_content"] = thought  # the name in templates
    if given.get("tool_calls"):
        made["tool_calls"] = _calls(where, given["tool_calls"])
    return made


def _content(where: str, content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequestError(f"{where}.content is a text or a list of parts")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise BadRequestError(f"{where}.content has a part of type {kind!r:.40}; this server takes text only")
        texts.append(part["text"])
    return "".join(texts)


def _calls(where: str, calls: Any) -> list[dict[str, Any]]:
    found = []
    for call in calls if isinstance(calls, list) else [{}]:
        function: Any = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequestError(f"{where}.tool_calls is a list of calls with a function and its name")
        arguments = function.get("arguments", {})
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                raise BadRequestError(f"{where}.tool_calls has arguments that are not JSON") from None
        row = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
        if isinstance(call.get("id"), str):
            row["id"] = call["id"]
        found.append(row)
    return found


# -- tools and formats -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tools:
    """What the model may call; `constraint` where it has to."""

    given: tuple[Mapping[str, Any], ...] = ()
    names: tuple[str, ...] = ()
    constraint: Constraint | None = None


def tools_of(fields: Fields) -> Tools:
    """tools and tool_choice."""
    given = fields.raw("tools")
    if given is None or given == []:
        if fields.raw("tool_choice") not in (None, "none", "auto"):
            raise BadRequestError("'tool_choice' needs 'tools'")
        return Tools()
    if not isinstance(given, list) or len(given) > _MOST_TOOLS:
        raise BadRequestError(f"'tools' is a list of up to {_MOST_TOOLS} functions")
    for number, tool in enumerate(given):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise BadRequestError(f"tools[{number}] has no function with a name")
        if not isinstance(function.get("parameters", {}), dict | None):
            raise BadRequestError(f"tools[{number}].function.parameters is a JSON schema")
    names = tuple(tool["function"]["name"] for tool in given)
    choice = fields.raw("tool_choice")
    if choice == "none":
        return Tools()
    if choice in (None, "auto"):
        return Tools(tuple(given), names)
    if choice == "required":
        return Tools(tuple(given), names, Constraint.json_schema(tool_schema(given)))
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in names:
        there = ", ".join(names)[:200]
        raise BadRequestError(f"'tool_choice' is none, auto, required or one of the functions: {there}")
    return Tools(tuple(given), names, Constraint.json_schema(tool_schema(given, name)))


def thinking_options(asked: Any, language: Language, name: str) -> dict[str, Any]:
    """'think' of Ollama and 'reasoning_effort' of OpenAI, as variables of chat templates."""
    if asked is None:
        return {}
    if not isinstance(asked, bool) and asked not in _EFFORTS:
        raise BadRequestError(f"{name!r} is {', '.join(_EFFORTS)}, not {asked!r:.40}")
    is_wanted = asked not in (False, "none", "minimal")
    if not can_think(language.card.template):
        if is_wanted:
            raise BadRequestError(
                f"{name!r}: {language.name!r} does not support thinking: its template has no sign of it"
            )
        return {}
    effort = {"reasoning_effort": asked} if isinstance(asked, str) else {}
    return {"enable_thinking": is_wanted, **effort}


def template_options(fields: Fields, language: Language, effort: Any, name: str = "reasoning_effort") -> dict[str, Any]:
    """Variables of the template, such as enable_thinking of Qwen 3."""
    given = fields.inside("chat_template_kwargs").words
    reserved = {"messages", "tools", "add_generation_prompt"} & set(given)
    if reserved:
        raise BadRequestError(f"'chat_template_kwargs' may not set {', '.join(sorted(reserved))}")
    return {**thinking_options(effort, language, name), **given}


def format_of(fields: Fields) -> Constraint | None:
    """response_format."""
    form = fields.inside("response_format")
    kind = form.text("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Constraint("json")
    if kind != "json_schema":
        raise BadRequestError("'response_format.type' is text, json_object or json_schema")
    schema = form.inside("json_schema").raw("schema")
    if not isinstance(schema, dict):
        raise BadRequestError("'response_format.json_schema.schema' is a JSON schema")
    return Constraint.json_schema(schema)
