"""Ollama's interface with its own client, unmodified."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from openrknn.serve.errors import BadRequestError
from openrknn.serve.rest.ollama_options import keep_seconds
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, PROCESSES, Settings
from tests.serve.asking import PATIENCE, ask
from tests.serve.languages import chat_prompt, greedy, open_fake_language
from tests.serve.sessions import until
from tests.serve.test_chat import WEATHER

if TYPE_CHECKING:
    from ollama import Client

USER: Any = [{"role": "user", "content": "Hello"}]
GREEDY: Any = {"temperature": 0, "num_predict": 12, "repeat_penalty": 1.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("llm") / "tiny.gguf"
    file.write_bytes(b"x" * 100)
    settings = Settings([], llms=[str(file)], http_port=0, grpc_port=None, workers=IN_PROCESS)
    with running(settings, open_language=open_fake_language) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    from ollama import Client

    made = Client(host=server.url, timeout=PATIENCE)
    yield made
    made._client.close()


def test_chats(client: Client) -> None:
    wanted = greedy(chat_prompt("Hello"), 12)
    whole = client.chat(model="tiny:latest", messages=USER, options=GREEDY, keep_alive="5m")
    assert (whole.message.content, whole.done, whole.done_reason) == (wanted, True, "length")
    assert (whole.prompt_eval_count, whole.eval_count) == (len(chat_prompt("Hello")), 12)
    parts = list(client.chat(model="tiny", messages=USER, options=GREEDY, stream=True, keep_alive=-1))
    assert "".join(part.message.content or "" for part in parts) == wanted
    assert [part.done for part in parts] == [*[False] * (len(parts) - 1), True]
    assert len(parts) > 5
    assert parts[-1].eval_count == 12


def test_prompts(client: Client) -> None:
    assert client.generate(model="tiny", prompt="Once", raw=True, options=GREEDY).response == greedy("Once", 12)
    told = client.generate(model="tiny", prompt="Hello", options=GREEDY, stream=True)
    assert "".join(part.response or "" for part in told) == greedy(chat_prompt("Hello"), 12)
    system = "<s>Be brief</s><u>Hello</u><a>"
    brief = client.generate(model="tiny", prompt="Hello", system="Be brief", options=GREEDY)
    assert brief.response == greedy(system, 12)
    assert client.generate(model="tiny", prompt="").done_reason == "load"
    stopped = client.generate(model="tiny", prompt="SAY:one two|", options={"stop": ["two"]})
    assert (stopped.response, stopped.done_reason) == ("one ", "stop")
    seeded = [client.generate(model="tiny", prompt="x", options={"seed": 3, "num_predict": 9}).response for _ in "ab"]
    assert seeded[0] == seeded[1] != ""


def test_tools_and_formats(client: Client) -> None:
    text = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    messages: Any = [{"role": "user", "content": f"SAY:{text}|"}]
    whole = client.chat(model="tiny", messages=messages, tools=[WEATHER], options={"temperature": 0})
    assert whole.message.tool_calls is not None
    (call,) = whole.message.tool_calls
    assert (call.function.name, call.function.arguments, whole.message.content) == ("weather", {"city": "Rome"}, "")
    parts = list(client.chat(model="tiny", messages=messages, tools=[WEATHER], stream=True))
    assert [call.function.name for part in parts for call in part.message.tool_calls or ()] == ["weather"]
    pytest.importorskip("llguidance")
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    found = client.chat(model="tiny", messages=USER, format=schema)
    assert json.loads(found.message.content or "")["n"] in {1, 2}


def test_models(client: Client, server: Server) -> None:
    (row,) = client.list().models
    assert (row.model, row.size) == ("tiny:latest", 100)
    assert row.details is not None
    assert (row.details.family, row.details.quantization_level) == ("fake", "Q4_1")
    (running_,) = client.ps().models
    assert (running_.model, running_.context_length) == ("tiny:latest", 512)
    shown = client.show("tiny")
    assert shown.modelinfo is not None
    assert shown.modelinfo["fake.context_length"] == 512
    assert shown.capabilities == ["completion"]
    assert all(part.isdigit() for part in ask(server, "GET", "/api/version").json["version"].split("."))  # Open WebUI


def test_embeddings(client: Client) -> None:
    found = client.embed(model="tiny", input=["ab", "c"])
    assert len(found.embeddings) == 2
    assert sum(one * one for one in found.embeddings[0]) == pytest.approx(1)
    assert list(client.embeddings(model="tiny", prompt="ab").embedding) == list(found.embeddings[0])
    assert found.prompt_eval_count == 3


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"model": "nobody"}, "there are 'tiny'"),
        ({"options": {"temperature": "hot"}}, "'options.temperature'"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"format": "yaml"}, "format"),
        ({"messages": [{"role": "user", "content": "x" * 600}]}, "the context holds 512"),
    ],
)
def test_what_cannot_be_answered(server: Server, words: dict[str, Any], reason: str) -> None:
    answer = ask(server, "POST", "/api/chat", json.dumps({"model": "tiny", "messages": USER, **words}))
    assert answer.status in {400, 404}
    assert reason in answer.error


# -- loading and unloading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), (0, 0), ("0", 0), ("0s", 0), (300, 300), (1.5, 1.5), ("5m", 300), ("1h30m", 5400), ("300ms", 0.3),
        (-1, -1), ("-1", -1), ("-1m", -1), (1e12, -1), ("90", 90),
    ],
)  # fmt: skip
def test_how_long_a_model_is_kept(value: Any, seconds: float | None) -> None:
    assert keep_seconds(value) == seconds


@pytest.mark.parametrize("value", ["", "m", "5x", "5m3", True, [], float("nan"), "1" * 40, "--1"])
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(BadRequestError, match="keep_alive"):
        keep_seconds(value)


@pytest.mark.parametrize("workers", [IN_PROCESS, PROCESSES])
def test_a_model_is_unloaded_and_loaded_again(tmp_path: Path, workers: str) -> None:
    from ollama import Client

    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x" * 100)
    settings = Settings([], llms=[str(file)], http_port=0, grpc_port=None, workers=workers)
    with running(settings, open_language=open_fake_language) as server:
        language, client = server.plane.languages.find("tiny"), Client(host=server.url, timeout=PATIENCE)
        (listed,) = client.ps().models
        assert listed.expires_at is not None
        assert listed.expires_at.year > 2100
        assert client.generate(model="tiny", keep_alive=0).done_reason == "unload"
        assert (client.ps().models, language.is_loaded, list(language.pids())) == ([], False, [])
        assert server.plane.ready_problem() == ""
        again = client.chat(model="tiny", messages=USER, options=GREEDY, keep_alive="1h")
        assert again.message.content == greedy(chat_prompt("Hello"), 12)
        assert (again.load_duration or 0) > 0
        (listed,) = client.ps().models
        assert listed.expires_at is not None
        assert 3000 < listed.expires_at.timestamp() - time.time() <= 3600
        assert client.chat(model="tiny", messages=USER, options=GREEDY).load_duration == 0
        # No stream is lost: what runs finishes first, and the model is unloaded afterwards.
        stream: Any = client.generate(model="tiny", prompt="slow!", stream=True)  # ten contexts long
        next(stream)
        assert client.chat(model="tiny", messages=[], keep_alive=0).done_reason == "unload"
        assert language.is_loaded
        assert [next(stream).done for _ in range(3)] == [False, False, False]
        stream.close()
        until(lambda: not language.is_loaded)
        assert client.chat(model="tiny", messages=[], keep_alive=-1).done_reason == "load"
        assert language.is_loaded
        # A duration that is over: the timer of the loop does the same.
        client.generate(model="tiny", prompt="x", options=GREEDY, keep_alive="1ms")
        until(lambda: not language.is_loaded)
        assert language.restarts == 0
        client._client.close()


def test_a_fixed_server_unloads_nothing_for_a_client(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x" * 100)
    settings = Settings(
        [], llms=[str(file)], http_port=0, grpc_port=None, workers=IN_PROCESS, allow_repository=False
    )  # fmt: skip
    with running(settings, open_language=open_fake_language) as server:
        body = json.dumps({"model": "tiny", "prompt": "x", "keep_alive": 0, "stream": False})
        assert "--fixed" in ask(server, "POST", "/api/generate", body).json["warnings"][0]
        assert server.plane.languages.find("tiny").is_loaded


def test_options_without_effect_are_named(server: Server) -> None:
    body: dict[str, Any] = {"model": "tiny", "messages": USER, "stream": False}
    options = {**GREEDY, "num_ctx": 8192, "num_gpu": 1, "num_thread": 4}
    context, hardware = ask(server, "POST", "/api/chat", json.dumps({**body, "options": options})).json["warnings"]
    assert "options.num_ctx: 8192" in context
    assert "512" in context
    assert "options.num_gpu, options.num_thread: no effect" in hardware
    options = {**GREEDY, "num_ctx": 512}
    assert "warnings" not in ask(server, "POST", "/api/chat", json.dumps({**body, "options": options})).json
    lines = ask(server, "POST", "/api/generate", json.dumps({"prompt": "x", "options": {**GREEDY, "numa": True}})).body
    assert "options.numa" in json.loads(lines.splitlines()[-1])["warnings"][0]


def test_batches_of_embeddings(client: Client) -> None:
    found = client.embed(model="tiny", input=["a", "bc", "def"])
    assert len(found.embeddings) == 3
    assert found.prompt_eval_count == 6
    assert list(found.embeddings[1]) == list(client.embed(model="tiny", input="bc").embeddings[0])
