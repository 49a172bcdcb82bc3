from __future__ import annotations

import pytest

from openrknn.llm.generation.toolcalls import ToolCall, ToolText, tool_schema

CALL = ToolCall("add", '{"a": 1}')


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        ("Just text with { and <tool", "Just text with { and <tool", []),
        ('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', "", [CALL]),
        ('Let me see.\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', "Let me see.\n", [CALL]),
        ('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>\n' * 2, "", [CALL, CALL]),
        ('<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [CALL]),
        ('<tool_call>{"name": "add", "arguments": {"a": 1}}', "", [CALL]),
        ('{"name": "add", "parameters": {"a": 1}}', "", [CALL]),
        (' <|python_tag|>{"name": "add", "parameters": {"a": 1}}; {"name": "add"}', "", [CALL, ToolCall("add", "{}")]),
        ('{"name": "other", "parameters": {}}', '{"name": "other", "parameters": {}}', []),
        ("{not json", "{not json", []),
        ("<tool_call>nonsense</tool_call>!", "<tool_call>nonsense</tool_call>!", []),
        ("<tool_call>half", "<tool_call>half", []),
        ('Text {"name": "add", "parameters": {"a": 1}}', 'Text {"name": "add", "parameters": {"a": 1}}', []),
    ],
)
def test_text_and_calls_are_told_apart(written: str, text: str, calls: list[ToolCall], size: int) -> None:
    tools = ToolText(["add"])
    told, found = "", list[ToolCall]()
    for at in range(0, len(written), size):
        more, new = tools.feed(written[at : at + size])
        told, found = told + more, found + new
    more, new = tools.finish()
    assert told + more == text
    assert found + new == calls == tools.calls


def test_schemas() -> None:
    tools = [{"function": {"name": name, "parameters": {"type": "object"}}} for name in ("a", "b")]
    assert tool_schema(tools, "b")["properties"]["name"] == {"const": "b"}
    assert [row["properties"]["name"]["const"] for row in tool_schema(tools)["anyOf"]] == ["a", "b"]
