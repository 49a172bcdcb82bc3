"""Wyoming with Home Assistant's own client, unmodified; and with clients that mean harm."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice
from wyoming.wake import Detect, Detection

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from openrknn.serve.timeouts import timeout
from openrknn.serve.wyoming import codec
from openrknn.serve.wyoming.sound import Form
from tests.serve.asking import PATIENCE
from tests.serve.voices import make_sets, open_fake, pcm, say


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sets = make_sets(tmp_path_factory.mktemp("voices"))
    settings = Settings(
        [], voices=sets, http_port=0, grpc_port=None, wyoming="tcp://127.0.0.1:0", limits=Limits(audio_seconds=20),
        workers="in-process",
    )  # fmt: skip
    with running(settings, open_voice=open_fake) as started:
        yield started


def talk(server: Server, what: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with timeout(PATIENCE), AsyncClient.from_uri(server.wyoming_address) as client:
            return await what(client)

    return asyncio.run(work())


async def send_sound(client: AsyncClient, samples: Any, *, rate: int = 16000, channels: int = 1) -> None:
    await client.write_event(AudioStart(rate, 2, channels).event())
    sound = pcm(np.repeat(samples, channels))
    for at in range(0, len(sound), 8192):
        await client.write_event(AudioChunk(rate, 2, channels, sound[at : at + 8192]).event())
    await client.write_event(AudioStop().event())


async def until_type(client: AsyncClient, *last: str) -> list[Event]:
    """All events up to one of these types."""
    found: list[Event] = []
    while not found or found[-1].type not in last:
        event = await client.read_event()
        assert event is not None, f"it ended after {[one.type for one in found]}"
        found.append(event)
    return found


def test_what_it_can_do(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[Info, Pong]:
        await client.write_event(Describe().event())
        (about,) = await until_type(client, "info")
        await client.write_event(Ping("hello").event())
        (pong,) = await until_type(client, "pong")
        return Info.from_event(about), Pong.from_event(pong)

    about, pong = talk(server, work)
    assert pong.text == "hello"
    (asr,), (tts,), (wake,) = about.asr, about.tts, about.wake
    assert (asr.name, [(one.name, one.languages) for one in asr.models]) == ("openrknn", [("ears", ["en"])])
    assert (asr.supports_transcript_streaming, tts.supports_synthesize_streaming) == (True, True)
    assert [one.name for one in tts.voices[0].speakers or ()] == ["low", "loud"]
    assert [(one.name, one.phrase) for one in wake.models] == [("hey", "hey")]
    assert about.handle == about.intent == []


@pytest.mark.parametrize(("rate", "channels"), [(16000, 1), (48000, 2)])
def test_speech_to_text(server: Server, rate: int, channels: int) -> None:
    async def work(client: AsyncClient) -> list[Event]:
        await client.write_event(Transcribe(language="en").event())
        await send_sound(client, say(1, 2, 3, rate=rate), rate=rate, channels=channels)
        return await until_type(client, "transcript-stop", "error")

    events = talk(server, work)
    assert [one.type for one in events] == [
        "transcript-start", *["transcript-chunk"] * 3, "transcript", "transcript-stop",
    ]  # fmt: skip
    assert "".join(TranscriptChunk.from_event(one).text for one in events[1:4]) == "one two three"
    assert Transcript.from_event(events[4]).text == "one two three"


def test_silence_is_an_empty_text(server: Server) -> None:
    async def work(client: AsyncClient) -> list[Event]:
        await send_sound(client, say(0))  # without `transcribe`: what else could it want?
        return await until_type(client, "transcript")

    (only,) = talk(server, work)
    assert Transcript.from_event(only).text == ""


def test_text_to_speech(server: Server) -> None:
    async def work(client: AsyncClient) -> list[Event]:
        voice = SynthesizeVoice(name="mouth", speaker="loud")
        await client.write_event(Synthesize("Hello. You", voice=voice).event())
        return await until_type(client, "audio-stop", "error")

    start, *chunks, _ = talk(server, work)
    assert AudioStart.from_event(start).rate == 22050
    sound = np.frombuffer(b"".join(AudioChunk.from_event(one).audio for one in chunks), "<i2")
    assert (len(sound), set(sound)) == (8 * 2205, {round(0.5 * 32767)})


def test_text_that_comes_in_pieces_is_said_a_sentence_at_a_time(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[int, list[Event]]:
        await client.write_event(SynthesizeStart(voice=SynthesizeVoice(name="mouth")).event())
        for piece in ("Hel", "lo. ", "Y"):
            await client.write_event(SynthesizeChunk(piece).event())
        # The first sentence is heard before the second is known.
        first = 0
        while first < 5 * 2205:
            event = await client.read_event()
            assert event is not None
            first += len(event.payload or b"") // 2
        await client.write_event(SynthesizeChunk("ou").event())
        await client.write_event(Synthesize("Hello. You").event())  # for servers that know no pieces
        await client.write_event(SynthesizeStop().event())
        return first, await until_type(client, "synthesize-stopped", "error")

    first, rest = talk(server, work)
    assert first == 5 * 2205, "'Hello' and nothing of the next"
    assert [one.type for one in rest[-2:]] == ["audio-stop", "synthesize-stopped"]
    assert sum(len(one.payload or b"") for one in rest) == 2 * 3 * 2205


def test_a_wake_word(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[list[Event], list[Event]]:
        await client.write_event(Detect(names=["hey"]).event())
        await send_sound(client, say(1, 2, 9, 9))
        heard = await until_type(client, "detection", "not-detected", "error")
        await client.write_event(Detect().event())
        await send_sound(client, say(1, 2))
        return heard, await until_type(client, "detection", "not-detected", "error")

    (heard,), (unheard,) = talk(server, work)
    found = Detection.from_event(heard)
    assert found.name == "hey"
    assert found.timestamp == pytest.approx(2000, abs=1)
    assert unheard.type == "not-detected"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Transcribe(name="nobody").event(), "there is no voice 'nobody'"),
        (Transcribe(language="de").event(), "understands 'en'"),
        (Detect(names=["computer"]).event(), "there is no voice 'computer'"),
        (Synthesize("Hello", voice=SynthesizeVoice(name="mouth", speaker="x")).event(), "no speaker"),
        (Synthesize("x" * 5000).event(), "4096 at a time"),
        (Event("synthesize", {"text": 5}), "what to say"),
        (Event("detect", {"names": 5}), "list of wake words"),
        (AudioStart(16000, 1, 1).event(), "width 1"),
        (AudioStart(1, 2, 1).event(), "rate 1"),
        (Event("audio-start", {"rate": True, "width": 2, "channels": []}), "not understood"),
    ],
)
def test_mistakes_are_told_and_the_connection_goes_on(server: Server, event: Event, reason: str) -> None:
    async def work(client: AsyncClient) -> Event:
        await client.write_event(Event("nobody-knows-this", {"a": 1}, b"bytes"))
        await client.write_event(AudioChunk(16000, 2, 1, bytes(100)).event())
        await client.write_event(event)
        (error,) = await until_type(client, "error")
        await client.write_event(Ping().event())
        await until_type(client, "pong")
        return error

    assert reason in Error.from_event(talk(server, work)).text


def test_sound_has_an_end(server: Server) -> None:
    async def work(client: AsyncClient) -> Event:
        await send_sound(client, np.zeros(16000 * 21, np.float32))
        return (await until_type(client, "error", "transcript"))[-1]

    assert "20 s at a time" in Error.from_event(talk(server, work)).text


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n", b"[]\n", b"{}\n", b'{"type": 5}\n', b'{"type": "ping", "data": []}\n',
        b'{"type": "ping", "data_length": 99999999}\n', b'{"type": "ping", "payload_length": -1}\n',
        b'{"type": "ping", "data_length": true}\n', b"[" * 60_000 + b"\n", b"x" * 70_000,
        b'{"type": "ping", "data_length": 2}\n[]', b'{"type": "ping", "data_length": 2}\n\xff\xff',
    ],
)  # fmt: skip
def test_what_is_not_the_protocol_ends_the_connection(server: Server, line: bytes) -> None:
    where = urlsplit(server.wyoming_address)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=PATIENCE) as connection:
        connection.sendall(line)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    (error,) = codec.Decoder().feed(answer)
    assert (error.type, error.data["code"]) == ("error", "INVALID_ARGUMENT")


def test_idle_connections_make_room(server: Server) -> None:
    where = urlsplit(server.wyoming_address)
    place = (where.hostname or "", where.port or 0)
    many = [socket.create_connection(place, timeout=PATIENCE) for _ in range(70)]
    try:

        async def ping(client: AsyncClient) -> Event | None:
            await client.write_event(Ping("there?").event())
            return await client.read_event()

        assert Pong.from_event(talk(server, ping)).text == "there?"
    finally:
        for one in many:
            one.close()


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "voice.sock"
    settings = Settings(
        [], voices=make_sets(tmp_path)[:1], http_port=0, grpc_port=None, wyoming=f"unix://{path}", workers="in-process"
    )

    async def work(client: AsyncClient) -> list[Event]:
        await client.write_event(Describe().event())
        return await until_type(client, "info")

    with running(settings, open_voice=open_fake) as server:
        (about,) = talk(server, work)
        assert (len(about.data["asr"]), about.data["tts"]) == (1, [])
    assert not path.exists()
    with (
        pytest.raises(UnsupportedError, match="tcp://HOST:PORT"),
        running(Settings([], voices=[], http_port=0, grpc_port=None, wyoming="http://x")),
    ):
        pass


# -- the codec -------------------------------------------------------------------------------------------------------

WORDS = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=4)
EVENTS = st.lists(st.builds(codec.Event, st.text(max_size=9), WORDS, st.binary(max_size=20)), max_size=4)


@hypothesis_settings(max_examples=40, deadline=None)
@given(EVENTS, st.integers(1, 50))
def test_events_arrive_however_they_are_cut(events: list[codec.Event], size: int) -> None:
    wire = b"".join(map(codec.encode, events))
    decoder = codec.Decoder()
    found = [one for at in range(0, len(wire), size) for one in decoder.feed(wire[at : at + size])]
    assert found == events


@given(
    st.lists(
        st.sampled_from(
            [b'{"type":"a"', b',"data":{}', b',"payload_length":3', b',"data_length":2', b"}", b"\n", b"{}x"]
        )
    )
)
def test_any_bytes_are_events_or_an_error(pieces: list[bytes]) -> None:
    decoder = codec.Decoder()
    try:
        found = [one for piece in pieces for one in decoder.feed(piece)]
    except ServeError:
        return
    assert all(len(one.payload) in {0, 3} for one in found)


def test_the_real_package_reads_what_we_write() -> None:
    import io

    from wyoming.event import read_event, write_event

    event = codec.Event("x", {"text": "ü", "n": [1]}, b"\0\n")
    theirs = read_event(io.BytesIO(codec.encode(event)))
    assert theirs is not None
    assert (theirs.type, theirs.data, theirs.payload) == ("x", event.data, event.payload)
    stream = io.BytesIO()
    write_event(theirs, stream)
    (again,) = codec.Decoder().feed(stream.getvalue())
    assert again == event
    inline = json.dumps({"type": "x", "data": {"text": "a"}}).encode() + b"\n"  # as old versions write it
    assert codec.Decoder().feed(inline) == [codec.Event("x", {"text": "a"})]


@given(st.binary(max_size=64), st.sampled_from([2, 3, 4]), st.integers(1, 3))
def test_samples_of_any_form(payload: bytes, width: int, channels: int) -> None:
    samples = Form.of({"rate": 16000, "width": width, "channels": channels}).samples(payload)
    assert (samples.dtype, len(samples)) == (np.dtype("<i2"), len(payload) // (width * channels))
    if width == 4 and channels == 1:
        whole = np.frombuffer(payload[: len(payload) // 4 * 4], "<i4")
        assert (samples == whole >> 16).all()


def test_forms_that_cannot_be() -> None:
    for words in ({}, {"rate": 16000, "width": 2, "channels": 99}, {"rate": 16000.0, "width": 2, "channels": 1}):
        with pytest.raises(BadRequestError, match="not understood"):
            Form.of(words)
