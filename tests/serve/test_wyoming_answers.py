"""Wyoming: whatever goes wrong is told, and whoever waits for the end of an answer gets it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import SelectProgram
from wyoming.ping import Ping
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice
from wyoming.wake import Detect

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from openrknn.serve.timeouts import timeout
from tests.serve.asking import PATIENCE
from tests.serve.test_wyoming import talk, until_type
from tests.serve.voices import make_sets, open_fake, pcm, say


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With voices in processes of their own: one of them crashes."""
    sets = make_sets(tmp_path_factory.mktemp("voices"))
    settings = Settings(
        [], voices=sets, http_port=0, grpc_port=None, wyoming="tcp://127.0.0.1:0", limits=Limits(audio_seconds=20)
    )
    with running(settings, open_voice=open_fake) as started:
        yield started


def chunk(*digits: int) -> Event:
    return AudioChunk(16000, 2, 1, pcm(say(*digits))).event()


CRASH = AudioChunk(16000, 2, 1, np.full(100, -32768, "<i2").tobytes()).event()
START, STOP = AudioStart(16000, 2, 1).event(), AudioStop().event()


async def told(client: AsyncClient, *events: Event) -> list[Event]:
    """What comes back, up to the answer to a ping at the end."""
    for event in (*events, Ping().event()):
        await client.write_event(event)
    return (await until_type(client, "pong"))[:-1]


def types(events: list[Event]) -> list[str]:
    return [one.type for one in events]


