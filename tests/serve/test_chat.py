"""/v1/chat/completions, /v1/completions and /v1/embeddings with OpenAI's own client, unmodified."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Limits, Settings
from tests.llm.fakes import FakeEngine, FakeVocabulary, by_hand
from tests.serve.asking import PATIENCE, ask, helpers
from tests.serve.languages import chat_prompt, greedy, open_fake_language
from tests.serve.sessions import until

if TYPE_CHECKING:
    from openai import OpenAI  # takes seconds to import: only the tests that use it do

USER: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("llm") / "tiny.gguf"
    file.write_bytes(b"x" * 100)
    limits = Limits(run_seconds=2.0)
    settings = Settings([], llms=[f"tiny={file}"], http_port=0, grpc_port=None, token="sesame", limits=limits)
    with running(settings, open_language=open_fake_language) as started:
        assert started.plane.ready_problem() == ""
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sesame", timeout=PATIENCE, max_retries=0) as made:
        yield made


def said(*contents: str) -> Any:
    return [{"role": "user", "content": one} for one in contents]


# -- chat ------------------------------------------------------------------------------------------------------------


def test_an_answer_is_what_the_model_writes(client: OpenAI) -> None:
    for model in ("tiny", "gpt-4o", "tiny:latest"):
        found = client.chat.completions.create(model=model, messages=USER, temperature=0, max_tokens=20)
        (choice,) = found.choices
        assert choice.message.content == greedy(chat_prompt("Hello"), 20)
        assert (choice.message.role, choice.finish_reason, found.model) == ("assistant", "length", "tiny")
        assert found.usage is not None
        assert found.usage.prompt_tokens == len(chat_prompt("Hello"))
        assert found.usage.completion_tokens == 20
        assert found.usage.total_tokens == 20 + len(chat_prompt("Hello"))
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]
    again = client.chat.completions.create(model="tiny", messages=parts, temperature=0, max_completion_tokens=20)
    assert again.choices[0].message.content == greedy(chat_prompt("Hello"), 20)
    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert (again.usage.prompt_tokens_details.cached_tokens or 0) > 0


def test_a_stream_adds_up_to_the_answer(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="tiny", messages=USER, temperature=0, max_tokens=20, stream=True,
            stream_options={"include_usage": True}, logprobs=True, top_logprobs=2,
        )
    )  # fmt: skip
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(one.choices[0].delta.content or "" for one in chunks[:-1])
    assert text == greedy(chat_prompt("Hello"), 20)
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 20
    told = [entry for one in chunks[:-1] if one.choices[0].logprobs for entry in one.choices[0].logprobs.content or ()]
    assert len(told) == 20
    assert all(one.top_logprobs[0].token == one.token and len(one.top_logprobs) == 2 for one in told)
    assert b"".join(bytes(one.bytes or []) for one in told).decode("utf-8", "replace") == text
    assert len({one.id for one in chunks}) == 1


def test_choices_seeds_and_stops(client: OpenAI) -> None:
    create = client.chat.completions.create
    several = create(model="tiny", messages=USER, n=3, seed=5, max_tokens=12)
    texts = [one.message.content for one in several.choices]
    assert len(set(texts)) == 3
    for number, text in enumerate(texts):
        assert create(model="tiny", messages=USER, seed=5 + number, max_tokens=12).choices[0].message.content == text
    streamed = ["", "", ""]
    for chunk in create(model="tiny", messages=USER, n=3, seed=5, max_tokens=12, stream=True):
        for one in chunk.choices:
            streamed[one.index] += one.delta.content or ""
    assert streamed == texts
    stopped = create(model="tiny", messages=said("SAY:one two three|"), stop=["two"], max_tokens=50)
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("one ", "stop")
    assert create(model="tiny", messages=said("SAY:one|"), temperature=1).choices[0].message.content == "one"


def test_json_and_schemas(client: OpenAI) -> None:
    pytest.importorskip("llguidance")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
              "required": ["n"], "additionalProperties": False}  # fmt: skip
    form: Any = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema, "strict": True}}
    for seed in range(3):
        found = client.chat.completions.create(model="tiny", messages=USER, seed=seed, response_format=form)
        assert json.loads(found.choices[0].message.content or "").keys() == {"n"}
        assert found.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
        '{"name": "weather", "parameters": {"city": "Rome"}}',
    ],
)
def test_tools_in_the_formats_of_models(client: OpenAI, text: str) -> None:
    create = client.chat.completions.create
    words: Any = {"model": "tiny", "messages": said(f"SAY:{text}|"), "tools": [WEATHER]}
    (choice,) = create(**words).choices
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Rome"})
    chunks = list(create(**words, stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(one.index, one.function.name) for one in calls if one.function] == [(0, "weather")]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ""
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    # Without tools it is text, and so is a call of what nobody offered.
    assert create(model="tiny", messages=words["messages"]).choices[0].message.content == text
    assert create(**{**words, "tool_choice": "none"}).choices[0].message.content == text


def test_a_tool_that_has_to_be_called_is_called(client: OpenAI) -> None:
    pytest.importorskip("llguidance")
    named: Any = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", named):
        found = client.chat.completions.create(model="tiny", messages=USER, tools=[WEATHER], tool_choice=choice)
        assert found.choices[0].message.tool_calls is not None
        (call,) = found.choices[0].message.tool_calls
        assert call.type == "function"
        assert json.loads(call.function.arguments)["city"] in {"Rome", "Oslo"}


def test_a_conversation_with_a_tool_reaches_the_template(client: OpenAI) -> None:
    messages: Any = [
        {"role": "developer", "content": "Be brief"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "Sunny"},
    ]  # fmt: skip
    found = client.chat.completions.create(model="tiny", messages=messages, temperature=0, max_tokens=9,
                                           extra_body={"chat_template_kwargs": {"thinking": False}})  # fmt: skip
    prompt = "thinking=False;<s>Be brief</s><a></a><t>Sunny</t><a>"
    assert found.choices[0].message.content == greedy(prompt, 9)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "king", "content": "x"}]}, "role 'king'"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "text only"),
        ({"temperature": 3}, "'temperature' has to be a number from 0 to 2"),
        ({"max_tokens": 0}, "'max_tokens'"),
        ({"n": 99}, "'n'"),
        ({"stop": [""]}, "'stop'"),
        ({"logit_bias": {"x": 1}}, "by their numbers"),
        ({"top_logprobs": 3}, "needs 'logprobs'"),
        ({"response_format": {"type": "yaml"}}, "json_object"),
        ({"tools": [{"function": {}}]}, "no function with a name"),
        ({"tools": [WEATHER], "tool_choice": {"function": {"name": "x"}}}, "tool_choice"),
        ({"messages": said("x" * 600)}, "the context holds 512"),
        ({"extra_body": {"chat_template_kwargs": {"messages": 1}}}, "may not set messages"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "no"}}}}, "schema"),
    ],
)
def test_what_cannot_be_answered(client: OpenAI, words: dict[str, Any], reason: str) -> None:
    import openai

    for more in ({}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match=reason) as caught:
            client.chat.completions.create(**{"model": "tiny", "messages": USER, **words, **more})
        assert caught.value.type == "invalid_request_error"


def test_models(client: OpenAI) -> None:
    import openai

    assert [one.id for one in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "openrknn"
    with pytest.raises(openai.NotFoundError, match="there are 'tiny'"):
        client.chat.completions.create(model="other", messages=USER)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


# -- completions and embeddings --------------------------------------------------------------------------------------


def test_completions(client: OpenAI) -> None:
    create = client.completions.create
    found = create(model="tiny", prompt=["Once", "Twice"], temperature=0, max_tokens=10, echo=True)
    assert [one.text for one in found.choices] == ["Once" + greedy("Once", 10), "Twice" + greedy("Twice", 10)]
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (9, 20)
    tokens = create(model="tiny", prompt=list(b"Once"), temperature=0, max_tokens=10, logprobs=2)
    assert tokens.choices[0].text == greedy("Once", 10)
    logprobs = tokens.choices[0].logprobs
    assert logprobs is not None
    assert "".join(logprobs.tokens or ()) == tokens.choices[0].text
    assert logprobs.text_offset == [sum(map(len, (logprobs.tokens or [])[:at])) for at in range(10)]
    chunks = list(create(model="tiny", prompt="Once", temperature=0, max_tokens=10, stream=True))
    assert "".join(one.choices[0].text for one in chunks) == greedy("Once", 10)
    assert chunks[-1].choices[0].finish_reason == "length"


def test_embeddings(client: OpenAI) -> None:
    import numpy as np

    found = client.embeddings.create(model="tiny", input=["ab", "c"])
    wanted = np.array([97.5, 1, 2]) / np.linalg.norm([97.5, 1, 2])
    assert np.allclose(found.data[0].embedding, wanted, atol=1e-6)
    assert len(found.data) == 2
    assert found.usage.prompt_tokens == 3
    plain = client.embeddings.create(model="tiny", input=list(b"ab"), encoding_format="float")
    assert np.allclose(plain.data[0].embedding, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("path", "words", "reason"),
    [
        ("completions", {"prompt": 7}, "'prompt' is a text"),
        ("completions", {"prompt": "x", "suffix": "y"}, "suffix"),
        ("completions", {"prompt": "x", "best_of": 2}, "best_of"),
        ("completions", {"prompt": [1], "echo": True}, "echo"),
        ("completions", {"prompt": [99999]}, "not in the vocabulary"),
        ("embeddings", {"input": []}, "'input' is"),
        ("embeddings", {"input": "x", "dimensions": 2}, "gives 3 numbers"),
        ("embeddings", {"input": "x", "encoding_format": "hex"}, "float or base64"),
        ("chat/completions", {}, "at least one message"),
    ],
)
def test_wrong_bodies(server: Server, path: str, words: dict[str, Any], reason: str) -> None:
    answer = ask(server, "POST", f"/v1/{path}", json.dumps({"model": "tiny", **words}), TOKEN)
    assert answer.status == 400
    assert reason in answer.json["error"]["message"]


TOKEN = {"Authorization": "Bearer sesame"}


# -- many, and bad ones ----------------------------------------------------------------------------------------------


def _stream(server: Server, prompt: str, count: int) -> tuple[str, bool]:
    """The text of a stream, and whether it came to its end."""
    body = json.dumps({"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": count, "stream": True})
    answer = ask(server, "POST", "/v1/completions", body, TOKEN)
    lines = [line for line in answer.body.decode().split("\n\n") if line]
    rows = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    return "".join(row["choices"][0]["text"] for row in rows), lines[-1] == "data: [DONE]"


def test_64_clients_get_what_they_asked_for(server: Server) -> None:
    prompts = [f"Client {number} says" for number in range(64)]
    with helpers(64) as threads:
        found = list(threads.map(lambda prompt: _stream(server, prompt, 24), prompts))
    assert found == [(greedy(prompt, 24), True) for prompt in prompts]
    language = server.plane.languages.find("tiny")
    until(lambda: language.active == 0)


def test_a_client_that_goes_away_stops_the_work(server: Server) -> None:
    language = server.plane.languages.find("tiny")
    before = language.stats.failures["CANCELLED"]
    for is_stream in (True, False):
        where = urlsplit(server.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
        body = {"model": "tiny", "prompt": "slow!", "max_tokens": 400, "stream": is_stream, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), TOKEN)
        if is_stream:
            connection.getresponse().read(10)
        until(lambda: language.active == 1)
        connection.close()
        until(lambda: language.active == 0)
    assert language.stats.failures["CANCELLED"] == before + 2
    # The process is free again: nothing of it is computed on.
    assert _stream(server, "Then", 5) == (greedy("Then", 5), True)


def test_a_crash_and_a_hang_end_their_streams_only_with_words(server: Server, client: OpenAI) -> None:
    import openai

    language = server.plane.languages.find("tiny")
    restarts = language.restarts
    for prompt, reason in (("crash", "SIGSEGV"), ("hang!", "said nothing for 2 s|no token within 2 s")):
        with pytest.raises(openai.InternalServerError, match=reason):
            client.completions.create(model="tiny", prompt=prompt)
        # After the second one in a row it pauses for half a second.
        until(lambda: ask(server, "POST", "/v1/completions", '{"prompt": "On"}', TOKEN).status == 200)
        assert client.completions.create(model="tiny", prompt="On", temperature=0).choices[0].text == greedy("On", 16)
    assert language.restarts == restarts + 2


def _begin(server: Server, prompt: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, bytes]:
    """A stream that has begun, with its first event."""
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 400, "stream": True, "ignore_eos": True}
    connection, answer = _asked(server, "/v1/completions", json.dumps({"model": "tiny", **body}))
    return connection, answer, answer.readline()


def _asked(server: Server, path: str, body: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
    connection.request("POST", path, body, TOKEN)
    return connection, connection.getresponse()


def test_killed_with_streams_running(tmp_path: Path) -> None:
    """SIGKILL in the middle: each stream has its own beginning and then the reason; none of it is mixed or lost."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x")
    settings = Settings([], llms=[str(file)], http_port=0, grpc_port=None, token="sesame")
    with running(settings, open_language=open_fake_language) as server:
        _kill_with_streams_running(server)


