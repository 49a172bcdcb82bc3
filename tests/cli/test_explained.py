"""Errors link to the page that explains them. Evidence: the classes in the source, and the headings of docs/."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from openrknn.cli.common import explained
from openrknn.cli.common.output import CommandError
from openrknn.compiler.errors import CompileError, MisfitError
from openrknn.errors import FormatError, OutputError, RknnError, TruncatedError
from tests.cli.run import run
from tests.container.places import golden
from tests.docs.code_blocks import ROOT

SOURCE = ROOT / "src" / "openrknn"
SITE = re.compile(r"\"docs/\"  # until the upload: (https://\S+/)$|^BASE = \"(https://\S+/)\"$", re.MULTILINE)


def declared() -> dict[str, list[str]]:
    """Every public error class in the source, with its base classes."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        source = path.read_text(encoding="utf-8")
        if "Error(" not in source:
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and re.fullmatch(r"[A-Z]\w*Error", node.name):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                found[f"{module}.{node.name}"] = bases
    return found


def test_every_error_has_a_page_or_a_base_with_one() -> None:
    classes = declared()
    covered = set(explained.PAGES)
    ours = {"errors.RknnError"}
    for _ in range(len(classes)):  # to the leaves of the tree
        for name, bases in classes.items():
            of_ours = [known for known in ours for base in bases if known.rpartition(".")[2] == base]
            if of_ours:
                ours.add(name)
                if any(known in covered for known in of_ours):
                    covered.add(name)
        if ours <= covered | {"errors.RknnError"}:
            break
    assert ours - covered == {"errors.RknnError"}
    assert len(ours) > 80
    assert set(explained.PAGES) <= set(classes), "an entry of a class that no longer exists"


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("target", sorted({page for page in explained.PAGES.values() if page}))
def test_the_page_and_its_anchor_exist(target: str) -> None:
    name, _, anchor = target.partition("#")
    page = ROOT / "docs" / name
    assert page.is_file()
    assert not anchor or anchor in anchors(page)
    assert re.fullmatch(r"([a-z0-9]+(-[a-z0-9]+)*)?", anchor), "GitHub and Sphinx name other anchors differently"


def test_the_base_class_and_the_cause_count() -> None:
    assert explained.page_for(TruncatedError("x")) == explained.page_for(FormatError("x"))
    assert "compiler" in str(explained.page_for(MisfitError("x")))
    wrapped = CommandError("x")
    assert explained.page_for(wrapped) is None
    wrapped.__cause__ = FormatError("x")
    assert explained.page_for(wrapped) == explained.page_for(FormatError("x"))
    missing = CompileError("x")
    missing.__context__ = ModuleNotFoundError("onnx")
    assert str(explained.page_for(missing)).endswith("#extras")
    assert explained.page_for(RknnError("x")) is None
    assert explained.page_for(OutputError("x")) is None


def test_the_address_after_the_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SITE.search((SOURCE / "cli" / "common" / "explained.py").read_text(encoding="utf-8"))
    assert found
    monkeypatch.setattr(explained, "BASE", found[1] or found[2])
    assert explained.page_for(FormatError("x")) == "https://openrknn.github.io/openrknn/api/errors.html#files"


def test_the_command_line_shows_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "damaged.rknn"
    damaged.write_bytes(golden("conv_rk3588_i8").read_bytes()[:1000])
    result = run(capsys, "inspect", damaged)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"\nsee: {explained.page_for(FormatError('x'))}\n")
    assert "see: " not in run(capsys, "inspect", tmp_path / "missing.rknn").err
