from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_operator_table_is_the_compilers_own() -> None:
    spec = importlib.util.spec_from_file_location("make_operator_docs", ROOT / "tools" / "make_operator_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "operators.md").read_text() == module.page(), "run tools/make_operator_docs.py"