def _kill_with_streams_running(server: Server) -> None:
    language = server.plane.languages.find("tiny")
    restarts = language.restarts
    prompts = [f"{number} slow!" for number in range(6)]
    begun = [_begin(server, prompt) for prompt in prompts]
    body = json.dumps({"model": "tiny", "input": "slow!", "stream": True})
    other, response = _asked(server, "/v1/responses", body)
    assert response.readline() == b"event: response.created\n"
    # One of them goes away at the same time.
    begun[0][0].close()
    (pid,) = language.pids()
    os.kill(pid, signal.SIGKILL)
    for prompt, (connection, answer, first) in list(zip(prompts, begun, strict=True))[1:]:
        lines = [line for line in (first + answer.read()).decode().split("\n") if line]
        rows = [json.loads(line.removeprefix("data: ")) for line in lines]
        text = "".join(row["choices"][0]["text"] for row in rows[:-1])
        tokens = by_hand(FakeEngine(ends=False), list(prompt.encode()), 400)
        whole = b"".join(map(FakeVocabulary().piece, tokens)).decode("utf-8", "replace")
        assert text
        assert whole.startswith(text.rstrip("\ufffd"))
        assert "SIGKILL" in rows[-1]["error"]["message"]
        connection.close()
    failed = json.loads(response.read().decode().strip().rpartition("data: ")[2])
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert "SIGKILL" in failed["response"]["error"]["message"]
    other.close()
    until(lambda: ask(server, "POST", "/v1/completions", '{"prompt": "On"}', TOKEN).status == 200)
    assert _stream(server, "Then", 5) == (greedy("Then", 5), True)
    until(lambda: language.active == 0)
    assert language.restarts == restarts + 1


