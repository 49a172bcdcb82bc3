"""The changelog's form, and a release in a repository of its own, with a build that takes no time."""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from packing import archives, changelog, chart, pages, release, sbom, sources
from packing.errors import PackingError
from shipping.tree import Tree

ROOT = Path(__file__).parents[2]
WHEEL = "openrknn-0.1.0rc1-py3-none-any.whl"
HEAD = "# Changelog\n\nWords.\n\n"


def test_the_changelog_is_in_order() -> None:
    first, *released = changelog.sections((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert first.version == changelog.UNRELEASED
    version = sources.version(ROOT)
    assert "dev" in version or version == released[0].version


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# Changes\n", "first line"),
        (HEAD, "first section"),
        (HEAD + "## 1.0.0 - 2026-01-01\n\n- a\n", "first section"),
        (HEAD + "## Unreleased\n\n## v1.0.0 - 2026-01-01\n\n- a\n", r"`## v1\.0\.0"),
        (HEAD + "## Unreleased\n\n## 1.0.0\n\n- a\n", r"neither `## Unreleased`"),
        (HEAD + "## Unreleased\n\n## 1.0.0 - 2026-01-01\n\n- a\n\n## Unreleased\n", "neither"),
        (HEAD + "## Unreleased\n\n## 1.0.0rc1 - 2026-01-02\n\n- a\n\n## 1.0.0 - 2026-01-01\n\n- b\n", "newest"),
        (HEAD + "## Unreleased\n\n## 1.1.0 - 2026-01-01\n\n- a\n\n## 1.0.0 - 2026-01-02\n\n- b\n", "newest"),
        (HEAD + "## Unreleased\n\nnews without a hyphen\n", "news without"),
        (HEAD + "## Unreleased\n\n### Added\n", "no entry"),
    ],
)
def test_what_a_changelog_may_not_be(text: str, complaint: str) -> None:
    with pytest.raises(PackingError, match=complaint):
        changelog.sections(text)


def test_candidates_come_before_their_version() -> None:
    names = ("1.10.0", "1.9.0", "1.9.0rc10", "1.9.0rc9", "1.9.0b1", "1.8.9")
    text = HEAD + "## Unreleased\n" + "".join(f"\n## {name} - 2026-01-01\n\n- a\n" for name in names)
    assert [entry.version for entry in changelog.sections(text)][1:] == list(names)


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=Somebody", "-c", "user.email=some@body"]
    return subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "some@body")
    root = tmp_path / "repository"
    (root / "src/openrknn").mkdir(parents=True)
    (root / sources.VERSION_FILE).write_text('"""Words."""\n__version__ = "0.1.0.dev0"\n')
    (root / chart.FOLDER).mkdir(parents=True)
    (root / chart.FOLDER / "Chart.yaml").write_text("name: openrknn\nversion: 0.1.0-dev.0\nappVersion: 0.1.0.dev0\n")
    (root / "packaging").mkdir()
    (root / "packaging/requirements.txt").write_text("# Tools.\ncmake==4.4.4\n")
    (root / "pyproject.toml").write_text('[project.urls]\nRepository = "https://example.org/openrknn"\n')
    (root / "docs/releases").mkdir(parents=True)
    for version in ("0.1.0", "0.1.0rc1"):
        (root / f"docs/releases/{version}.md").write_text("# Notes\n\nSee [the changelog](../../CHANGELOG.md#new).\n")
    (root / "CHANGELOG.md").write_text(HEAD + "## Unreleased\n\n### Added\n\n- Something.\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=all")
    return root


def committed(root: Path) -> None:
    git(root, "commit", "--quiet", "--all", "--message=more")


METADATA = """Metadata-Version: 2.4
Name: openrknn
Version: 0.1.0rc1
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.26
Requires-Dist: openrknn[images]; extra == "serve"
Requires-Dist: uvicorn<0.55,>=0.35; extra == "serve"
Requires-Dist: pytest>=9.0; extra == "test"
"""


