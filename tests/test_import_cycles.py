"""No module imports another that imports it, however late and even if only for types.

A cycle that is hidden in a function or behind TYPE_CHECKING still means that neither module can be understood, tested
or moved alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import openrknn

_ROOT = Path(openrknn.__file__).parent
_FACADE = "openrknn"
"""Its names are those of other modules, loaded when they are asked for."""
_ALLOWED = {
    ("openrknn.isa.fields", "openrknn.isa.registers"): "a field is a descriptor of the class that it is written in",
    ("openrknn.runtime.session", "openrknn.runtime.parted.session"): "Session(file of parts) is a PartedSession",
}


def _modules() -> dict[str, Path]:
    found = {}
    for path in _ROOT.rglob("*.py"):
        parts = [_FACADE, *path.relative_to(_ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Also those inside others; expressions, which are most of a tree, hold none."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, ())
            waiting.extend(below if isinstance(below, list) else ())


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _edges(modules: dict[str, Path]) -> dict[str, set[str]]:
    edges = {}
    for name, path in modules.items():
        found = set(_imported(ast.parse(path.read_text("utf-8"))))
        targets = {one for one in found if one in modules and one not in {name, _FACADE}}
        # `from package import module` names both; the package's own file counts where one of its names is taken
        edges[name] = {one for one in targets if not any(other.startswith(f"{one}.") for other in targets)}
    return edges


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that can be reached from themselves, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start, first in edges.items():
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        work = [(start, iter(sorted(first)))]
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    group = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def test_finds_cycles() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_modules_have_no_import_cycles() -> None:
    edges = _edges(_modules())
    for (one, other), why in _ALLOWED.items():
        assert other in edges[one], f"{one} no longer imports {other} ({why}): take the pair off the list"
        edges[one].discard(other)
    assert cycles(edges) == []