def test_a_full_queue_says_so(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x")
    settings = Settings(
        [], llms=[str(file)], llm_sequences=1, queue_size=1, http_port=0, grpc_port=None, workers=IN_PROCESS
    )  # fmt: skip
    with running(settings, open_language=open_fake_language) as server:
        language = server.plane.languages.find("tiny")
        body = json.dumps({"prompt": "slow!", "max_tokens": 80, "n": 2, "ignore_eos": True})
        with helpers(2) as threads:
            first = threads.submit(ask, server, "POST", "/v1/completions", body)
            until(lambda: language.active == 2)
            full = ask(server, "POST", "/v1/completions", json.dumps({"prompt": "x"}))
            assert (full.status, full.json["error"]["type"]) == (429, "rate_limit_error")
            assert "retry-after" in full.headers
            assert first.result().status == 200
        # A model of this process answers like one in its own.
        one = ask(server, "POST", "/v1/completions", json.dumps({"prompt": "Once", "temperature": 0}))
        assert one.json["choices"][0]["text"] == greedy("Once", 16)


def test_metrics(server: Server, client: OpenAI) -> None:
    client.completions.create(model="tiny", prompt="x")
    text = ask(server, "GET", "/metrics", None, TOKEN).body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("openrknn_llm"))
    assert float(values['openrknn_llm_requests_total{model="tiny",outcome="OK"}']) >= 1
    assert float(values['openrknn_llm_generated_tokens_total{model="tiny"}']) >= 16
    assert float(values['openrknn_llm_first_token_seconds_count{model="tiny"}']) >= 1
    assert float(values['openrknn_llm_tokens_per_second{model="tiny"}']) > 0
    assert float(values['openrknn_llm_waiting{model="tiny"}']) == 0