def test_an_error_in_the_middle_of_the_sound_is_told_and_its_end_is_answered(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[list[Event], list[Event]]:
        first = await told(client, Transcribe().event(), START, chunk(1, 2), CRASH, chunk(3), STOP)
        return first, await told(client, Transcribe().event(), START, chunk(4), STOP)

    first, second = talk(server, work)
    assert types(first) == [
        "transcript-start", "transcript-chunk", "transcript-chunk", "error", "transcript", "transcript-stop",
    ]  # fmt: skip
    assert "SIGSEGV" in Error.from_event(first[3]).text
    assert Transcript.from_event(first[4]).text == "", "half of a command is worse than none"
    assert Transcript.from_event(second[-2]).text == "four", "the voice is back, on the same connection"


def test_sound_for_a_voice_that_was_refused_is_not_heard_by_another(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[list[Event], list[Event], list[Event]]:
        german = await told(client, Transcribe(language="de").event(), START, chunk(1), STOP)
        nobody = await told(client, Detect(names=["computer"]).event(), START, chunk(9), STOP)
        return german, nobody, await told(client, START, chunk(1), STOP)

    german, nobody, wake = talk(server, work)
    assert types(german) == ["error", "transcript"]
    assert Transcript.from_event(german[1]).text == ""
    assert types(nobody) == types([*nobody[:1], Event("not-detected")]) == ["error", "not-detected"]
    assert types(wake) == ["not-detected"], "what was asked for last, without a name"


def test_languages_and_names_reach_the_model(tmp_path: Path) -> None:
    voices = [*make_sets(tmp_path, "ears"), *make_sets(tmp_path, "polyglot")]
    settings = Settings(
        [], voices=voices, http_port=0, grpc_port=None, wyoming="tcp://127.0.0.1:0", workers="in-process"
    )  # fmt: skip

    async def work(client: AsyncClient) -> list[Transcript]:
        asked = [
            Transcribe(language="de-AT"), Transcribe(name="polyglot", language="en", transcript_names=["drei"]),
            Transcribe(name="polyglot"), Transcribe(),
        ]  # fmt: skip
        rows = [await told(client, one.event(), START, chunk(3), STOP) for one in asked]
        wrong = await told(client, Event("transcribe", {"transcript_terms": [5]}))
        assert types(wrong) == ["error"]
        return [Transcript.from_event(next(one for one in row if one.type == "transcript")) for row in rows]

    with running(settings, open_voice=open_fake) as started:
        found = talk(started, work)
    assert [(one.text, one.language) for one in found] == [
        ("eins", "de"), ("drei", "en"), ("eins", "de"), ("three", "en"),
    ]  # fmt: skip


def test_sound_without_a_beginning_says_itself_what_it_is(server: Server) -> None:
    async def work(client: AsyncClient) -> tuple[list[Event], list[Event]]:
        return await told(client, Transcribe().event(), chunk(5), STOP), await told(client, STOP)

    heard, nothing = talk(server, work)
    assert Transcript.from_event(heard[-2]).text == "five"
    assert types(nothing) == ["transcript"]


@pytest.mark.parametrize("speaker", ["loud", "nobody"])
def test_speech_that_fails_ends(server: Server, speaker: str) -> None:
    """Of pieces nothing is said twice: the whole text that comes with them is for servers without pieces."""
    voice = SynthesizeVoice(name="mouth", speaker=speaker)
    long = "x" * 5000 + ". "

    async def work(client: AsyncClient) -> tuple[list[Event], list[Event], list[Event]]:
        pieces = [SynthesizeChunk("Hello. ").event(), SynthesizeChunk(long).event(), SynthesizeChunk("You. ").event()]
        whole = Synthesize(f"Hello. {long}You. ", voice=voice).event()
        first = await told(client, SynthesizeStart(voice=voice).event(), *pieces, whole, SynthesizeStop().event())
        alone = await told(client, Synthesize(long, voice=voice).event())
        await told(client, SynthesizeStart(voice=voice).event(), *pieces)  # and nobody ends it
        return first, alone, await told(client, Synthesize("You").event())

    first, alone, fresh = talk(server, work)
    is_known = speaker == "loud"
    begun = ["audio-start", *["audio-chunk"] * 6, "error", "audio-stop"] if is_known else ["error"]
    assert types(first) == [*begun, "synthesize-stopped"]
    assert types(alone) == ["error", "audio-stop"]
    assert types(fresh)[-1] == "audio-stop"
    assert "error" not in types(fresh)


def test_programs_and_formats_that_are_not_here(server: Server) -> None:
    async def work(client: AsyncClient) -> list[Event]:
        return await told(
            client, SelectProgram("openrknn").event(), SelectProgram("piper").event(),
            Synthesize("Hello", text_format="ssml").event(), Synthesize("Hello", text_format="rtf").event(),
            SynthesizeStart(text_format="ssml").event(), SynthesizeStop().event(),
            Event("synthesize-chunk", {"text": 5}), SynthesizeStart().event(), Event("synthesize-chunk", {"text": 5}),
            SynthesizeStop().event(),
        )  # fmt: skip

    events = talk(server, work)
    assert types(events) == [
        "error", *["error", "audio-stop"] * 2, *["error", "synthesize-stopped"] * 2,
    ]  # fmt: skip
    assert "there is no program 'piper'" in Error.from_event(events[0]).text


def test_a_mistake_of_ours_is_told_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("a mistake")

    monkeypatch.setattr("openrknn.serve.wyoming.listening.Form.of", broken)

    async def work(client: AsyncClient) -> list[Event]:
        return await told(client, Transcribe().event(), START, chunk(1), STOP)

    events = talk(server, work)
    assert types(events) == ["error", "transcript"]
    assert "internal error" in Error.from_event(events[0]).text


def test_many_streams_at_the_same_time_lose_nothing(server: Server) -> None:
    """More than the voice serves at a time: the others wait for their turn. Some go away in the middle."""

    async def one(number: int) -> str:
        async with AsyncClient.from_uri(server.wyoming_address) as client:
            await client.write_event(START)
            for digit in (number % 9 + 1, 3):
                await client.write_event(chunk(digit))
            if number % 4 == 3:
                return "gone"
            await client.write_event(STOP)
            return Transcript.from_event((await until_type(client, "transcript"))[-1]).text

    async def all_of_them() -> list[str]:
        async with timeout(PATIENCE):
            return await asyncio.gather(*map(one, range(12)))

    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    expected = ["gone" if number % 4 == 3 else f"{words[number % 9]} three" for number in range(12)]
    assert asyncio.run(all_of_them()) == expected


EVENTS = {
    "transcribe": Transcribe().event(), "german": Transcribe(language="de").event(), "detect": Detect().event(),
    "computer": Detect(names=["computer"]).event(), "start": START, "wrong": AudioStart(1, 1, 1).event(),
    "stop": STOP, "quiet": AudioChunk(16000, 2, 1, pcm(say(1))[:3200]).event(),
    "faster": AudioChunk(48000, 2, 1, bytes(100)).event(), "nonsense": Event("audio-chunk", {"rate": []}, b"x"),
    "say": Synthesize("Hi").event(), "nothing": Event("synthesize", {"text": None}), "begin": SynthesizeStart().event(),
    "nobody": SynthesizeStart(voice=SynthesizeVoice(name="nobody")).event(),
    "piece": SynthesizeChunk("Hi. Yo").event(), "hole": Event("synthesize-chunk", {}), "end": SynthesizeStop().event(),
    "unknown": Event("new-thing", {"a": 1}, b"abc"),
}  # fmt: skip


@hypothesis_settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=14))
def test_every_end_is_answered_once_in_any_order_of_events(server: Server, names: list[str]) -> None:
    async def work(client: AsyncClient) -> list[Event]:
        return await told(client, *(EVENTS[name] for name in names))

    found = Counter(types(talk(server, work)))
    assert found["transcript"] + found["not-detected"] == names.count("stop")
    assert found["synthesize-stopped"] == names.count("end")
    assert found["detection"] == 0
    if not {"begin", "nobody"} & set(names):
        assert found["audio-stop"] == names.count("say") + names.count("nothing")
