from __future__ import annotations

import json
import re
import sys

import pytest

from openrknn.llm.generation.constraint import Constraint, Constraints
from openrknn.llm.generation.errors import ConstraintError, NoConstraintsError
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.speculation import Speculation
from tests.llm.fakes import SIZE, FakeEngine, FakeVocabulary

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def text_of(constraint: Constraint, seed: int, speculation: Speculation | None = None) -> str:
    generator = Generator(FakeEngine(), FakeVocabulary(), speculation=speculation)
    found = generator.complete("Say it", Request(Sampling(seed=seed), max_tokens=200, constraint=constraint))
    assert found.finish == "stop"
    return found.text


@pytest.fixture(autouse=True)
def _library() -> None:
    pytest.importorskip("llguidance")


def test_texts_satisfy_their_schema() -> None:
    texts = {text_of(Constraint.json_schema(SCHEMA), seed) for seed in range(8)}
    assert len(texts) == 8
    for text in texts:
        found = json.loads(text)
        assert set(found) == {"name", "age"}
        assert len(found["name"]) <= 6
        assert 0 <= found["age"] <= 99
    for seed in range(4):
        drafted = text_of(Constraint.json_schema(SCHEMA), seed, Speculation.ngrams(4))
        assert drafted == text_of(Constraint.json_schema(SCHEMA), seed)


def test_expressions_and_grammars() -> None:
    for seed in range(5):
        assert re.fullmatch("(yes|no)!{1,3}", text_of(Constraint("regex", "(yes|no)!{1,3}"), seed))
        assert text_of(Constraint("lark", 'start: "a" | "bc"'), seed) in {"a", "bc"}


@pytest.mark.parametrize(
    "wrong",
    [
        Constraint("regex", "(unclosed"), Constraint("lark", "start: nowhere"), Constraint("json_schema", "no json"),
        Constraint("json_schema", '{"type": "nothing"}'), Constraint("regex", "x" * 300000),
    ],
)  # fmt: skip
def test_wrong_grammars_are_named(wrong: Constraint) -> None:
    with pytest.raises(ConstraintError, match=r"cannot be used|at most"):
        Constraints(FakeVocabulary()).follow(wrong)


def test_a_token_that_is_not_allowed() -> None:
    follower = Constraints(FakeVocabulary()).follow(Constraint("regex", "ab"))
    mask = follower.mask(SIZE + 5)
    assert [int(one) for one in mask.nonzero()[0]] == [ord("a")]
    with pytest.raises(ConstraintError, match="cannot be followed"):
        follower.accept(ord("z"))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(NoConstraintsError, match=r"llguidance.*pip install 'openrknn\[llm\]'"):
        Constraints(FakeVocabulary()).follow(Constraint("json"))
