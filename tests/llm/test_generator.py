from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.generation.generator import Completion, Generator
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.speculation import Speculation
from openrknn.llm.weights import Floats
from tests.llm.fakes import END, FakeEngine, FakeVocabulary, by_hand

GREEDY = Request(Sampling(temperature=0), max_tokens=40)
PROMPT = "Once upon a time"


def made(engine: FakeEngine | None = None, **options: object) -> Generator:
    return Generator(engine or FakeEngine(), FakeVocabulary(), **options)  # type: ignore[arg-type]


def test_greedy_tokens_are_those_computed_by_hand() -> None:
    for prompt in ("a", PROMPT, "x" * 300):
        found = made(chunk=50).complete(prompt, GREEDY)
        wanted = by_hand(FakeEngine(), list(prompt.encode()), 40)
        assert list(found.tokens) == wanted
        assert found.text == b"".join(map(FakeVocabulary().piece, wanted)).decode("utf-8", "replace")
        assert found.finish == ("length" if len(wanted) == 40 else "stop")
        assert found.statistics.prompt_tokens == len(prompt)


def test_the_end_token_ends_it_and_is_no_text() -> None:
    request = Request(Sampling(temperature=0, bias={END: 100.0}))
    found = made().complete(PROMPT, request)
    assert (found.text, found.tokens, found.finish) == ("", (), "stop")
    on = made().complete(PROMPT, dataclasses.replace(request, ignore_end=True, max_tokens=3))
    assert (on.tokens, on.text, on.finish) == ((END,) * 3, "", "length")
    first = by_hand(FakeEngine(), list(PROMPT.encode()), 3)
    stopped = made().complete(PROMPT, dataclasses.replace(GREEDY, stop_tokens=frozenset(first[2:])))
    assert list(stopped.tokens) == first[: first.index(first[2])]


def test_stop_strings_never_come_out() -> None:
    whole = made(FakeEngine(ends=False)).complete(PROMPT, GREEDY).text
    for size, at in itertools.product((1, 2, 5), (0, 3, 11)):
        stop = whole[at : at + size]
        request = dataclasses.replace(GREEDY, stop=(stop, "not in it"))
        with made(FakeEngine(ends=False)).stream(PROMPT, request) as stream:
            events = list(stream)
        assert "".join(event.text for event in events) == whole[: whole.index(stop)]
        assert (events[-1].finish, events[-1].stop) == ("stop", stop)


def test_a_seed_gives_the_same_text_alone_and_beside_others() -> None:
    requests = [Request(Sampling(temperature=0.8, top_p=0.95, seed=seed), max_tokens=30) for seed in range(6)]
    alone = [made().complete(PROMPT, request).tokens for request in requests]
    assert len(set(alone)) == 6
    generator = made(most_sequences=3, chunk=5)
    streams = [generator.stream(PROMPT, request) for request in requests]
    together = [tuple(event.token for event in stream if event.token is not None) for stream in streams]
    assert together == alone
    assert max(generator.engine.forwards) == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("kind", ["ngrams", "same", "other"])
def test_speculation_changes_no_token(kind: str, temperature: float) -> None:
    request = Request(
        Sampling(temperature=temperature, seed=3, repetition_penalty=1.1, frequency_penalty=0.1), max_tokens=120,
        ignore_end=True,
    )  # fmt: skip
    plain = made(FakeEngine(order=1)).complete(PROMPT, request)
    speculation = {
        "ngrams": Speculation.ngrams(5),
        "same": Speculation.model(FakeEngine(order=1), FakeEngine().config.vocabulary, 5),
        "other": Speculation.model(FakeEngine(order=1, salt=8), FakeEngine().config.vocabulary, 5),
    }[kind]
    engine = FakeEngine(order=1)
    found = made(engine, speculation=speculation).complete(PROMPT, request)
    assert found.tokens == plain.tokens
    assert found.text == plain.text
    assert found.statistics.drafted_tokens >= found.statistics.accepted_tokens
    if kind == "same":
        assert found.statistics.accepted_tokens > 40
        assert len(engine.forwards) < 80


def test_ngrams_save_forwards_where_text_repeats_itself() -> None:
    engine, request = FakeEngine(order=1), dataclasses.replace(GREEDY, max_tokens=200)
    found = made(engine, speculation=Speculation.ngrams(6)).complete(PROMPT, request)
    assert found.tokens == made(FakeEngine(order=1)).complete(PROMPT, request).tokens
    assert len(found.tokens) > 2 * len(engine.forwards)


def test_a_draft_model_needs_the_same_vocabulary() -> None:
    with pytest.raises(ValueError, match="same vocabulary"):
        Speculation.model(FakeEngine(), 17)


