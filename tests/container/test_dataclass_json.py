"""Dataclasses out of JSON: what `asdict` makes comes back, and what is missing or of another form is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from openrknn.container.bundle import Bundle, Part, Plan, Port
from openrknn.container.dataclass_json import from_plain

BUNDLE = Bundle(
    "rk3588",
    inputs=(Port("x", "tensor(float)", (1, "n", None)),),
    outputs=(Port("y", "tensor(float)", (1, 4)),),
    parts=(Part("npu", "parts/00.rknn", ("x",), ("y",), {"x": (1, 8), "y": (1, 4)}, 3, 32, 32, 1.5, 2.0, "all of it"),),
    plans=(Plan((0,), {"x": (1, 8)}),),
    files={},
    padded={"x": 1},
    notes=("one",),
)


def plain() -> Any:
    return json.loads(json.dumps(asdict(BUNDLE)))


def test_what_json_has_comes_back() -> None:
    assert from_plain(Bundle, plain(), files={}, path=None) == BUNDLE


def test_only_optional_fields_may_be_missing() -> None:
    data = plain()
    del data["notes"]
    del data["parts"][0]["masks"]
    assert from_plain(Bundle, data, ("notes", "masks"), files={}, path=None).notes == ()
    with pytest.raises(KeyError, match="masks"):
        from_plain(Bundle, data, ("notes",), files={}, path=None)


@pytest.mark.parametrize(("key", "value"), [("plans", [{"parts": ["a"], "shapes": {}}]), ("parts", 7), ("padded", [])])
def test_other_forms_are_refused(key: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        from_plain(Bundle, {**plain(), key: value}, files={}, path=None)
