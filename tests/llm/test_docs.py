"""The page about language models has the table of the code."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_families_is_that_of_the_code() -> None:
    spec = importlib.util.spec_from_file_location("make_llm_docs", ROOT / "tools/make_llm_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/llm.md").read_text(encoding="utf-8") == module.page(), "run tools/make_llm_docs.py"