def test_prefixes_are_reused_and_change_nothing() -> None:
    engine = FakeEngine(ends=False)
    generator = made(engine, kept_prefixes=2)
    first = generator.complete(PROMPT + " in a land", GREEDY)
    assert first.statistics.reused_tokens == 0
    longer = [*(PROMPT + " in a land").encode(), *first.tokens, *b" and then"]
    again = generator.complete(longer, GREEDY)
    assert again.statistics.reused_tokens == len(longer) - len(b" and then") - 1
    assert again.tokens == made(FakeEngine(ends=False)).complete(longer, GREEDY).tokens
    # Another end of the same beginning: the first cache is kept and copied.
    other = generator.complete(PROMPT + " in a house", GREEDY)
    assert other.statistics.reused_tokens == len(PROMPT + " in a ")
    assert other.tokens == made(FakeEngine(ends=False)).complete(PROMPT + " in a house", GREEDY).tokens
    assert generator.complete(longer, GREEDY).statistics.reused_tokens == len(longer) - 1
    assert engine.open_caches == len(generator.scheduler.prefixes) == 2
    generator.close()
    assert engine.open_caches == 0
    assert engine.is_closed


def test_requests_of_one_moment_share_their_prompt() -> None:
    engine = FakeEngine()
    generator = made(engine, chunk=64)
    requests = [Request(Sampling(seed=seed), max_tokens=5) for seed in range(4)]
    streams = [generator.stream("y" * 200, request) for request in requests]
    found = [list(stream)[-1].statistics.reused_tokens for stream in streams]
    assert found[0] == 0
    assert all(reused >= 199 - 64 for reused in found[1:])


def test_log_probabilities() -> None:
    found = made().complete(PROMPT, dataclasses.replace(GREEDY, max_tokens=4, logprobs=3))
    for event in found.events[:-1]:
        assert event.logprob is not None
        assert event.logprob == event.top[0][1]
        assert event.token == event.top[0][0]
        assert len(event.top) == 3


def test_cancelling_stops_the_work_and_leaves_the_others() -> None:
    engine = FakeEngine(ends=False)
    generator = made(engine, most_sequences=2)
    request = Request(Sampling(temperature=0), max_tokens=50)
    streams = [generator.stream(f"{PROMPT} {number}", request) for number in range(4)]
    assert next(streams[0]).token is not None
    streams[1].close()
    streams[3].close()
    assert [event.finish for event in streams[1]] == ["cancelled"]
    for number in (0, 2):
        tokens = [event.token for event in streams[number] if event.token is not None]
        wanted = by_hand(FakeEngine(ends=False), list(f"{PROMPT} {number}".encode()), 50)
        assert tokens == wanted[len(wanted) - len(tokens) :]
        assert len(tokens) >= 49
    assert generator.scheduler.is_idle


def test_a_full_context_ends_or_shifts() -> None:
    engine = FakeEngine(capacity=40, ends=False)
    request = Request(Sampling(temperature=0), max_tokens=200)
    found = made(engine).complete(PROMPT, request)
    assert (found.finish, len(found.tokens)) == ("length", 40 - len(PROMPT) + 1)
    assert list(found.tokens) == by_hand(FakeEngine(ends=False), list(PROMPT.encode()), len(found.tokens))
    # The fake engine sees three tokens, so that what is dropped changes nothing.
    for speculation in (None, Speculation.ngrams(3)):
        shifted = made(FakeEngine(capacity=40, ends=False), speculation=speculation).complete(
            PROMPT, dataclasses.replace(request, shift=True, keep=4)
        )
        assert (shifted.finish, len(shifted.tokens)) == ("length", 200)
        assert list(shifted.tokens) == by_hand(FakeEngine(ends=False), list(PROMPT.encode()), 200)
        assert shifted.statistics.shifts > 5


@pytest.mark.parametrize(
    ("prompt", "request_", "kind", "reason"),
    [
        ("", Request(), PromptError, "empty"),
        ([1, 70000], Request(), PromptError, "70000 is not in the vocabulary"),
        ([-1], Request(), PromptError, "-1 is not"),
        ("x" * 513, Request(), ContextFullError, "513 tokens and the context holds 512"),
        ("x", Request(shift=True, keep=600), ContextFullError, "keep is 600"),
    ],
)
def test_prompts_that_cannot_be(
    prompt: str | list[int], request_: Request, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        made().complete(prompt, request_)


def test_wrong_requests() -> None:
    for wrong in ({"max_tokens": 0}, {"logprobs": 101}, {"stop": ("",)}, {"keep": -1}):
        with pytest.raises(ValueError, match="is"):
            Request(**wrong)
    with pytest.raises(ValueError, match="most_sequences"):
        made(most_sequences=0)


def test_numbers_that_are_not_finite_end_one_sequence_only() -> None:
    class Broken(FakeEngine):
        def logits(self, tokens: Sequence[int]) -> Floats:
            row = super().logits(tokens)
            return row * np.float32("nan") if bytes(tokens[:3]) == b"bad" else row

    generator = made(Broken())
    bad, good = generator.stream("bad", GREEDY), generator.stream("good", GREEDY)
    with pytest.raises(PromptError, match="not finite"):
        list(bad)
    assert [event.token for event in good][:-1] == by_hand(FakeEngine(), list(b"good"), 40)


def test_statistics() -> None:
    found: Completion = made(FakeEngine(ends=False)).complete(PROMPT, GREEDY)
    numbers = found.statistics
    assert numbers.generated_tokens == 40
    assert 0 < numbers.first_seconds <= numbers.total_seconds
    assert numbers.prompt_rate > 0
    assert numbers.generation_rate > 0
