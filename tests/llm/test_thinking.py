"""Thoughts and answers, told apart however the text is cut."""

from __future__ import annotations

import pytest

from openrknn.llm.generation.thinking import ThinkText, can_think, opened_thought

CASES = [
    ("<think>\nSo.\n\nYes.\n</think>\n\nIt is 4.", "", "So.\n\nYes.", "It is 4."),
    ("  \n<think></think>\n\n4", "", "", "4"),
    ("[THINK]a < b[/THINK]4", "", "a < b", "4"),
    ("So.</think>4", "</think>", "So.", "4"),
    ("<think>So.</think>4", "</think>", "So.", "4"),
    ("It is <think>4</think>", "", "", "It is <think>4</think>"),
    ("<thin ice", "", "", "<thin ice"),
    ("<think>never ends </thin", "", "never ends </thin", ""),
    ("<think>a</think> <think>b</think>", "", "a", "<think>b</think>"),
    ("", "", "", ""),
    ("<th", "", "", "<th"),
]


@pytest.mark.parametrize(("text", "opened", "thought", "answer"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_parts(text: str, opened: str, thought: str, answer: str, size: int) -> None:
    one = ThinkText(opened)
    parts = [one.feed(text[at : at + size]) for at in range(0, len(text), size)]
    parts.append(one.feed("", is_last=True))
    assert "".join(part[0] for part in parts) == thought
    assert "".join(part[1] for part in parts) == answer


def test_a_thought_is_told_while_it_is_written() -> None:
    one = ThinkText()
    told = [(one.feed(text), one.is_inside) for text in ("<think>First", " second</think>An", "swer")]
    assert told == [(("First", ""), True), ((" second", "An"), False), (("", "swer"), False)]


def test_prompts_and_templates() -> None:
    assert opened_thought("<|assistant|><think>\n") == "</think>"
    assert opened_thought("<|assistant|><think>\n\n</think>\n\n") == ""
    assert can_think("{% if enable_thinking %}")
    assert can_think("...</think>...")
    assert not can_think("{{ messages }}")
