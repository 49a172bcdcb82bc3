"""The changelog's form, and a release in a repository of its own, with a build that takes no time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from packing import changelog, chart, release, sources
from packing.errors import PackingError

ROOT = Path(__file__).parents[2]
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
    (root / "CHANGELOG.md").write_text(HEAD + "## Unreleased\n\n### Added\n\n- Something.\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message=all")
    return root


def committed(root: Path) -> None:
    git(root, "commit", "--quiet", "--all", "--message=more")


def build(root: Path, out: Path) -> None:
    """Depends on nothing but the commit."""
    out.mkdir(exist_ok=True)
    (out / "openrknn.whl").write_text(git(root, "rev-parse", "HEAD"))
    (out / "openrknn.deb").write_text("d")


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
    assert run(repository, tmp_path / "dry", is_dry=True) == ("v0.1.0rc1", ["openrknn.whl"])
    assert git(repository, "tag") == ""
    run(repository, tmp_path / "dist")
    assert git(repository, "tag").split() == ["v0.1.0rc1"]
    subprocess.run(["sha256sum", "--check", "--strict", release.SUMS], cwd=tmp_path / "dist", check=True)
    assert release.check(repository, "v0.1.0rc1").text == "### Added\n\n- Something."
    with pytest.raises(PackingError, match=r"v0\.1\.0rc1 is there already"):
        run(repository, tmp_path / "again")
    with pytest.raises(PackingError, match=r"the tag is v0\.1\.0;"):
        release.check(repository, "v0.1.0")


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
