"""Python 3.10: the settings that guard it, and the stand-ins for what it lacks, run as it would run them.

Ruff refuses syntax that is newer than `target-version`, mypy names of the standard library that are newer than
`python_version`; both run in ./test. Here: that they are told the version that the package promises.
"""

import asyncio
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tomli

from openrknn import backports
from openrknn.serve import timeouts

ROOT = Path(__file__).parents[1]
OLDEST = "3.10"


def as_on_the_oldest(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, made again while Python says that it is 3.10."""
    old = SimpleNamespace(**{**vars(sys), "version_info": (3, 10, 12)})
    monkeypatch.setitem(sys.modules, "sys", old)  # what `import sys` finds
    source = Path(str(module.__file__)).read_text()
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, str(module.__file__), "exec"), names)
    monkeypatch.undo()
    made = names.get("StrEnum", names.get("timeout"))
    assert made.__module__ == module.__name__, "the standard library's own"
    return SimpleNamespace(**names)


def test_the_checks_are_for_the_oldest_python() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == f">={OLDEST}"
    assert f"Programming Language :: Python :: {OLDEST}" in project["project"]["classifiers"]
    assert project["tool"]["mypy"]["python_version"] == OLDEST
    assert project["tool"]["ruff"]["target-version"] == "py310"
    for path in ROOT.glob("compat/*/pyproject.toml"):
        assert tomli.loads(path.read_text())["project"]["requires-python"] == f">={OLDEST}"


def test_strings_in_enumerations(monkeypatch: pytest.MonkeyPatch) -> None:
    for base in (backports.StrEnum, as_on_the_oldest(backports, monkeypatch).StrEnum):
        kind = base("Kind", {"ONE": "one"})
        assert [str(kind.ONE), f"{kind.ONE:>5}", "%s" % kind.ONE] == ["one", "  one", "one"]  # noqa: UP031
        assert kind("one") is kind.ONE == "one"


def test_notes_stay_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backports, as_on_the_oldest(backports, monkeypatch)):
        error = ValueError("wrong")
        module.add_note(error, "in a.bin")
        module.add_note(error, "in b.bin")
        assert getattr(error, "__notes__", None) == ["in a.bin", "in b.bin"]
        assert str(error) == "wrong"


def test_a_digest_goes_to_the_end() -> None:
    file = BytesIO(b"xabc")
    file.seek(1)
    assert backports.file_digest(file, "sha256").hex().startswith("ba7816bf8f01cfea")  # FIPS 180: "abc"


def test_a_timeout_ends_what_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(timeout: Any) -> None:
        with pytest.raises(TimeoutError):
            async with timeout(0) as limit:
                await asyncio.Event().wait()
        assert limit.expired()

    for module in (timeouts, as_on_the_oldest(timeouts, monkeypatch)):
        asyncio.run(late(module.timeout))


def test_a_timeout_leaves_the_rest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_time(timeout: Any) -> None:
        async with timeout(1000):
            await asyncio.sleep(0)
        async with timeout(0) as limit:
            limit.reschedule(None)
            await asyncio.sleep(0)
        assert not limit.expired()
        async with timeout(None):
            await asyncio.sleep(0)
        with pytest.raises(KeyError):
            async with timeout(1000):
                raise KeyError

    async def cancelled(timeout: Any) -> None:
        async def waits() -> None:
            async with timeout(1000):
                await asyncio.Event().wait()

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for module in (timeouts, as_on_the_oldest(timeouts, monkeypatch)):
        asyncio.run(in_time(module.timeout))
        asyncio.run(cancelled(module.timeout))
