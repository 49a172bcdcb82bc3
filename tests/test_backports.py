"""Python 3.10: the settings that guard it, and the stand-ins for what it lacks, run as it would run them.

Ruff, which ./test runs, refuses syntax that is newer than `target-version`. Newer names of the standard library are
looked for here, by a table. Mypy cannot do it on the way: with `python_version` 3.10 it takes the types of today's
NumPy, which needs 3.11, for Any. The workflows on GitHub run the tests on 3.10 itself.
"""

import ast
import asyncio
import re
import sys
from enum import IntFlag
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import tomli

from openrknn import backports
from openrknn.serve import timeouts

ROOT = Path(__file__).parents[1]
OLDEST = "3.10"


# Of 3.11 to 3.13; from "What's New in Python".
NEWER = {
    "asyncio": "timeout timeout_at TaskGroup Runner Barrier eager_task_factory QueueShutDown",
    "collections.abc": "Buffer",
    "contextlib": "chdir",
    "datetime": "UTC",
    "enum": "StrEnum ReprEnum EnumType FlagBoundary nonmember global_enum",
    "functools": "Placeholder",
    "hashlib": "file_digest",
    "inspect": "getmembers_static markcoroutinefunction BufferFlags",
    "itertools": "batched",
    "logging": "getLevelNamesMapping getHandlerByName getHandlerNames",
    "math": "cbrt exp2 sumprod",
    "os": "process_cpu_count",
    "typing": "Self Unpack Never assert_never assert_type LiteralString Required NotRequired TypeVarTuple "
    "get_overloads dataclass_transform override TypeAliasType ReadOnly TypeIs NoDefault",
    "warnings": "deprecated",
}
ANYWHERE = ("tomllib", "add_note", "process_group", "ExceptionGroup")
WORD = re.compile(rf"\b({'|'.join(['NamedTuple', 'TypedDict', *ANYWHERE, *' '.join(NEWER.values()).split()])})\b")


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
    assert project["tool"]["ruff"]["target-version"] == "py310"
    for path in ROOT.glob("compat/*/pyproject.toml"):
        assert tomli.loads(path.read_text())["project"]["requires-python"] == f">={OLDEST}"


def newer_names(text: str) -> list[str]:
    """The names of the table that a source uses."""
    found = []
    waiting: list[ast.AST] = [ast.parse(text)] if WORD.search(text) else []
    while waiting:
        node = waiting.pop()
        asks = isinstance(node, ast.If) and "version_info" in ast.dump(node.test)
        waiting += node.orelse if isinstance(node, ast.If) and asks else ast.iter_child_nodes(node)
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module in NEWER:
                found += [alias.name for alias in names if alias.name in NEWER[module].split()]
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in NEWER.get(module, "").split():
                found.append(name)
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name in ANYWHERE]
            case ast.Call(func=ast.Attribute(attr=str(name))) | ast.keyword(arg=str(name)) if name in ANYWHERE:
                found.append(name)
            case ast.ClassDef(bases=[ast.Name(id="NamedTuple" | "TypedDict" as name), _, *_]):
                found.append(name)  # with a second base: from 3.11 on
    return found


def test_nothing_newer_than_the_oldest_python() -> None:
    sources = [path for place in ("src", "compat", "examples") for path in (ROOT / place).rglob("*.py")]
    used = {str(path): newer_names(path.read_text()) for path in sources}
    assert len(used) > 500
    assert {path: names for path, names in used.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from typing import Any, Self\n", "Self"),
        ("from typing import (\n    Any,\n    Self,\n)\n", "Self"),
        ("import tomllib\n", "tomllib"),
        ("wait = asyncio.timeout(3)\n", "timeout"),
        ("error.add_note('more')\n", "add_note"),
        ("subprocess.Popen(words, process_group=0)\n", "process_group"),
        ("class A(NamedTuple, Generic[T]):\n    a: T\n", "NamedTuple"),
        ("class A(NamedTuple):\n    a: int\n", None),
        ("if sys.version_info >= (3, 11):\n    import tomllib\n", None),
        ("add_note(error, 'more')\n", None),
        ("from typing import Any\n\nSelf = 1\n", None),
    ],
)
def test_the_table_finds(text: str, name: str | None) -> None:
    assert newer_names(text) == ([name] if name else [])


def test_strings_in_enumerations(monkeypatch: pytest.MonkeyPatch) -> None:
    for base in (cast(Any, backports.StrEnum), as_on_the_oldest(backports, monkeypatch).StrEnum):
        kind = base("Kind", {"ONE": "one"})
        assert [str(kind.ONE), f"{kind.ONE:>5}", "%s" % kind.ONE] == ["one", "  one", "one"]  # noqa: UP031
        assert kind("one") is kind.ONE == "one"


def test_single_flags() -> None:
    class Some(IntFlag):
        NONE = 0
        ONE = 1
        TWO = 2
        BOTH = 3
        FOUR = 4

    assert backports.flags_in(Some.BOTH | Some.FOUR) == [Some.ONE, Some.TWO, Some.FOUR]
    assert backports.flags_in(Some.NONE) == []


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
