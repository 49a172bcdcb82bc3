"""/v1/realtime with OpenAI's own client, unmodified; and with clients that err."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from openrknn.serve.client_secrets import ClientSecrets
from openrknn.serve.realtime.formats import samples_of
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.asking import PATIENCE
from tests.serve.sessions import until
from tests.serve.voices import make_sets, open_fake, pcm, say

if TYPE_CHECKING:
    from openai import OpenAI

# The openai package calls the websockets package in a way that its newest version deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
ITEM = "conversation.item.input_audio_transcription"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("voices")
    voices = [*make_sets(folder, "ears"), *make_sets(folder, "polyglot")]
    settings = Settings([], voices=voices, http_port=0, grpc_port=None, token="sesame", voice_streams=2)
    with running(settings, open_voice=open_fake) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sesame", timeout=PATIENCE, max_retries=0) as made:
        yield made


def connected(client: OpenAI) -> Any:
    return client.realtime.connect(extra_query={"intent": "transcription"})


def append(connection: Any, *digits: int, size: int = 6000, rate: int = 24000) -> None:
    # A little silence behind it: what changes the rate of sound holds its last samples back.
    sound = pcm(np.concatenate([say(*digits, rate=rate), np.zeros(rate // 20, np.float32)]))
    for at in range(0, len(sound), 2 * size):
        connection.input_audio_buffer.append(audio=base64.b64encode(sound[at : at + 2 * size]).decode())


def until_type(connection: Any, *last: str) -> list[Any]:
    found: list[Any] = []
    while not found or found[-1].type not in last:
        found.append(connection.recv())
    return found


def session(**heard: Any) -> dict[str, Any]:
    return {"type": "transcription", "audio": {"input": heard}}


def test_text_comes_while_somebody_speaks(client: OpenAI) -> None:
    with connected(client) as connection:
        (created,) = until_type(connection, "session.created")
        assert created.session.type == "transcription"
        connection.session.update(
            session=session(
                transcription={"model": "gpt-4o-transcribe", "language": "en"},
                turn_detection={"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 900},
                noise_reduction={"type": "near_field"},
            )
        )  # fmt: skip
        (updated,) = until_type(connection, "session.updated", "error")
        told = updated.to_dict()["session"]["audio"]["input"]
        wanted = {"type": "server_vad", "threshold": 0.4, "prefix_padding_ms": 200, "silence_duration_ms": 900}
        assert told["turn_detection"] == wanted
        assert told["noise_reduction"] is None
        append(connection, 1, 2)
        first = until_type(connection, f"{ITEM}.completed")
        second = until_type(connection, f"{ITEM}.completed")
    assert [one.type for one in first] == [
        "input_audio_buffer.speech_started", f"{ITEM}.delta", "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done", f"{ITEM}.completed",
    ]  # fmt: skip
    started, delta, stopped, committed, added, _, completed = first
    assert (started.audio_start_ms, delta.delta, stopped.audio_end_ms, completed.transcript) == (0, "one", 1000, "one")
    assert {one.item_id for one in (started, delta, stopped, committed, completed)} == {added.item.id}
    assert completed.usage.seconds == 1.0
    assert second[-1].transcript == "two"
    assert second[3].previous_item_id == completed.item_id


def test_each_session_has_its_own_numbers(client: OpenAI) -> None:
    with connected(client) as strict, connected(client) as usual:
        for connection in (strict, usual):
            until_type(connection, "session.created")
        for wrong, reason in (
            ({"type": "semantic_vad", "eagerness": "low"}, "semantic_vad is not available"),
            ({"type": "server_vad", "silence_duration_ms": 5}, "'silence_duration_ms' is a number from 100"),
            ({"type": "server_vad", "threshold": "high"}, "'threshold' is a number"),
        ):
            strict.session.update(session=session(turn_detection=wrong))
            assert reason in until_type(strict, "session.updated", "error")[-1].error.message
        strict.session.update(session=session(turn_detection={"type": "server_vad", "threshold": 0.9}))
        until_type(strict, "session.updated")
        for connection in (strict, usual):
            append(connection, 1, 2)
        heard = [until_type(connection, f"{ITEM}.completed")[-1].transcript for connection in (strict, usual)]
    assert heard == ["two", "one"]


def test_a_browser_needs_no_token_but_a_secret(server: Server, client: OpenAI) -> None:
    import openai
    from websockets.exceptions import InvalidStatus

    wanted = session(transcription={"model": "polyglot", "language": "en"}, turn_detection=None)
    made = client.realtime.client_secrets.create(
        session=cast("Any", wanted), expires_after={"anchor": "created_at", "seconds": 60}
    )
    assert made.value.startswith("ek_")
    told: Any = made.session.to_dict()
    assert told["audio"]["input"]["turn_detection"] is None
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=made.value, timeout=PATIENCE, max_retries=0) as browser:
        with connected(browser) as connection:
            (created,) = until_type(connection, "session.created")
            assert created.session.to_dict()["audio"]["input"]["transcription"]["model"] == "polyglot"
            append(connection, 3)
            connection.input_audio_buffer.commit()
            assert until_type(connection, f"{ITEM}.completed", "error")[-1].transcript == "three"
        with pytest.raises(openai.AuthenticationError):  # it opens sessions, and nothing else
            browser.realtime.client_secrets.create()
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="ek_guessed", timeout=PATIENCE) as guesser,
        pytest.raises(InvalidStatus, match="401"),
        connected(guesser),
    ):
        pass
    for wrong, reason in (
        ({"expires_after": {"anchor": "created_at", "seconds": 5}}, "10 to 7200"),
        ({"session": {"type": "realtime"}}, "sessions of type 'realtime'"),
    ):
        with pytest.raises(openai.BadRequestError, match=reason):
            client.realtime.client_secrets.create(**cast("Any", wrong))


def test_secrets_expire() -> None:
    now = [1000.0]
    kept = ClientSecrets(lambda: now[0])
    key, until = kept.make("a session", 60)
    assert (until, kept.find(f"Bearer {key}"), kept.find(f"Basic {key}"), kept.find(None)) == (
        1060, "a session", None, None
    )  # fmt: skip
    now[0] = 1060.0
    assert kept.find(f"Bearer {key}") is None


def test_a_client_that_says_itself_when_it_is_over(client: OpenAI) -> None:
    with connected(client) as connection:
        until_type(connection, "session.created")
        wanted = {"model": "polyglot", "language": "en", "prompt": "drei"}
        connection.session.update(
            session={
                **session(transcription=wanted, turn_detection=None, format={"type": "audio/pcm", "rate": 24000}),
                "include": ["item.input_audio_transcription.logprobs"],
            }
        )
        refused = until_type(connection, "session.updated", "error")[-1]
        assert "does not tell log probabilities" in refused.error.message, "the first voice is meant until the update"
        connection.session.update(session=session(transcription=wanted, turn_detection=None))
        until_type(connection, "session.updated")
        logs = ["item.input_audio_transcription.logprobs"]
        connection.session.update(session={"type": "transcription", "include": logs})
        assert until_type(connection, "session.updated", "error")[-1].to_dict()["session"]["include"] == logs
        append(connection, 3, 4)
        connection.input_audio_buffer.commit()
        found = until_type(connection, f"{ITEM}.completed", "error")
        assert found[0].type == "input_audio_buffer.committed"
        assert (found[-1].transcript, [one.token for one in found[-1].logprobs]) == ("drei four", [" three", " four"])
        connection.input_audio_buffer.commit()
        (empty,) = until_type(connection, "error")
        assert empty.error.code == "input_audio_buffer_commit_empty"
        append(connection, 5)
        connection.input_audio_buffer.clear()
        assert until_type(connection, "input_audio_buffer.cleared", "error")[-1].type.endswith("cleared")
        append(connection, 6)
        connection.input_audio_buffer.commit()
        assert until_type(connection, f"{ITEM}.completed", "error")[-1].transcript == "six"


def test_mistakes_are_told_and_the_session_goes_on(client: OpenAI) -> None:
    with connected(client) as connection:
        until_type(connection, "session.created")
        for event, reason in (
            ({"type": "response.create"}, "are not known in a session that transcribes"),
            ({"type": "session.update", "session": {"type": "realtime"}}, "the type is 'transcription'"),
            ({"type": "session.update", "session": session(transcription={"model": "nobody"})}, "no voice 'nobody'"),
            ({"type": "session.update", "session": session(transcription={"language": "de"})}, "understands 'en'"),
            ({"type": "session.update", "session": session(format={"type": "audio/mp3"})}, "the format is one of"),
            ({"type": "session.update", "session": session(format={"type": "audio/pcm", "rate": 1})}, "8000 to 48000"),
            ({"type": "session.update", "session": session(format={"type": ["audio/pcm"]})}, "the format is one of"),
            ({"type": "session.update", "session": session(format={"type": "audio/pcm", "rate": 0})}, "8000 to 48000"),
            ({"type": "session.update"}, "'session' is an object"),
            ({}, "an event is a JSON object with a 'type'"),
            ({"type": "session.update", "session": session(turn_detection={"type": "x"})}, "server_vad"),
            ({"type": "session.update", "session": 5}, "is an object"),
            ({"type": "input_audio_buffer.append", "audio": "%"}, "not base64"),
            ({"type": "input_audio_buffer.append", "audio": "AA=="}, "even number"),
            ({"type": "input_audio_buffer.append"}, "sound as base64"),
        ):
            connection.send({**event, "event_id": "mine"})
            (error,) = until_type(connection, "error")
            assert reason in error.error.message
            assert error.error.event_id == "mine"
        for raw in ("nonsense", "[1]", "[" * 100_000):
            connection._connection.send(raw)
            assert "is a JSON object with a 'type'" in until_type(connection, "error")[-1].error.message
        connection._connection.send(b"\0\1")
        until_type(connection, "error")
        append(connection, 1)
        assert until_type(connection, f"{ITEM}.completed")[-1].transcript == "one"


def test_a_voice_that_dies_is_told_and_comes_back(client: OpenAI) -> None:
    with connected(client) as connection:
        until_type(connection, "session.created")
        connection.session.update(session=session(format={"type": "audio/pcm", "rate": 16000}))
        until_type(connection, "session.updated")
        bomb = np.full(200, -32768, "<i2").tobytes()
        connection.input_audio_buffer.append(audio=base64.b64encode(pcm(say(3))[:16000]).decode())
        (started,) = until_type(connection, "input_audio_buffer.speech_started")
        connection.input_audio_buffer.append(audio=base64.b64encode(bomb).decode())
        *_, failed, error = until_type(connection, "error")
        assert (failed.type, failed.item_id) == (f"{ITEM}.failed", started.item_id)
        assert (error.error.type, "SIGSEGV" in error.error.message) == ("server_error", True)
        append(connection, 4, rate=16000)
        assert until_type(connection, f"{ITEM}.completed")[-1].transcript == "four"


def test_clients_that_go_away_give_their_streams_back(server: Server, client: OpenAI) -> None:
    voice = server.plane.voices.find("ears", "transcriber")
    for _ in range(3):  # more than there are streams
        with connected(client) as connection:
            until_type(connection, "session.created")
            append(connection, 1)
            until_type(connection, "input_audio_buffer.speech_started")
    with connected(client) as one, connected(client) as two:
        for number, connection in enumerate((one, two)):
            until_type(connection, "session.created")
            append(connection, 7 + number)
        assert [until_type(each, f"{ITEM}.completed")[-1].transcript for each in (one, two)] == ["seven", "eight"]
    until(lambda: voice.waiting == 0)


def test_old_clients_and_browsers(server: Server) -> None:
    from websockets.sync.client import connect

    url = server.url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    protocols: Any = ["realtime", "openai-insecure-api-key.sesame", "openai-beta.realtime-v1"]
    with connect(url, subprotocols=protocols, open_timeout=PATIENCE) as socket:
        assert socket.subprotocol == "realtime"
        assert json.loads(socket.recv())["type"] == "transcription_session.created"
        wanted = {"input_audio_format": "g711_ulaw", "turn_detection": None, "input_audio_noise_reduction": None}
        socket.send(json.dumps({"type": "transcription_session.update", "session": wanted}))
        updated = json.loads(socket.recv())
        assert updated["type"] == "transcription_session.updated"
        assert updated["session"]["input_audio_format"] == "g711_ulaw"
        loud = int(np.argmin(np.abs(samples_of(base64.b64encode(bytes(range(256))).decode(), "audio/pcmu") - 16384)))
        sound = base64.b64encode((bytes([loud]) * 20 + bytes([loud ^ 0x80]) * 20) * 200).decode()
        socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": sound}))
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        types: list[str] = []
        while not types or not types[-1].endswith(("completed", "error")):
            event = json.loads(socket.recv())
            types.append(event["type"])
        assert (types[:2], event["transcript"]) == (
            ["input_audio_buffer.committed", "conversation.item.created"], "five",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/realtime", {}, 401),
        ("/v1/realtime", {"Authorization": "Bearer wrong"}, 401),
        ("/v1/realtime", {"Authorization": "Bearer sesame", "Origin": "http://evil.example"}, 403),
        ("/v1/nothing", {"Authorization": "Bearer sesame"}, 404),
        ("/v1/realtime?model=nobody", {"Authorization": "Bearer sesame"}, 404),
        ("/v1/realtime?intent=songs", {"Authorization": "Bearer sesame"}, 400),
        ("/v1/realtime?call_id=x", {"Authorization": "Bearer sesame"}, 400),
    ],
)
def test_who_is_sent_away(server: Server, path: str, headers: dict[str, str], status: int) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    url = server.url.replace("http", "ws", 1) + path
    with pytest.raises(InvalidStatus) as caught, connect(url, additional_headers=headers, open_timeout=PATIENCE):
        pass
    assert caught.value.response.status_code == status
    assert json.loads(caught.value.response.body or b"{}")["error"]["message"]


def test_an_event_that_is_too_large_ends_the_connection(server: Server) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    url = server.url.replace("http", "ws", 1) + "/v1/realtime"
    with connect(url, additional_headers={"Authorization": "Bearer sesame"}, open_timeout=PATIENCE) as socket:
        socket.recv()
        with contextlib.suppress(ConnectionClosed):
            socket.send("x" * (5 << 20))
        with pytest.raises(ConnectionClosed) as caught:
            socket.recv()
        assert caught.value.rcvd is None or caught.value.rcvd.code == 1009


def test_the_laws_of_telephony() -> None:
    codes = base64.b64encode(bytes([0x00, 0x80, 0x7F, 0xFF, 0x55, 0xD5])).decode()
    assert list(samples_of(codes, "audio/pcmu")[:4]) == [-32124, 32124, 0, 0]
    assert list(samples_of(codes, "audio/pcma")) == [-5504, 5504, -848, 848, -8, 8]
