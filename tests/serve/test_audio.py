"""/v1/audio with OpenAI's own client, unmodified."""

from __future__ import annotations

import base64
import http.client
import io
import json
import threading
import warnings
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.errors import RknnError
from openrknn.serve.errors import ServeError
from openrknn.serve.rest.multipart import parse_form
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from openrknn.serve.voice import encode
from tests.serve.asking import PATIENCE, ask
from tests.serve.sessions import until
from tests.serve.voices import HANG, FakeTranscriber, make_sets, open_fake, pcm, say, wav

if TYPE_CHECKING:
    from openai import OpenAI  # takes seconds to import: only the tests that use it do


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sets = make_sets(tmp_path_factory.mktemp("voices"))[:2]
    limits = Limits(audio_seconds=60, text_characters=1000)
    settings = Settings([], voices=sets, http_port=0, grpc_port=None, token="sesame", limits=limits)
    with running(settings, open_voice=open_fake) as started:
        assert started.plane.ready_problem() == ""
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sesame", timeout=PATIENCE, max_retries=0) as made:
        yield made


TOKEN = {"Authorization": "Bearer sesame"}
SAID = ("speech.wav", wav(1, 2, 3), "audio/wav")


def samples_of(body: bytes) -> tuple[int, np.ndarray[Any, Any]]:
    with wave.open(io.BytesIO(body)) as file:
        return file.getframerate(), np.frombuffer(file.readframes(1 << 24), "<i2")


# -- listening -------------------------------------------------------------------------------------------------------


def test_a_recording_becomes_text(client: OpenAI) -> None:
    for model in ("ears", "whisper-1"):
        found = client.audio.transcriptions.create(model=model, file=SAID, language="en", prompt="Sums", temperature=0)
        assert found.text == "one two three"
    # Of another rate, and longer than one piece on its way to the voice.
    long = wav(*[4, 5] * 15, rate=48000)
    assert len(long) > 2 << 20
    assert client.audio.transcriptions.create(model="ears", file=("x.wav", long)).text == " ".join(["four five"] * 15)


def test_the_formats_of_a_transcript(client: OpenAI) -> None:
    create = client.audio.transcriptions.create
    assert create(model="ears", file=SAID, response_format="text").strip() == "one two three"
    assert "00:00:01,000 --> 00:00:02,000\ntwo" in create(model="ears", file=SAID, response_format="srt")
    assert create(model="ears", file=SAID, response_format="vtt").startswith("WEBVTT\n\n00:00:00.000 --> ")
    found = create(model="ears", file=SAID, response_format="verbose_json", timestamp_granularities=["segment"])
    assert (found.language, found.duration, found.text) == ("english", 3.0, "one two three")
    assert [(one.id, one.start, one.end, one.text) for one in found.segments or ()] == [
        (0, 0.0, 1.0, "one"), (1, 1.0, 2.0, "two"), (2, 2.0, 3.0, "three"),
    ]  # fmt: skip


