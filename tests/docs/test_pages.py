"""The pages become HTML without a warning, and the links between files lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT

NEEDED = ("sphinx", "myst_parser", "furo", "sphinx_copybutton", "sphinx_design")
missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


@pytest.mark.skipif(bool(missing), reason=f"the docs extra is not installed: {', '.join(missing)}")
def test_html_has_no_warnings(tmp_path: Path) -> None:
    """With a theme that does not draw all titles beside every page: furo takes as long for that as for all the rest."""
    _build(ROOT / "docs", tmp_path, "-D", "html_theme=basic")
    assert (tmp_path / "html" / "index.html").is_file()
    check_api(tmp_path / "html")


@pytest.mark.skipif(bool(missing), reason=f"the docs extra is not installed: {', '.join(missing)}")
def test_the_theme_draws_a_page(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# A page\n\nWith a word.\n")
    _build(source, tmp_path, "-c", str(ROOT / "docs"))
    page = (tmp_path / "html" / "index.html").read_text()
    assert "furo" in page
    assert "With a word." in page


def _build(source: Path, folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "trees")]
    result = subprocess.run(
        [*command, *options, str(source), str(folder / "html")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def check_api(html: Path) -> None:
    """Other projects find our names (and those below, as aliases), guides lead to them, readers see the public ones."""
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((html / "objects.inv").read_bytes(), uri="")
    names = {name for kind in found.data.values() for name in kind}
    assert {"openrknn.Session", "openrknn.Session.run", "openrknn.compile", "openrknn.vision.Pipeline"} <= names
    assert 'href="api/sequence.html#openrknn.Decoder"' in (html / "sequence.html").read_text()
    session = (html / "api" / "session.html").read_text()
    assert 'href="model.html#openrknn.Specs"' in session
    assert "openrknn.runtime" not in re.sub(r"<[^>]*>", "", session)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(name: str) -> None:
    targets = LINK.findall((ROOT / name).read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_examples_in_one_page_save_into_folders_of_their_own() -> None:
    """Commands refuse a folder that is not empty, so that a reader who follows a page must not meet one twice."""
    saving = re.compile(r"^\$ openrknn (?:classify|ocr|segment|pose|detect) .*--save (\S+)", re.M)
    for page in (ROOT / "docs").rglob("*.md"):
        folders = saving.findall(page.read_text())
        assert len(folders) == len(set(folders)), page
