"""/v1/responses with OpenAI's own client, unmodified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from openrknn.serve.errors import NotFoundError
from openrknn.serve.rest.responses.store import Store, Stored
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.serve.asking import PATIENCE, ask
from tests.serve.languages import chat_prompt, greedy, open_fake_language
from tests.serve.sessions import until

if TYPE_CHECKING:
    from openai import OpenAI

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "Of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("llm")
    for name in ("tiny", "thinker"):
        (folder / f"{name}.gguf").write_bytes(b"x" * 100)
    llms = [f"{name}={folder / name}.gguf" for name in ("tiny", "thinker")]
    settings = Settings([], llms=llms, http_port=0, grpc_port=None, workers=IN_PROCESS)
    with running(settings, open_language=open_fake_language) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", timeout=PATIENCE, max_retries=0) as made:
        yield made


def words(server: Server, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    answer = ask(server, method, path, data)
    return answer.status, answer.json


def test_an_answer_its_usage_and_the_fields_of_its_request(client: OpenAI) -> None:
    found = client.responses.create(
        model="gpt-4o-mini", input="Hello", temperature=0, max_output_tokens=12, metadata={"a": "b"}, user="me",
        store=False, service_tier="auto", prompt_cache_key="k", prompt_cache_retention="24h", safety_identifier="s",
    )  # fmt: skip
    assert found.output_text == greedy(chat_prompt("Hello"), 12)
    assert (found.model, found.status, found.metadata) == ("tiny", "incomplete", {"a": "b"})
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"
    assert found.output[0].type == "message"
    assert found.output[0].status == "incomplete"
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (len(chat_prompt("Hello")), 12)
    assert found.usage.total_tokens == found.usage.input_tokens + 12
    whole = client.responses.create(model="tiny", input=[{"role": "user", "content": "SAY:one|"}])
    assert (whole.output_text, whole.status, whole.incomplete_details) == ("one", "completed", None)
    brief = client.responses.create(
        model="tiny", instructions="Be brief", input="Hello", temperature=0, max_output_tokens=9
    )
    assert brief.output_text == greedy("<s>Be brief</s><u>Hello</u><a>", 9)
    empty = client.responses.create(model="tiny", input="SAY:|")
    assert (empty.output_text, len(empty.output)) == ("", 1)


def test_the_events_of_a_stream(client: OpenAI) -> None:
    with client.responses.stream(
        model="tiny", input="SAY:one two|", include=["message.output_text.logprobs"], top_logprobs=2
    ) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [one.type for one in events]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"
    ]  # fmt: skip
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert len(kinds[4:-4]) > 3
    assert kinds[-4:] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"
    ]  # fmt: skip
    assert [one.sequence_number for one in events] == list(range(len(events)))
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == "one two"
    assert final.output_text == "one two"
    part = final.output[0].content[0]  # type: ignore[union-attr, index]
    assert "".join(one.token for one in part.logprobs or ()) == "one two"  # type: ignore[union-attr]
    assert all(len(one.top_logprobs) == 2 for one in part.logprobs or ())  # type: ignore[union-attr]
    short = list(client.responses.create(model="tiny", input="Hello", max_output_tokens=3, stream=True))
    assert short[-1].type == "response.incomplete"


def test_functions_are_called_and_their_outputs_come_back(client: OpenAI) -> None:
    first = client.responses.create(model="tiny", input=f"SAY:{CALL}|", tools=[WEATHER])
    (call,) = first.output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments), first.output_text) == ("weather", {"city": "Rome"}, "")
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    second = client.responses.create(
        model="tiny", input=[output], previous_response_id=first.id, tools=[WEATHER], temperature=0, max_output_tokens=5
    )
    tool = {"type": "function", "function": {name: one for name, one in WEATHER.items() if name != "type"}}
    prompt = f"tools={json.dumps([tool])}<u>SAY:{CALL}|</u><a></a><t>sun</t><a>"
    assert second.usage is not None
    assert second.usage.input_tokens == len(prompt)
    listed = client.responses.input_items.list(second.id, order="asc", limit=2)
    assert [one.type for one in listed] == ["message", "function_call", "function_call_output"]
    assert listed.has_more
    by_hand: Any = [{"role": "user", "content": f"SAY:{CALL}|"}, call.model_dump(), output]
    again = client.responses.create(model="tiny", input=by_hand, tools=[WEATHER], temperature=0, max_output_tokens=5)
    assert again.output_text == second.output_text
    events = list(client.responses.create(model="tiny", input=f"SAY:{CALL}|", tools=[WEATHER], stream=True))
    assert [one.type.removeprefix("response.") for one in events[2:]] == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip


def test_schemas_and_forced_calls(client: OpenAI) -> None:
    pytest.importorskip("llguidance")
    form: Any = {"format": {"type": "json_schema", "name": "city", "schema": WEATHER["parameters"], "strict": True}}
    found = client.responses.create(model="tiny", input="Hello", text=form, max_output_tokens=60)
    assert json.loads(found.output_text)["city"] in {"Rome", "Oslo"}
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    other: Any = {**WEATHER, "name": "time", "parameters": nothing}
    choices: list[Any] = [
        {"type": "function", "name": "time"}, {"type": "allowed_tools", "mode": "required", "tools": [other]}
    ]  # fmt: skip
    for choice in choices:
        called = client.responses.create(model="tiny", input="Hello", tools=[WEATHER, other], tool_choice=choice)
        assert [(one.type, getattr(one, "name", "")) for one in called.output] == [("function_call", "time")]


def test_thoughts_are_items_of_their_own(client: OpenAI) -> None:
    text = "SAY:hm</think>yes|"
    found = client.responses.create(model="thinker", input=text)
    thought, message = found.output
    assert thought.type == "reasoning"
    assert [one.text for one in thought.content or ()] == ["hm"]
    assert (message.type, found.output_text) == ("message", "yes")
    assert found.usage is not None
    assert found.usage.output_tokens_details.reasoning_tokens > 0
    summed = client.responses.create(model="thinker", input=text, reasoning={"summary": "auto", "effort": "low"})
    assert summed.output[0].type == "reasoning"
    assert [one.text for one in summed.output[0].summary] == ["hm"]
    kinds = [one.type.removeprefix("response.") for one in client.responses.create(
        model="thinker", input=text, stream=True)]  # fmt: skip
    assert kinds.index("reasoning_text.done") < kinds.index("output_text.delta")
    summaries = [one.type for one in client.responses.create(
        model="thinker", input=text, reasoning={"summary": "auto"}, stream=True)]  # fmt: skip
    assert "response.reasoning_summary_text.delta" in summaries
    plain = client.responses.create(model="thinker", input="SAY:yes|", reasoning={"effort": "none"})
    assert [one.type for one in plain.output] == ["message"]


def test_responses_are_stored_and_deleted(client: OpenAI, server: Server) -> None:
    import openai

    first = client.responses.create(model="tiny", input="SAY:one|")
    assert client.responses.retrieve(first.id).output_text == "one"
    second = client.responses.create(
        model="tiny", input="Hello", previous_response_id=first.id, temperature=0, max_output_tokens=8
    )
    prompt = "<u>SAY:one|</u><a>one</a><u>Hello</u><a>"
    assert second.output_text == greedy(prompt, 8)
    assert second.previous_response_id == first.id
    newest, *rest = client.responses.input_items.list(second.id)
    assert newest.type == "message"
    assert newest.content[0].text == "Hello"  # type: ignore[union-attr]
    assert len(rest) == 2
    reference: Any = [{"type": "item_reference", "id": rest[-1].id}]
    assert client.responses.create(model="tiny", input=reference).output_text == "one"
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="tiny", input="x", previous_response_id=first.id)
    kept = client.responses.create(model="tiny", input="SAY:one|", store=False)
    assert words(server, "GET", f"/v1/responses/{kept.id}")[0] == 404
    assert client.responses.input_tokens.count(model="tiny", input="Hello").input_tokens == len(chat_prompt("Hello"))


def test_responses_in_the_background(client: OpenAI, server: Server) -> None:
    begun = client.responses.create(model="tiny", input="SAY:one|", background=True)
    assert begun.status in {"queued", "in_progress"}
    until(lambda: client.responses.retrieve(begun.id).status == "completed")
    assert client.responses.retrieve(begun.id).output_text == "one"
    endless = client.responses.create(model="tiny", input="slow!", background=True)
    until(lambda: client.responses.retrieve(endless.id).status == "in_progress")
    assert client.responses.cancel(endless.id).status == "cancelled"
    until(lambda: server.plane.languages.find("tiny").active == 0)
    assert client.responses.retrieve(endless.id).status == "cancelled"
    again = client.responses.create(model="tiny", input="slow!", background=True)
    client.responses.delete(again.id)
    until(lambda: server.plane.languages.find("tiny").active == 0)
    status, body = words(server, "POST", f"/v1/responses/{client.responses.create(input='SAY:a|').id}/cancel")
    assert (status, "background" in body["error"]["message"]) == (400, True)


def test_long_conversations_are_truncated_where_that_is_asked(client: OpenAI) -> None:
    import openai

    long: Any = [{"role": "system", "content": "S"}, *({"role": "user", "content": "x" * 60} for _ in range(40))]
    with pytest.raises(openai.BadRequestError, match="context"):
        client.responses.create(model="tiny", input=long, max_output_tokens=4)
    found = client.responses.create(model="tiny", input=long, max_output_tokens=4, truncation="auto", temperature=0)
    assert found.usage is not None
    kept = (512 - 4 - len("<s>S</s><a>")) // len(f"<u>{'x' * 60}</u>")
    assert found.usage.input_tokens == len("<s>S</s><a>") + kept * len(f"<u>{'x' * 60}</u>")
    with pytest.raises(openai.BadRequestError, match="context"):
        client.responses.create(model="tiny", input=[*long, {"role": "user", "content": "y" * 600}], truncation="auto")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0] is of type 'web_search'; this server has no"),
        ({"input": "x", "tool_choice": {"type": "file_search"}, "tools": [WEATHER]}, "'file_search'"),
        ({"input": "x", "conversation": "c"}, "previous_response_id"),
        ({"input": "x", "max_tokens": 3}, "max_output_tokens"),
        ({"input": "x", "text": {"verbosity": "low"}}, "text.verbosity"),
        ({"input": "x", "include": ["file_search_call.results"]}, "'include'"),
        ({"input": "x", "truncation": "some"}, "'truncation'"),
        ({"input": "x", "background": True, "stream": True}, "'background' and 'stream'"),
        ({"input": "x", "background": True, "store": False}, "'store'"),
        ({"input": "x", "reasoning": {"effort": "high"}}, "does not support thinking"),
        ({"input": "x", "metadata": {"a": 1}}, "'metadata'"),
        ({"input": []}, "'input'"),
        ({"input": [{"type": "computer_call"}]}, "input[0] is of type 'computer_call'"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "takes text only"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "'c'"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "["}]}, "arguments"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "not stored"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, "encrypted_content"),
        ({"input": "x", "tools": [], "tool_choice": {"type": "allowed_tools", "tools": [{"name": "n"}]}}, "not in"),
    ],
)  # fmt: skip
def test_what_is_not_here_is_named(server: Server, body: dict[str, Any], said: str) -> None:
    status, answer = words(server, "POST", "/v1/responses", {"model": "tiny", **body})
    assert (status, said in answer["error"]["message"]) == (400, True), answer


def test_lists_of_input_items_are_bounded(client: OpenAI, server: Server) -> None:
    one = client.responses.create(model="tiny", input="SAY:a|").id
    for query in ("limit=0", "limit=x", "order=up", "after=nothing"):
        assert words(server, "GET", f"/v1/responses/{one}/input_items?{query}")[0] == 400
    assert words(server, "GET", f"/v1/responses/{one}?stream=true")[0] == 400


def test_the_oldest_responses_make_room() -> None:
    def stored(name: str, size: int = 1) -> Stored:
        return Stored({"id": name, "output": []}, ({"id": f"item-{name}", "text": "x" * size},))

    store = Store(most_responses=2, most_bytes=500)
    for name in "abc":
        store.keep(stored(name))
    assert [store.is_kept(name) for name in "abc"] == [False, True, True]
    assert store.item("item-c") is not None
    assert store.item("item-a") is None
    store.keep(stored("d", 400))
    assert [store.is_kept(name) for name in "bcd"] == [False, False, True]
    store.keep(stored("e"))
    assert [store.is_kept(name) for name in "de"] == [False, True]
    store.delete("e")
    with pytest.raises(NotFoundError):
        store.delete("e")