def test_a_transcript_as_it_grows(client: OpenAI) -> None:
    events = list(client.audio.transcriptions.create(model="ears", file=SAID, stream=True))
    assert [one.type for one in events] == [*["transcript.text.delta"] * 3, "transcript.text.done"]
    assert "".join(one.delta for one in events if one.type == "transcript.text.delta") == "one two three"
    last = events[-1]
    assert last.type == "transcript.text.done"
    assert last.text == "one two three"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"file": ("x.wav", b"RIFF\0\0\0\0WAVEjunk")}, "the sound"),
        ({"file": ("x.wav", b"")}, "empty"),
        ({"file": ("x.wav", wav(*[1] * 61))}, "60 s at a time"),
        ({"language": "de"}, "understands 'en'"),
        ({"response_format": "yaml"}, "response_format"),
        ({"timestamp_granularities": ["word"]}, "come with response_format=verbose_json"),
        ({"temperature": 7}, "temperature"),
        ({"model": "mouth"}, "text to speech"),
        ({"include": ["logprobs"]}, "does not tell log probabilities"),
        ({"response_format": "diarized_json"}, "voice get resemblyzer"),
        ({"known_speaker_names": ["Ada"]}, "response_format=diarized_json"),
        ({"chunking_strategy": {"type": "server_vad", "threshold": 7}}, "'threshold' is a number from 0 to 1"),
        ({"chunking_strategy": {"type": "semantic_vad"}}, "semantic_vad is not available"),
        ({"chunking_strategy": "never"}, "'auto' or an object"),
    ],
)
def test_what_cannot_be_transcribed(
    client: OpenAI, words: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    for more in ({}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match=reason) as caught:
            client.audio.transcriptions.create(**{"model": "ears", "file": SAID, **words, **more})
        assert caught.value.type == "invalid_request_error"


def test_what_is_no_text_is_not_streamed(client: OpenAI) -> None:
    import openai

    for form in ("srt", "vtt", "verbose_json"):
        with pytest.raises(openai.BadRequestError, match=f"no {form}"):
            client.audio.transcriptions.create(model="ears", file=SAID, response_format=form, stream=True)


def data_url(*digits: int) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(wav(*digits)).decode()}"


