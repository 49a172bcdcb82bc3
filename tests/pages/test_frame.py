"""The kit of all reports: a verdict on top, long tables folded. Evidence: the markup."""

import pytest

from openrknn.pages.frame import folded, more_numbers, verdict

NUMBERS = [("Time", "1 ms", "an estimate"), ("File", "2 MB", ""), ("Memory", "3 MB", ""), ("Tasks", "4", "")]


@pytest.mark.parametrize(("level", "word"), [("good", "OK"), ("fair", "Check"), ("poor", "Problem")])
def test_a_verdict_has_a_word_a_sentence_three_numbers_and_a_next_step(level: str, word: str) -> None:
    made = verdict(level, "all of it runs", NUMBERS, "run it")
    assert f'class="verdict {level}"' in made
    assert f">{word}<" in made
    assert "All of it runs" in made
    assert made.count("<dt>") == 3
    assert "<b>Next: </b>run it" in made


def test_what_comes_from_a_file_stays_text() -> None:
    made = verdict("poor", "<script>alert(1)</script>\u202e", [("<b>", "<i>", "&")], "<a>")
    assert "<script>" not in made
    assert "\u202e" not in made
    assert "&lt;b&gt;" in made
    assert "<a>" not in made


def test_other_numbers_and_long_tables_are_folded() -> None:
    assert more_numbers(NUMBERS).startswith("<details")
    table = folded("rows", "Rows", "content", note="what they are")
    assert table is not None
    assert '<div id="rows">' in table
    assert "<details" in table
    assert folded("rows", "Rows", None, note="nothing") is None
