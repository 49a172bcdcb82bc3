"""A chart becomes objects: values are merged and checked by the schema, templates run, YAML is read.

This stands in for `helm template`, which no package registry has. It was compared with the engine of Helm 4 on every
set of values in cases.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.deploy.helm.functions import FUNCTIONS, is_true, shown
from tests.deploy.helm.parse import Call, Chain, Constant, If, Node, Pipe, Range, TemplateError, Text, With, parse

__all__ = ["Chart"]

_DEPTH = 20
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Written in C where PyYAML was built with it."""


@dataclass
class _Scope:
    """Where a piece of template runs."""

    dot: Any
    variables: dict[str, Any]
    parent: _Scope | None = None

    def find(self, name: str) -> dict[str, Any]:
        here: _Scope | None = self
        while here is not None:
            if name in here.variables:
                return here.variables
            here = here.parent
        raise TemplateError(f"the variable {name} is not declared")

    def inner(self, dot: object, **variables: object) -> _Scope:
        return _Scope(dot, dict(variables), self)


@dataclass
class Chart:
    """A folder with Chart.yaml."""

    folder: Path
    release: str = "openrknn"
    namespace: str = "openrknn"
    kubernetes: str = "v1.36.0"
    existing: Mapping[str, Any] = field(default_factory=dict)
    """Objects of the cluster by name, for `lookup`."""

    def __post_init__(self) -> None:
        self._files: dict[str, list[Node]] = {}
        self._defined: dict[str, list[Node]] = {}
        for path in sorted((self.folder / "templates").iterdir()):
            nodes, defined = parse(path.read_text(), path.name)
            self._defined |= defined
            self._files[path.name] = nodes

    def values(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The defaults with what a user gave, accepted by the schema."""
        merged = _merged(yaml.load((self.folder / "values.yaml").read_text(), _Loader), given or {})
        jsonschema.validate(merged, json.loads((self.folder / "values.schema.json").read_text()))
        return merged

    def objects(self, given: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What would be installed."""
        data = self._data(given)
        texts = [self._file(name, data) for name in self._files if name.endswith(".yaml")]
        return [one for text in texts for one in yaml.load_all(text, _Loader) if one is not None]

    def text(self, name: str, given: Mapping[str, Any] | None = None) -> str:
        """One template."""
        return self._file(name, self._data(given))

    def _data(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        about = yaml.safe_load((self.folder / "Chart.yaml").read_text())
        return {
            "Values": self.values(given),
            "Chart": {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
            "Release": {"Name": self.release, "Namespace": self.namespace, "Service": "Helm"},
            "Capabilities": {"KubeVersion": {"Version": self.kubernetes}},
            "Files": {"Get": lambda path: (self.folder / path).read_text()},
        }

    def _file(self, name: str, data: dict[str, Any]) -> str:
        return self._run(self._files[name], _Scope(data, {"$": data}), 0)

    def _run(self, nodes: list[Node], scope: _Scope, depth: int) -> str:
        if depth > _DEPTH:
            raise TemplateError("templates include each other without end")
        return "".join(self._node(node, scope, depth) for node in nodes)

    def _node(self, node: Node, scope: _Scope, depth: int) -> str:
        if isinstance(node, Text):
            return node.text
        if isinstance(node, Pipe):
            value = self._pipe(node, scope, depth)
            if not node.names:
                return shown(value)
            (name,) = node.names
            (scope.variables if node.is_new else scope.find(name))[name] = value
            return ""
        if isinstance(node, If):
            for condition, inside in node.arms:
                if condition is None or is_true(self._pipe(condition, scope, depth)):
                    return self._run(inside, scope.inner(scope.dot), depth)
            return ""
        value = self._pipe(node.pipe, scope, depth)
        if isinstance(node, Range) and not isinstance(value, Mapping | list):
            raise TemplateError(f"range over {value!r}")
        if not is_true(value):
            return self._run(node.otherwise, scope.inner(scope.dot), depth)
        if isinstance(node, With):
            return self._run(node.inside, scope.inner(value, **dict.fromkeys(node.pipe.names, value)), depth)
        return "".join(self._run(node.inside, one, depth) for one in _turns(node, value, scope))

    def _pipe(self, pipe: Pipe, scope: _Scope, depth: int) -> Any:
        last: list[Any] = []
        for call in pipe.calls:
            last = [self._call(call, last, scope, depth)]
        return last[0]

    def _call(self, call: Call, last: list[Any], scope: _Scope, depth: int) -> Any:
        first, *words = call.words
        if isinstance(first, Chain) and isinstance(first.start, str) and first.start[:1] not in {"$", "."}:
            return self._function(first.start, words, last, scope, depth)
        value = self._value(first, scope, depth)
        arguments = [*(self._value(word, scope, depth) for word in words), *last]
        if callable(value):
            return value(*arguments)
        if arguments:
            raise TemplateError(f"{value!r} is no function")
        return value

    def _function(self, name: str, words: list[Constant | Chain], last: list[Any], scope: _Scope, depth: int) -> Any:
        if name in {"and", "or"}:
            value: Any = None
            for word in words:  # the rest is not looked at, as in Go
                value = self._value(word, scope, depth)
                if is_true(value) == (name == "or"):
                    break
            return value
        arguments = [*(self._value(word, scope, depth) for word in words), *last]
        if name == "include":
            template, dot = arguments
            return self._run(self._defined[template], _Scope(dot, {"$": dot}), depth + 1)
        if name == "lookup":
            return self.existing.get(arguments[-1], {})
        if name not in FUNCTIONS:
            raise TemplateError(f"the function {name} is not known here")
        return FUNCTIONS[name](*arguments)

    def _value(self, word: Constant | Chain, scope: _Scope, depth: int) -> Any:
        if isinstance(word, Constant):
            return word.value
        if isinstance(word.start, Pipe):
            value = self._pipe(word.start, scope, depth)
        elif word.start == ".":
            value = scope.dot
        elif word.start.startswith("$"):
            value = scope.find(word.start)[word.start]
        else:
            return self._function(word.start, [], [], scope, depth)
        for name in word.fields:
            # Helm prints nothing for a key that is not there: here it is a typing error.
            if not isinstance(value, Mapping) or name not in value:
                raise TemplateError(f"there is no .{name} in .{'.'.join(word.fields)}")
            value = value[name]
        return value


def _turns(node: Range, value: Any, scope: _Scope) -> list[_Scope]:
    pairs = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
    names = node.pipe.names
    return [scope.inner(one, **dict(zip(names, (key, one)[-len(names) :] if names else (), strict=True)))
            for key, one in pairs]  # fmt: skip


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """As Helm does it: maps are merged, everything else is replaced, null removes."""
    made = dict(defaults)
    for key, value in given.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = _merged(made[key], value)
        else:
            made[key] = value
    return made