def test_who_says_what(client: OpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resemblyzer").mkdir()
    row = {"format": 1, "name": "resemblyzer", "family": "resemblyzer", "kind": "embedding", "rate": 16000}
    (tmp_path / "resemblyzer" / "voice.json").write_text(json.dumps(row))
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    words: dict[str, Any] = {"model": "ears", "file": ("x.wav", wav(8, 2, 9)), "response_format": "diarized_json"}
    found = client.audio.transcriptions.create(**words, chunking_strategy="auto")
    assert (found.task, found.duration, found.text) == ("transcribe", 3.0, "eight two nine")
    assert [(one.speaker, one.text, one.start, one.end) for one in found.segments] == [
        ("A", "eight", 0.0, 1.0), ("B", "two", 1.0, 2.0), ("A", "nine", 2.0, 3.0)
    ]  # fmt: skip
    assert found.segments[0].type == "transcript.text.segment"
    known = {"known_speaker_names": ["Ada"], "known_speaker_references": [data_url(3)]}
    found = client.audio.transcriptions.create(**words, extra_body=known)
    assert [one.speaker for one in found.segments] == ["A", "Ada", "A"]
    events = list(client.audio.transcriptions.create(**words, stream=True))
    assert [one.type for one in events] == [
        *["transcript.text.delta"] * 3, *["transcript.text.segment"] * 3, "transcript.text.done"
    ]  # fmt: skip
    assert [one.speaker for one in events if one.type == "transcript.text.segment"] == ["A", "B", "A"]
    import openai

    for wrong, reason in (
        ({"known_speaker_names": ["Ada", "Bob"], "known_speaker_references": [data_url(3)]}, "same length"),
        ({"known_speaker_names": ["Ada"], "known_speaker_references": ["https://example.org/ada.wav"]}, "data URL"),
        ({"known_speaker_names": ["Ada"], "known_speaker_references": [data_url(*[1] * 31)]}, "needs 1 to 30 s"),
    ):
        with pytest.raises(openai.BadRequestError, match=reason):
            client.audio.transcriptions.create(**words, extra_body=wrong)


def test_a_client_sets_how_speech_is_split(client: OpenAI) -> None:
    numbers: Any = {"type": "server_vad", "threshold": 0.9, "silence_duration_ms": 300}
    assert client.audio.transcriptions.create(model="ears", file=SAID, chunking_strategy=numbers).text == "two three"


def test_translations_are_refused_in_words(client: OpenAI) -> None:
    import openai

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client calls it deprecated
        with pytest.raises(openai.BadRequestError, match="does not translate"):
            client.audio.translations.create(model="whisper-1", file=SAID)


def test_a_recording_that_crashes_its_voice_ends_nothing_else(server: Server, client: OpenAI) -> None:
    import openai

    (before,) = server.plane.voices.find("ears", "transcriber").pids()
    bomb = io.BytesIO()
    with wave.open(bomb, "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(np.full(100, -32768, "<i2").tobytes())
    with pytest.raises(openai.InternalServerError, match="SIGSEGV"):
        client.audio.transcriptions.create(model="ears", file=("x.wav", bomb.getvalue()))
    assert client.audio.transcriptions.create(model="ears", file=SAID).text == "one two three"
    voice = server.plane.voices.find("ears", "transcriber")
    assert (voice.restarts, list(voice.pids()) != [before]) == (1, True)


# -- speaking --------------------------------------------------------------------------------------------------------


def test_text_becomes_sound(client: OpenAI) -> None:
    create = client.audio.speech.create
    for model, voice in (("mouth", "mouth"), ("tts-1", "alloy"), ("mouth", "low")):
        rate, samples = samples_of(create(model=model, voice=voice, input="Hello. You", response_format="wav").content)
        assert (rate, len(samples), set(samples)) == (22050, 8 * 2205, {round(0.25 * 32767)})
    _, loud = samples_of(create(model="mouth", voice="loud", input="Hello", response_format="wav").content)
    assert set(loud) == {round(0.5 * 32767)}
    _, slow = samples_of(create(model="mouth", voice="low", input="Hello", response_format="wav", speed=0.5).content)
    assert len(slow) == 2 * 5 * 2205
    # Bare samples are taken for 24 kHz by everybody.
    assert len(create(model="mouth", voice="low", input="Hello", response_format="pcm").content) == 2 * 5 * 2400


def test_sound_as_it_is_made(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="mouth", voice="low", input="Hello. You", response_format="wav"
    ) as answer:
        whole = b"".join(answer.iter_bytes())
    assert len(whole) == 44 + 2 * 8 * 2205
    sent = client.audio.speech.create(
        model="mouth", voice="low", input="Hello. You", response_format="pcm", stream_format="sse"
    )
    events = [json.loads(line[6:]) for line in sent.content.decode().splitlines() if line.startswith("data: {")]
    assert [one["type"] for one in events[-2:]] == ["speech.audio.delta", "speech.audio.done"]
    sound = b"".join(base64.b64decode(one["audio"]) for one in events[:-1])
    assert len(sound) == 2 * 8 * 2400


@pytest.mark.parametrize("form", ["mp3", "flac", "opus", "aac"])
def test_other_formats_or_a_reason(client: OpenAI, form: Any) -> None:
    import openai

    if not encode.can_encode(form):
        with pytest.raises(openai.BadRequestError, match="it can give wav, pcm"):
            client.audio.speech.create(model="mouth", voice="low", input="Hello", response_format=form)
        return
    content = client.audio.speech.create(model="mouth", voice="low", input="Hello", response_format=form).content
    assert content[:4] in {b"fLaC", b"OggS"} or content[0] == 0xFF or content[:3] == b"ID3"


def test_a_request_without_a_format_is_answered(client: OpenAI) -> None:
    answer = client.audio.speech.create(model="mouth", voice="low", input="Hello")
    assert answer.response.headers["content-type"] == encode.FORMATS[encode.usual_format()]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"input": ""}, "no text"),
        ({"input": " . "}, "nothing in this text"),
        ({"input": "x" * 1001}, "1000 at a time"),
        ({"voice": "nobody"}, "there is no voice 'nobody'"),
        ({"voice": "7"}, "speaker 7 is not one"),
        ({"speed": 9}, "speed"),
        ({"response_format": "midi"}, "response_format"),
        ({"stream_format": "fax"}, "stream_format"),
        ({"instructions": "Whisper it."}, "speak in one manner"),
        ({"input": 5}, "input"),
        ({"model": "ears"}, "speech to text"),
    ],
)
def test_what_cannot_be_said(client: OpenAI, words: dict[str, Any], reason: str) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match=reason):
        client.audio.speech.create(**{"model": "mouth", "voice": "low", "input": "Hello", **words})


# -- all of them -----------------------------------------------------------------------------------------------------