def build(root: Path, out: Path) -> None:
    """Depends on nothing but the commit."""
    out.mkdir(exist_ok=True)
    texts = {"openrknn/commit": git(root, "rev-parse", "HEAD"), "openrknn/examples/a.rknn": "weights"}
    info = "openrknn-0.1.0rc1.dist-info"
    texts |= {f"{info}/METADATA": METADATA, f"{info}/WHEEL": "Wheel-Version: 1.0\n"}
    files = {name: text.encode() for name, text in texts.items()}
    archives.write_wheel(out, "openrknn", "0.1.0rc1", "py3-none-any", files, epoch=0)
    tree = Tree(0)
    fields = b"Metadata-Version: 2.4\nName: Orjson\nVersion: 3.13.0\n"
    tree.file("usr/lib/openrknn/orjson-3.13.0.dist-info/METADATA", fields)
    tree.file("var/lib/dpkg/status.d/libc6", b"Package: libc6\nVersion: 2.41-12+deb13u1\nArchitecture: arm64\n")
    member = lzma.compress(tree.tar())
    head = f"{'data.tar.xz':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(member):<10}`\n".encode()
    (out / "openrknn_0.1.0rc1+deb13_arm64.deb").write_bytes(b"!<arch>\n" + head + member)


def careless(root: Path, out: Path) -> None:
    """Its file says where it was made."""
    out.mkdir()
    (out / "openrknn.whl").write_text(str(root))


def run(root: Path, out: Path, *, maker: release.Build = build, is_dry: bool = False) -> tuple[str, list[str]]:
    checked: list[str] = []

    def twine(packages: Sequence[Path]) -> None:
        checked.extend(path.name for path in packages)

    return release.release(root, out, maker, twine=twine, is_dry=is_dry, say=lambda _: None), checked


def test_a_release(repository: Path, tmp_path: Path) -> None:
    release.prepare(repository, "0.1.0rc1", "2026-11-20")
    assert (repository / sources.VERSION_FILE).read_text() == '"""Words."""\n__version__ = "0.1.0rc1"\n'
    about = (repository / chart.FOLDER / "Chart.yaml").read_text()
    assert about == "name: openrknn\nversion: 0.1.0-rc.1\nappVersion: 0.1.0rc1\n"
    text = (repository / "CHANGELOG.md").read_text()
    assert text == HEAD + "## Unreleased\n\n## 0.1.0rc1 - 2026-11-20\n\n### Added\n\n- Something.\n"
    committed(repository)
    assert run(repository, tmp_path / "dry", is_dry=True) == ("v0.1.0rc1", [WHEEL])
    assert git(repository, "tag") == ""
    run(repository, tmp_path / "dist")
    assert git(repository, "tag").split() == ["v0.1.0rc1"]
    subprocess.run(["sha256sum", "--check", "--strict", release.SUMS], cwd=tmp_path / "dist", check=True)
    assert release.check(repository, "v0.1.0rc1").text == "### Added\n\n- Something."
    with pytest.raises(PackingError, match=r"v0\.1\.0rc1 is there already"):
        run(repository, tmp_path / "again")
    with pytest.raises(PackingError, match=r"the tag is v0\.1\.0;"):
        release.check(repository, "v0.1.0")


