"""`kustomize build`, as much of it as deploy/kubernetes uses: Debian's kubectl is too old for components. What it does
not know it refuses. Where a newer kubectl is, tests/kubernetes/test_manifests.py compares the two."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

__all__ = ["KustomizeError", "build"]

_CLUSTER = frozenset({"ClusterRole", "ClusterRoleBinding", "Namespace"})
"""Kinds without a namespace. kustomize does not know DeviceClass and newer ones; kubectl takes it off them again."""
_KEYS = frozenset({"apiVersion", "kind", "namespace", "resources", "components", "patches", "images"})
Object = dict[str, Any]


class KustomizeError(Exception):
    """A file that is wrong, or that uses what this does not know."""


def build(folder: Path) -> list[Object]:
    """All objects of a kustomization."""
    found: list[Object] = []
    _apply(folder, found)
    return found


def _apply(folder: Path, found: list[Object]) -> None:
    about = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if more := set(about) - _KEYS:
        raise KustomizeError(f"{folder}: {sorted(more)} is not known here")
    for name in about.get("resources", ()):
        path = (folder / name).resolve()
        new = build(path) if path.is_dir() else [one for one in yaml.safe_load_all(path.read_text()) if one]
        for one in new:
            if any(_same(one, other) for other in found):
                raise KustomizeError(f"{path}: {_name(one)} is there twice")
        found += new
    for name in about.get("components", ()):
        _apply((folder / name).resolve(), found)
    for patch in about.get("patches", ()):
        _patch(found, patch, folder)
    for one in found:
        if "namespace" in about and one["kind"] not in _CLUSTER:
            one["metadata"]["namespace"] = about["namespace"]
        for image in about.get("images", ()):
            _rename(one, image)


def _name(one: Object) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def _same(one: Object, other: Object) -> bool:
    return _name(one) == _name(other)


def _patch(found: list[Object], patch: Object, folder: Path) -> None:
    content = yaml.safe_load(patch["patch"])
    if isinstance(content, dict):
        if content.pop("$patch", None) != "delete":
            raise KustomizeError(f"{folder}: only `$patch: delete` is known here")
        hit = [one for one in found if _same(one, content)]
        if len(hit) != 1:
            raise KustomizeError(f"{folder}: there is no {_name(content)} to delete")
        found.remove(hit[0])
        return
    target = patch["target"]["kind"], patch["target"]["name"]
    hit = [one for one in found if _name(one) == target]
    if len(hit) != 1:  # kustomize is silent about it; here it is a patch that does nothing
        raise KustomizeError(f"{folder}: there is no {target} to patch")
    for step in content:
        _step(hit[0], step)


def _step(one: Any, step: Object) -> None:
    """RFC 6902, without test, move and copy."""
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
    for part in path:
        one = one[int(part)] if isinstance(one, list) else one[part]
    value = copy.deepcopy(step.get("value"))
    key = int(last) if isinstance(one, list) and last != "-" else last
    match step["op"]:
        case "add" if isinstance(one, list):
            one.insert(len(one) if last == "-" else int(last), value)
        case "add":
            one[last] = value
        case "replace":
            if isinstance(one, dict) and last not in one:
                raise KustomizeError(f"{step['path']}: nothing to replace")
            one[key] = value
        case "remove":
            del one[key]
        case other:
            raise KustomizeError(f"{other} is not known here")


def _rename(one: Any, image: Object) -> None:
    if isinstance(one, dict):
        if one.get("image") == image["name"]:
            one["image"] = f"{image['newName']}:{image['newTag']}"
        one = list(one.values())
    if isinstance(one, list):
        for value in one:
            _rename(value, image)