def test_the_list_of_voices(client: OpenAI) -> None:
    import openai

    assert [one.id for one in client.models.list()] == ["ears", "mouth"]
    assert client.models.retrieve("mouth").model_extra == {
        "kind": "speaker", "language": "en", "languages": ["en"], "tasks": [], "rate": 22050,
        "speakers": ["low", "loud"], "licence": "MIT",
    }  # fmt: skip
    with pytest.raises(openai.NotFoundError, match="/v1/models"):
        client.models.retrieve("nothing")


def test_errors_have_the_shape_that_clients_know(server: Server) -> None:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError, match="requires a token") as caught:
            stranger.models.list()
        assert caught.value.code == "invalid_api_key"
    for path, status in (("/v1/nothing", 404), ("/v1/audio/speech", 405)):
        answer = ask(server, "GET", path, headers=TOKEN)
        assert (answer.status, bool(answer.json["error"]["message"])) == (status, True)


def test_live_text(server: Server) -> None:
    session = ask(server, "POST", "/v1/audio/live?model=ears&rate=48000", headers=TOKEN).json["id"]
    sound = pcm(say(3, 4, rate=48000))
    texts = []
    for at in range(0, len(sound), 24000):  # a quarter of a second
        path = f"/v1/audio/live/{session}" + ("?end=1" if at + 24000 >= len(sound) else "")
        answer = ask(server, "POST", path, sound[at : at + 24000], TOKEN).json
        texts.append(answer["text"])
    assert texts[2] == "three", "before the first second is over"
    assert (texts[-1], answer["done"], answer["seconds"]) == ("three four", True, 2.0)
    assert ask(server, "POST", f"/v1/audio/live/{session}", b"", TOKEN).status == 404
    session = ask(server, "POST", "/v1/audio/live", headers=TOKEN).json["id"]
    assert ask(server, "DELETE", f"/v1/audio/live/{session}", headers=TOKEN).status == 200
    for wrong in ("rate=x", "language=de", "task=translate"):
        assert ask(server, "POST", f"/v1/audio/live?{wrong}", headers=TOKEN).status == 400
    session = ask(server, "POST", "/v1/audio/live", headers=TOKEN).json["id"]
    assert ask(server, "POST", f"/v1/audio/live/{session}?end=maybe", b"", TOKEN).status == 400
    assert ask(server, "POST", f"/v1/audio/live/{session}", b"odd", TOKEN).status == 400


def test_a_voice_has_room_for_some_and_hangs_for_nobody(tmp_path: Any) -> None:
    limits = Limits(request_seconds=0.3)
    settings = Settings(
        [], voices=make_sets(tmp_path)[:2], http_port=0, grpc_port=None, voice_streams=1, queue_size=1, limits=limits
    )
    with running(settings, open_voice=open_fake) as server:
        silent = [ask(server, "POST", "/v1/audio/live").json["id"] for _ in range(4)]  # they take no stream

        def speaks(session: str) -> Any:
            return ask(server, "POST", f"/v1/audio/live/{session}", bytes(3200))

        assert speaks(silent[0]).status == 200
        waits = speaks(silent[1])
        assert (waits.status, "busy" in waits.json["error"]["message"]) == (504, True)
        assert ask(server, "POST", f"/v1/audio/live/{silent[2]}?end=1").json["done"]  # never said anything
        ask(server, "DELETE", f"/v1/audio/live/{silent[0]}")
        until(lambda: speaks(ask(server, "POST", "/v1/audio/live").json["id"]).status == 200)
        words = '{"input": "%s", "response_format": "wav"}'
        mouth = server.plane.voices.find("mouth", "speaker")
        patience, mouth.run_seconds = mouth.run_seconds, 1.0
        answer = ask(server, "POST", "/v1/audio/speech", words % HANG)
        mouth.run_seconds = patience  # on a slow machine others are slow, too
        assert (answer.status, "no answer within 1 s" in answer.json["error"]["message"]) == (500, True)
        assert ask(server, "POST", "/v1/audio/speech", words % "Hello").status == 200
        metrics = ask(server, "GET", "/metrics").body.decode()
        assert 'openrknn_voice_requests_total{kind="speaker",outcome="OK",voice="mouth"} 1.0' in metrics
        assert 'openrknn_voice_restarts_total{kind="speaker",voice="mouth"} 1.0' in metrics
        assert 'openrknn_voice_audio_seconds_total{kind="speaker",voice="mouth"} 0.5' in metrics


