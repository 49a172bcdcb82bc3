"""Input items: checked, with ids, and as the messages that a chat template takes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openrknn.serve.errors import BadRequestError

__all__ = ["Item", "content_text", "messages_of_items", "new_id", "read_items"]

Item = dict[str, Any]
_MOST_ITEMS = 4096
_ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")
_TEXT_ONLY = "this server takes text only"
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def new_id(kind: str) -> str:
    """An unguessable id."""
    return f"{_PREFIXES.get(kind, kind)}_{uuid.uuid4().hex}"


def read_items(given: Any, find: Callable[[str], Item | None]) -> list[Item]:
    """`input` of a request: a text, or a list of items. `find` is asked for items that are named by their id."""
    if isinstance(given, str):
        return [_message("input", {"role": "user", "content": given})]
    if not isinstance(given, list) or not given:
        raise BadRequestError("'input' is a text, or a list of at least one item")
    if len(given) > _MOST_ITEMS:
        raise BadRequestError(f"'input' has {len(given)} items; {_MOST_ITEMS} are taken")
    return [_item(f"input[{number}]", one, find) for number, one in enumerate(given)]


def _item(where: str, given: Any, find: Callable[[str], Item | None]) -> Item:
    if not isinstance(given, dict):
        raise BadRequestError(f"{where} is not an object")
    kind = given.get("type") or ("message" if "role" in given else "item_reference")
    if kind == "item_reference":
        found = find(_text(where, given, "id"))
        if found is None:
            raise BadRequestError(f"{where} refers to the item {given['id']!r:.80}, which is not stored here")
        return found
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        there = ", ".join([*_READERS, "item_reference"])
        raise BadRequestError(f"{where} is of type {kind!r:.60}; this server takes {there}")
    return read(where, given)


def _text(where: str, given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequestError(f"{where}.{name} has to be a text that is not empty, not {value!r:.80}")
    return value


def _head(given: Mapping[str, Any], kind: str) -> Item:
    known = given.get("id")
    return {"id": known if isinstance(known, str) and 0 < len(known) <= 200 else new_id(kind), "type": kind}


def _message(where: str, given: Mapping[str, Any]) -> Item:
    role = given.get("role")
    if role not in _ROLES:
        raise BadRequestError(f"{where} has the role {role!r:.40}; roles are {', '.join(_ROLES)}")
    text = content_text(f"{where}.content", given.get("content"))
    part: Item = {"type": "input_text", "text": text}
    if role == "assistant":
        part = {"type": "output_text", "text": text, "annotations": []}
    return {**_head(given, "message"), "role": role, "status": "completed", "content": [part]}


def content_text(where: str, content: Any) -> str:
    """The text of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequestError(f"{where} is a text or a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else part
        name = "refusal" if kind == "refusal" else "text"
        if not isinstance(part, dict) or kind not in (*_TEXT_PARTS, "refusal") or not isinstance(part.get(name), str):
            raise BadRequestError(f"{where} has a part of type {kind!r:.40}; {_TEXT_ONLY}")
        texts.append(part[name])
    return "".join(texts)


def _call(where: str, given: Mapping[str, Any]) -> Item:
    arguments = given.get("arguments", "{}")
    try:
        is_object = isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, TypeError, RecursionError):
        is_object = False
    if not is_object:
        raise BadRequestError(f"{where}.arguments is a text with a JSON object")
    return {
        **_head(given, "function_call"), "call_id": _text(where, given, "call_id"),
        "name": _text(where, given, "name"), "arguments": arguments or "{}", "status": "completed",
    }  # fmt: skip


def _output(where: str, given: Mapping[str, Any]) -> Item:
    return {
        **_head(given, "function_call_output"), "call_id": _text(where, given, "call_id"),
        "output": content_text(f"{where}.output", given.get("output")), "status": "completed",
    }  # fmt: skip


def _reasoning(where: str, given: Mapping[str, Any]) -> Item:
    if given.get("encrypted_content"):
        raise BadRequestError(f"{where}.encrypted_content comes from another server and cannot be read here")
    made = _head(given, "reasoning")
    for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        parts = given.get(name) or []
        if not isinstance(parts, list) or not all(
            isinstance(one, dict) and one.get("type") == kind and isinstance(one.get("text"), str) for one in parts
        ):
            raise BadRequestError(f"{where}.{name} is a list of parts of type {kind}")
        made[name] = [{"type": kind, "text": "\n".join(one["text"] for one in parts)}] if parts else []
    return made


_READERS: dict[str, Callable[[str, Mapping[str, Any]], Item]] = {
    "message": _message, "function_call": _call, "function_call_output": _output, "reasoning": _reasoning,
}  # fmt: skip


def messages_of_items(items: Sequence[Item], instructions: str) -> list[dict[str, Any]]:
    """Calls join the assistant's message before them; a thought joins the assistant's message after it."""
    made: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    names: dict[str, str] = {}
    thought = ""
    for item in items:
        kind = item["type"]
        if kind == "reasoning":
            thought = "\n".join(one["text"] for one in item["content"] or item["summary"])
            continue
        if kind == "function_call_output":
            if item["call_id"] not in names:
                raise BadRequestError(f"'input' has the output of a call {item['call_id']!r:.80} that is not before it")
            name = names[item["call_id"]]
            made.append({"role": "tool", "content": item["output"], "tool_call_id": item["call_id"], "name": name})
            continue
        if kind == "function_call":
            names[item["call_id"]] = item["name"]
            if not made or made[-1]["role"] != "assistant":
                made.append({"role": "assistant", "content": ""})
            arguments = json.loads(item["arguments"])
            function = {"name": item["name"], "arguments": arguments}
            made[-1].setdefault("tool_calls", []).append(
                {"type": "function", "id": item["call_id"], "function": function}
            )
        else:
            role = "system" if item["role"] == "developer" else item["role"]
            made.append({"role": role, "content": item["content"][0]["text"]})
        if thought and made[-1]["role"] == "assistant":
            made[-1]["reasoning_content"] = thought
        thought = ""
    if len(made) > 1 and made[0]["role"] == made[1]["role"] == "system" and instructions:
        # Many templates take one system message only.
        made[1]["content"] = f"{instructions}\n\n{made[1]['content']}"
        del made[0]
    return made
