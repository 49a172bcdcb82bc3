"""pytest's plugin: models and golden folders in the tests of those who use openrknn.

    @pytest.mark.openrknn_model("model.rknn")
    def test_cat(openrknn_model, assert_close_to_golden):
        outputs = openrknn_model.run(picture)
        assert_close_to_golden(outputs, "cat")          # golden/cat.npz beside the test; --openrknn-update writes it
        openrknn_model.assert_budget(ms=5, cpu_operators=0)

    @pytest.mark.openrknn_model("model.rknn", golden="golden")
    def test_all_of_it(openrknn_model, openrknn_golden):
        openrknn_golden.check(openrknn_model)           # as `openrknn check` does

`pytest --openrknn-golden goldens/` makes a test of every check of every golden folder, without a line of Python; the
models are looked for in --openrknn-models (default: beside the folders and one level up).

This module is imported by every run of pytest wherever openrknn is installed: it imports nothing but pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openrknn.check.testing import GoldenArrays, GoldenFolder, ModelUnderTest

__all__ = ["assert_close_to_golden", "openrknn_golden", "openrknn_model"]

_MARK = "openrknn_model"
_FILE = "golden.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line, and the same in pytest's ini file."""
    group = parser.getgroup("openrknn", "models for Rockchip NPUs")
    rows = (
        ("device", "where models run: auto, software, rknpu, rocket, vendor (ini: openrknn_device)", "DEVICE"),
        ("golden", "make tests of the golden folders below DIR (ini: openrknn_golden)", "DIR"),
        ("models", "where the models of golden folders are (ini: openrknn_models)", "DIR"),
    )
    for name, text, place in rows:
        group.addoption(f"--openrknn-{name}", dest=f"openrknn_{name}", metavar=place, default=None, help=text)
        parser.addini(f"openrknn_{name}", text, default="")
    text = "write what is expected again from what was computed"
    group.addoption("--openrknn-update", dest="openrknn_update", action="store_true", default=False, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and collect golden folders where that was asked for."""
    config.addinivalue_line("markers", f"{_MARK}(path, golden=None, device=None): the model that a test is about")
    wanted = _option(config, "golden")
    if not wanted:
        return
    folder = config.invocation_params.dir / wanted
    if not folder.is_dir():
        raise pytest.UsageError(f"--openrknn-golden {wanted}: no such folder")
    if str(folder) not in config.args:  # the workers of xdist get the arguments of their master
        config.args.append(str(folder))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """golden.toml is a file of tests, if --openrknn-golden names a folder above it."""
    wanted = _option(parent.config, "golden")
    if file_path.name != _FILE or not wanted:
        return None
    root = (parent.config.invocation_params.dir / wanted).resolve()
    if root not in file_path.resolve().parents:
        return None
    return _GoldenFile.from_parent(parent, path=file_path)


def _option(config: pytest.Config, name: str) -> str:
    value = config.getoption(f"openrknn_{name}", default=None)
    return str(value or config.getini(f"openrknn_{name}") or "")


def _device(config: pytest.Config) -> str:
    return _option(config, "device") or "auto"


class _GoldenFile(pytest.File):
    """One golden folder."""

    def collect(self) -> Iterator[pytest.Item]:
        from openrknn.check.errors import GoldenError
        from openrknn.check.golden import load_golden

        try:
            golden = load_golden(self.path.parent)
        except GoldenError as error:
            raise self.CollectError(str(error)) from error
        yield _GoldenItem.from_parent(self, name="file", case="")
        for case in golden.cases:
            yield _GoldenItem.from_parent(self, name=case.name, case=case.name)

    def model(self) -> str:
        """The file that golden.toml names: in --openrknn-models, in the folder, or up to two levels above it."""
        from openrknn.check.golden import load_golden

        golden = load_golden(self.path.parent)
        name = golden.model or f"{golden.folder.name}.rknn"
        given = _option(self.config, "models")
        if given:
            places = [self.config.invocation_params.dir / given]
        else:
            places = [self.path.parent, *list(self.path.parent.parents)[:2]]
        for place in places:
            if (place / name).exists():
                return str(place / name)
        pytest.fail(f"{name}: not in {', '.join(map(str, places))}; say where models are with --openrknn-models DIR",
                    pytrace=False)  # fmt: skip


class _GoldenItem(pytest.Item):
    """The checks of a case, or those of the file: weights, budgets, lint."""

    def __init__(self, *, case: str, **others: Any) -> None:
        super().__init__(**others)
        self.case = case

    def runtest(self) -> None:
        from dataclasses import replace

        from openrknn.check.golden import load_golden
        from openrknn.check.record import update
        from openrknn.check.run import check
        from openrknn.check.testing import assert_passed

        parent = self.parent
        assert isinstance(parent, _GoldenFile)
        model, golden, device = parent.model(), load_golden(self.path.parent), _device(self.config)
        only = (self.case,) if self.case else ()
        if self.config.getoption("openrknn_update"):
            if not self.case:  # the whole folder at once: workers must not write the same files
                update(model, golden, device=device)
            return
        outcome = check(model, golden if self.case else replace(golden, cases=()), device=device, only=only)
        assert_passed(outcome)
        if outcome.checks and all(str(entry.status) == "skipped" for entry in outcome.checks):
            pytest.skip("; ".join(entry.text for entry in outcome.checks))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.parent.name}: {self.name}"


def _marked(request: pytest.FixtureRequest) -> pytest.Mark | None:
    mark: pytest.Mark | None = request.node.get_closest_marker(_MARK)
    return mark


def _beside(request: pytest.FixtureRequest, word: str | Path) -> Path:
    """A path as a test means it: from its own folder, else from the root of the project."""
    path = Path(word)
    if path.is_absolute() or (request.path.parent / path).exists():
        return request.path.parent / path
    return request.config.rootpath / path


@pytest.fixture
def openrknn_model(request: pytest.FixtureRequest) -> Iterator[ModelUnderTest]:
    """The model of `@pytest.mark.openrknn_model("model.rknn")`, or of `indirect` parametrisation."""
    mark = _marked(request)
    word = getattr(request, "param", None) or (mark.args[0] if mark is not None and mark.args else None)
    if word is None:
        pytest.fail('say which model: @pytest.mark.openrknn_model("model.rknn")', pytrace=False)
    path = _beside(request, word)
    if not path.exists():
        pytest.fail(f"{path}: no such model", pytrace=False)
    from openrknn.check.testing import ModelUnderTest

    device = (mark.kwargs.get("device") if mark is not None else None) or _device(request.config)
    model = ModelUnderTest(path, device)
    yield model
    model.close()


@pytest.fixture
def openrknn_golden(request: pytest.FixtureRequest) -> GoldenFolder:
    """The golden folder of `@pytest.mark.openrknn_model(..., golden="folder")`, else MODEL.golden, else golden."""
    mark = _marked(request)
    word = mark.kwargs.get("golden") if mark is not None else None
    if word is None:
        stem = Path(mark.args[0]).with_suffix(".golden") if mark is not None and mark.args else Path("golden")
        word = stem if _beside(request, stem).exists() else Path("golden")
    from openrknn.check.testing import GoldenFolder

    is_update = bool(request.config.getoption("openrknn_update"))
    return GoldenFolder(_beside(request, word), _device(request.config), is_update=is_update)


@pytest.fixture
def assert_close_to_golden(request: pytest.FixtureRequest) -> GoldenArrays:
    """`assert_close_to_golden(outputs, "name", steps=2)`: golden/name.npz beside the test."""
    model = request.getfixturevalue("openrknn_model") if "openrknn_model" in request.fixturenames else None
    from openrknn.check.testing import GoldenArrays

    is_update = bool(request.config.getoption("openrknn_update"))
    return GoldenArrays(request.path.parent / "golden", model, is_update=is_update)