def test_voices_in_process(tmp_path: Any) -> None:
    import openai

    sets = make_sets(tmp_path)
    settings = Settings([], voices=sets, http_port=0, grpc_port=None, workers="in-process")
    with running(settings, open_voice=open_fake) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", timeout=PATIENCE) as client:
            assert client.audio.transcriptions.create(model="ears", file=SAID).text == "one two three"
            assert client.audio.speech.create(model="mouth", voice="low", input="Hello", response_format="wav").content
        assert server.plane.voices.pids() == []


def test_a_client_that_goes_away_costs_one_step(tmp_path: Any) -> None:
    import openai

    gate, steps = threading.Event(), []

    class Slow(FakeTranscriber):
        def stream(self, *, partial: float = 0.25, options: Any = None, rules: Any = None) -> Any:
            made = super().stream(partial=partial, options=options, rules=rules)
            feed = made.feed

            def slow(samples: Any) -> Any:
                steps.append(len(samples))
                assert gate.wait(PATIENCE)
                return feed(samples)

            made.feed = slow  # type: ignore[method-assign]
            return made

    settings = Settings(
        [], voices=make_sets(tmp_path)[:1], http_port=0, grpc_port=None, workers="in-process", voice_streams=1
    )
    with running(settings, open_voice=lambda *_: Slow()) as server:
        voice = server.plane.voices.find("ears", "transcriber")
        where = urlsplit(server.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
        head = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="x.wav"\r\n\r\n'
        body = head + wav(*[1] * 60) + b"\r\n--XX--\r\n"
        connection.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": TYPE})
        until(lambda: len(steps) == 1)
        connection.close()
        until(lambda: voice.stats.failures == {"CANCELLED": 1})
        gate.set()
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", timeout=PATIENCE) as client:
            assert client.audio.transcriptions.create(model="ears", file=SAID).text == "one two three"
        assert len(steps) == 2


def test_a_voice_that_cannot_be_opened_ends_the_server(tmp_path: Any) -> None:
    ears, mouth, hey = make_sets(tmp_path)
    for voices, reason in (
        ([ears, str(tmp_path / "nothing")], "voice get"),
        ([ears, ears], "another voice 'ears'"),
        ([ears, mouth, hey], "it is broken"),
    ):
        settings = Settings([], voices=voices, http_port=0, grpc_port=None, workers="in-process")
        with pytest.raises(RknnError, match=reason), running(settings, open_voice=open_some):
            pass


def open_some(where: str, kind: str, device: str) -> Any:
    if kind == "wake":
        raise RknnError("it is broken")
    return open_fake(where, kind, device)


# -- forms -----------------------------------------------------------------------------------------------------------

TYPE = "multipart/form-data; boundary=XX"


def test_forms_are_read_as_they_are_meant() -> None:
    body = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        b'\r\n--X\0\r\n\r\n--XX\r\ncontent-disposition: form-data; name="model"\r\n\r\nears\r\n--XX--\r\n'
    )
    parts = parse_form(body, TYPE)
    assert [(part.name, bytes(part.content), part.file) for part in parts] == [
        ("file", b"\r\n--X\0\r\n", "a.wav"), ("model", b"ears", None),
    ]  # fmt: skip


HEAD = b'Content-Disposition: form-data; name="a"'


@given(st.lists(st.sampled_from([b"--XX", b"\r\n", b"--", HEAD, b"x", b"\r\n\r\n"])))
def test_hostile_forms_end_in_an_error_or_in_parts(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    try:
        parts = parse_form(body, TYPE)
    except ServeError:
        return
    assert sum(len(part.content) for part in parts) <= len(body)