def test_what_a_release_says_about_its_packages(repository: Path, tmp_path: Path) -> None:
    """The bill of materials and the provenance name what is there, and two releases of a commit say the same."""
    release.prepare(repository, "0.1.0rc1", "2026-11-20")
    committed(repository)
    dist = tmp_path / "dist"
    run(repository, dist, is_dry=True)
    bill = json.loads((dist / "openrknn-0.1.0rc1.cdx.json").read_text())
    components = {entry["bom-ref"]: entry for entry in bill["components"]}
    assert len(components) == len(bill["components"])
    assert components["needs:pkg:pypi/numpy>=1.26"]["scope"] == "required"
    assert components["needs:pkg:pypi/uvicorn<0.55,>=0.35"]["scope"] == "optional"
    assert not any("pytest" in name for name in components)
    assert {"pkg:pypi/orjson@3.13.0", "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=arm64"} <= components.keys()
    assert components[f"file:{WHEEL}"]["hashes"] == [{"alg": "SHA-256", "content": archives.sha256(dist / WHEEL)}]
    assert [entry["name"] for entry in bill["components"] if entry["type"] == "machine-learning-model"] == [
        "openrknn/examples/a.rknn"
    ]
    named = {name for entry in bill["dependencies"] for name in (entry["ref"], *entry["dependsOn"])}
    assert named == components.keys() | {"openrknn"}
    origin = json.loads((dist / "openrknn-0.1.0rc1.provenance.json").read_text())
    subjects = {entry["name"]: entry["digest"]["sha256"] for entry in origin["subject"]}
    others = {path.name for path in dist.iterdir()} - {release.SUMS, "openrknn-0.1.0rc1.provenance.json"}
    assert subjects == {name: archives.sha256(dist / name) for name in others}
    sources_of = origin["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert sources_of[0]["digest"] == {"gitCommit": git(repository, "rev-parse", "HEAD").strip()}
    assert {"uri": "pkg:pypi/cmake@4.4.4"} in sources_of
    run(repository, tmp_path / "again", is_dry=True)
    release.compare(dist, tmp_path / "again")
    with pytest.raises(PackingError, match="no wheel"):
        sbom.write(repository, repository)


def test_pages_for_other_places_link_to_the_repository(repository: Path) -> None:
    text = "[a](docs/a.md#b) ![c](docs/c.png) [d](#e) [f](https://example.org/g)"
    linked = sources.absolute_links(repository, text)
    there = "https://example.org/openrknn"
    assert linked == (
        f"[a]({there}/blob/main/docs/a.md#b) ![c]({there}/raw/main/docs/c.png) [d](#e) [f](https://example.org/g)"
    )
    release.prepare(repository, "0.1.0", "2026-11-20")
    notes = sources.absolute_links(repository, release.notes(repository), "docs/releases")
    assert f"({there}/blob/v0.1.0/CHANGELOG.md#new)" in notes
    (repository / "README.md").write_text(text)
    git(repository, "add", ".")
    staged = sources.stage(repository, repository.parent / "staged") / "README.md"
    assert f"![c]({there}/raw/v0.1.0/docs/c.png)" in staged.read_text()


def test_the_switch_of_the_pages(repository: Path) -> None:
    page = repository / "docs/a.md"
    page.write_text(
        "<!-- until the upload -->\nnot yet\n<!-- after the upload:\nthere\n-->\n"
        "pip install 'openrknn[images] @ git+https://example.org/openrknn'\nrev: main # until the upload\n"
    )
    source = repository / "src/openrknn/cli/common/explained.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text('BASE = "docs/"  # until the upload: https://example.org/docs/\n')
    assert not pages.is_published(repository)
    with pytest.raises(PackingError, match="never uploaded"):
        pages.publish(repository)
    release.prepare(repository, "0.1.0", "2026-11-20")
    assert pages.publish(repository) == [page, source]
    assert source.read_text() == 'BASE = "https://example.org/docs/"\n'
    assert page.read_text() == "there\npip install 'openrknn[images]'\nrev: v0.1.0\n"
    assert pages.is_published(repository)
    with pytest.raises(PackingError, match="already"):
        pages.publish(repository)
    page.write_text("<!-- until the upload -->\nnot yet\n")
    with pytest.raises(PackingError, match=r"docs/a\.md: a mark"):
        pages.publish(repository)


def test_what_is_not_released(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "dist"
    with pytest.raises(PackingError, match=r"0\.1\.0\.dev0 is no version to release"):
        run(repository, out)
    with pytest.raises(PackingError, match="1 is no version to release"):
        release.prepare(repository, "1", "2026-11-20")
    release.prepare(repository, "0.1.0", "2026-11-20")
    with pytest.raises(PackingError, match=r"not committed:\nM CHANGELOG"):
        run(repository, out)
    committed(repository)
    git(repository, "checkout", "--quiet", "-b", "side")
    with pytest.raises(PackingError, match="the branch side"):
        run(repository, out)
    git(repository, "checkout", "--quiet", "main")
    notes = repository / "docs/releases/0.1.0.md"
    kept = notes.read_text()
    notes.unlink()
    with pytest.raises(PackingError, match=r"no docs/releases/0\.1\.0\.md"):
        release.check(repository)
    notes.write_text(kept)
    with pytest.raises(PackingError, match=r"two builds of one commit differ: openrknn\.whl"):
        run(repository, out, maker=careless)
    with pytest.raises(PackingError, match="is not empty"):
        run(repository, out)
    with pytest.raises(PackingError, match="nothing is unreleased"):
        release.prepare(repository, "0.2.0", "2026-11-21")
    log = repository / "CHANGELOG.md"
    log.write_text(log.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Late.\n"))
    committed(repository)
    with pytest.raises(PackingError, match="unreleased changes"):
        run(repository, tmp_path / "late")
    log.write_text(HEAD + "## Unreleased\n")
    committed(repository)
    with pytest.raises(PackingError, match=r"no section of 0\.1\.0"):
        run(repository, tmp_path / "none")
    assert git(repository, "tag") == ""
