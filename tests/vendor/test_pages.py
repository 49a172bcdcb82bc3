"""The pages about the C API are those that the tables make, and every function has its words."""

from __future__ import annotations

from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.functions import FUNCTIONS
from tools.make_capi_docs import CAPI, MANUAL, pages

HINT = "run: python tools/make_capi_docs.py"


def test_the_pages_are_up_to_date() -> None:
    written = pages()
    there = [f"functions/{path.name}" for path in (CAPI / "functions").glob("*.md")]
    assert sorted(there) == sorted(name for name in written if name.startswith("functions/")), HINT
    stale = [name for name, text in written.items() if (CAPI / name).read_text(encoding="utf-8") != text]
    assert stale == [], HINT


def test_every_function_and_every_parameter_has_its_words() -> None:
    assert set(MANUAL) == set(FUNCTIONS)
    for name, function in FUNCTIONS.items():
        assert set(MANUAL[name].parameters) == {item.name for item in function.newest.parameters}, name
        assert all(other in FUNCTIONS for other in MANUAL[name].see)


def test_every_error_code_has_a_section() -> None:
    page = pages()["errors.md"]
    assert all(f"## {name}\n" in page for name in CODES)
