"""Thoughts of models apart from their answers, fields that nobody knows, shares of clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.serve.asking import PATIENCE, ask, helpers
from tests.serve.languages import greedy, open_fake_language
from tests.serve.sessions import until

if TYPE_CHECKING:
    from ollama import Client
    from openai import OpenAI

TOOL: Any = {"type": "function", "function": {"name": "now"}}
CALL = '<tool_call>{"name": "now"}</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    files = [tmp_path_factory.mktemp("llm") / name for name in ("thinker.gguf", "tiny.gguf")]
    for file in files:
        file.write_bytes(b"x" * 100)
    settings = Settings(
        [], llms=list(map(str, files)), http_port=0, grpc_port=None, workers=IN_PROCESS, llm_client_requests=3
    )  # fmt: skip
    with running(settings, open_language=open_fake_language) as started:
        yield started


@pytest.fixture(scope="module")
def openai(server: Server) -> Iterator[OpenAI]:
    from openai import OpenAI

    with OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE, max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def ollama(server: Server) -> Iterator[Client]:
    from ollama import Client

    made = Client(host=server.url, timeout=PATIENCE)
    yield made
    made._client.close()


def said(text: str) -> Any:
    return [{"role": "user", "content": f"SAY:{text}|"}]


@pytest.mark.parametrize(
    ("model", "text"), [("thinker", "So it is.\n</think>\n\n4!"), ("tiny", "<think>\nSo it is.\n</think>\n\n4!")]
)
def test_openai(openai: OpenAI, model: str, text: str) -> None:
    create = openai.chat.completions.create
    whole = create(model=model, messages=said(text))
    message = whole.choices[0].message
    assert (message.content, message.model_extra) == ("4!", {"reasoning_content": "So it is."})
    assert whole.usage is not None
    assert whole.usage.completion_tokens_details is not None
    assert 10 < (whole.usage.completion_tokens_details.reasoning_tokens or 0) < len(text)
    thought = answer = ""
    for chunk in create(model=model, messages=said(text), stream=True):
        delta = chunk.choices[0].delta
        thought += (delta.model_extra or {}).get("reasoning_content", "")
        answer += delta.content or ""
    assert (thought, answer) == ("So it is.", "4!")


def test_ollama(ollama: Client) -> None:
    whole = ollama.chat(model="thinker", messages=said("Hm.</think>4"), think=True)
    assert (whole.message.thinking, whole.message.content) == ("Hm.", "4")
    parts = list(ollama.chat(model="thinker", messages=said("Hm.</think>4"), think="high", stream=True))
    assert "".join(part.message.thinking or "" for part in parts) == "Hm."
    assert "".join(part.message.content or "" for part in parts) == "4"
    assert ollama.chat(model="thinker", messages=said("4"), think=False).message.content == "4"
    text = ollama.generate(model="thinker", prompt="SAY:Hm.</think>4|", think=True)
    assert (text.thinking, text.response) == ("Hm.", "4")
    assert ollama.show("thinker").capabilities == ["completion", "thinking"]
    raw = ollama.generate(model="thinker", prompt="SAY:<think>x</think>4|", raw=True)
    assert raw.response == "<think>x</think>4"


def test_thoughts_and_tools(openai: OpenAI, ollama: Client) -> None:
    text = f"I need two.</think>{CALL}\n{CALL}"
    words: Any = {"model": "thinker", "messages": said(text), "tools": [TOOL]}
    (choice,) = openai.chat.completions.create(**words).choices
    assert len(choice.message.tool_calls or ()) == 2
    assert choice.message.model_extra == {"reasoning_content": "I need two."}
    chunks = list(openai.chat.completions.create(**words, stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    # The same call twice is two calls.
    assert [call.index for call in calls] == [0, 1]
    assert len({call.id for call in calls}) == 2
    (choice,) = openai.chat.completions.create(**words, parallel_tool_calls=False).choices
    assert len(choice.message.tool_calls or ()) == 1
    found = ollama.chat(model="thinker", messages=words["messages"], tools=[TOOL]).message
    assert (found.thinking, len(found.tool_calls or ())) == ("I need two.", 2)


def test_a_constrained_answer_is_no_thought(openai: OpenAI) -> None:
    pytest.importorskip("llguidance")
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": {"n": 1}}}}
    found = openai.chat.completions.create(model="thinker", messages=said("x"), response_format=form)
    assert json.loads(found.choices[0].message.content or "") == {"n": 1}


def test_earlier_thoughts_reach_the_template(openai: OpenAI, ollama: Client) -> None:
    messages: Any = [{"role": "assistant", "content": "4", "reasoning_content": "Hm."}, *said("5")]
    found = openai.chat.completions.create(
        model="thinker", messages=messages, reasoning_effort="none", extra_body={"chat_template_kwargs": {}}
    )
    assert found.choices[0].message.content == "5"
    messages = [{"role": "assistant", "content": "4", "thinking": "Hm."}, *said("5")]
    assert ollama.chat(model="thinker", messages=messages, think=False).message.content == "5"


@pytest.mark.parametrize(
    ("path", "words", "reason"),
    [
        ("/v1/chat/completions", {"temprature": 1}, "did you mean 'temperature'"),
        ("/v1/chat/completions", {"guided_json": {}}, "use 'response_format'"),
        ("/v1/chat/completions", {"modalities": ["audio"]}, "'modalities' is not known here"),
        ("/v1/chat/completions", {"verbosity": "low"}, "it can only be 'medium'"),
        ("/v1/chat/completions", {"functions": []}, "use 'tools'"),
        ("/v1/chat/completions", {"reasoning_effort": "high"}, "does not support thinking"),
        ("/v1/chat/completions", {"reasoning_effort": "very"}, "'reasoning_effort' is none"),
        ("/v1/completions", {"prompt": "x", "min_tokens": 9}, "'min_tokens'"),
        ("/v1/embeddings", {"input": "x", "input_type": "query"}, "'input_type'"),
        ("/api/chat", {"temperature": 1}, "belongs into 'options'"),
        ("/api/chat", {"options": {"mirostat": 2}}, "'options.mirostat' is not known here"),
        ("/api/chat", {"options": {"heat": 2}}, "it would be ignored"),
        ("/api/chat", {"think": True}, "does not support thinking"),
        ("/api/chat", {"think": 7}, "'think' is"),
        ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["AA=="]}]}, "text only"),
        ("/api/chat", {"logprobs": True}, "/v1/chat/completions has"),
        ("/api/generate", {"prompt": "x", "suffix": "y"}, "'suffix'"),
        ("/api/embed", {"input": "x", "normalize": 0}, "'normalize'"),
        ("/api/pull", {"model": "llama3"}, "cannot pull models"),
        ("/api/delete", {"model": "tiny"}, "was started with"),
    ],
)
def test_what_is_not_known_is_named(server: Server, path: str, words: dict[str, Any], reason: str) -> None:
    messages = {"messages": said("x")} if path.endswith(("chat", "chat/completions")) else {}
    answer = ask(server, "POST", path, json.dumps({"model": "tiny", **messages, **words}))
    assert answer.status in {400, 403, 404}
    assert reason in answer.error


def test_what_changes_no_answer_is_taken(server: Server, ollama: Client) -> None:
    body = {"model": "tiny", "prompt": "Once", "temperature": 0, "max_tokens": 9, "user": "me", "store": True,
            "metadata": {"a": "b"}, "service_tier": "auto", "seed": None, "unheard_of": None}  # fmt: skip
    found = ask(server, "POST", "/v1/completions", json.dumps(body))
    assert found.json["choices"][0]["text"] == greedy("Once", 9)
    options: Any = {"temperature": 0, "num_predict": 9, "num_ctx": 8192, "num_gpu": 99, "mirostat": 0,
                    "mirostat_tau": 5, "repeat_penalty": 1.0}  # fmt: skip
    assert ollama.generate(model="tiny", prompt="Once", raw=True, options=options).response == greedy("Once", 9)
    assert ollama.pull("tiny").status == "success"
    assert [part.status for part in ollama.pull("tiny", stream=True)] == ["success"]


def test_a_client_has_its_share(server: Server) -> None:
    language = server.plane.languages.find("tiny")
    body = json.dumps({"model": "tiny", "prompt": "slow!", "max_tokens": 60, "n": 3, "ignore_eos": True})
    with helpers(1) as threads:
        first = threads.submit(ask, server, "POST", "/v1/completions", body)
        until(lambda: language.active == 3)
        refused = ask(server, "POST", "/api/generate", json.dumps({"model": "tiny", "prompt": "x"}))
        assert first.result().status == 200
    assert refused.status == 429
    assert "has 3 requests to model 'tiny' and may have 3" in refused.error
    until(lambda: language.active == 0)
    assert not language._of_clients
