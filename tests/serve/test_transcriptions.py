"""What a voice of many languages gives OpenAI's own client: values, words, log probabilities, translations, names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from openrknn.serve.voice.names import code_of_language, is_usual_name, name_of_language
from openrknn.serve.voice.voices import split_name
from openrknn.voice.results import compression_ratio
from tests.serve.asking import PATIENCE
from tests.serve.voices import make_sets, open_fake, wav

if TYPE_CHECKING:
    from openai import OpenAI

SAID = ("speech.wav", wav(1, 2, 3), "audio/wav")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A plain voice first, and one that knows more under two names of its own."""
    folder = tmp_path_factory.mktemp("voices")
    (ears,), (polyglot,) = make_sets(folder, "ears"), make_sets(folder, "polyglot")
    voices = [ears, polyglot, f"gpt-4o-transcribe={polyglot}"]
    settings = Settings([], voices=voices, http_port=0, grpc_port=None, workers="in-process")
    with running(settings, open_voice=open_fake) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", timeout=PATIENCE, max_retries=0) as made:
        yield made


def test_verbose_values_are_the_models_own(client: OpenAI) -> None:
    found = client.audio.transcriptions.create(
        model="polyglot", file=SAID, language="English", response_format="verbose_json", temperature=0.4,
        timestamp_granularities=["word", "segment"],
    )  # fmt: skip
    assert (found.language, found.text) == ("english", "one two three")
    first = (found.segments or [])[0]
    assert (first.tokens, first.temperature, first.no_speech_prob) == ([1], 0.4, 0.25)
    assert first.avg_logprob == pytest.approx(math.log(0.5), abs=1e-4)
    assert first.compression_ratio == pytest.approx(compression_ratio("one"), abs=1e-4)
    assert [(one.word, one.start, one.end) for one in found.words or ()] == [
        ("one", 0.25, 1.0), ("two", 1.25, 2.0), ("three", 2.25, 3.0),
    ]  # fmt: skip
    words = client.audio.transcriptions.create(
        model="polyglot", file=SAID, response_format="verbose_json", timestamp_granularities=["word"]
    )
    assert (words.segments, len(words.words or ())) == (None, 3)


def test_languages_prompts_and_keywords_reach_the_model(client: OpenAI) -> None:
    create = client.audio.transcriptions.create
    detected = create(model="polyglot", file=SAID, response_format="verbose_json")
    assert (detected.language, detected.text) == ("german", "eins eins eins")
    assert create(model="polyglot", file=SAID, language="fr-CA").text == "eins eins eins"
    assert create(model="polyglot", file=SAID, language="en", prompt="drei").text == "one two drei"
    assert create(model="polyglot", file=SAID, extra_body={"languages": ["en"], "keywords": ["drei"]}).text.endswith(
        "drei"
    )
    found = create(model="polyglot", file=SAID, extra_body={"languages": ["fr", "de"]})
    assert (found.model_extra or {}).get("languages", getattr(found, "languages", None)) is not None


def test_how_sure_it_is_of_each_token(client: OpenAI) -> None:
    create = client.audio.transcriptions.create
    found = create(model="gpt-4o-transcribe", file=SAID, language="en", include=["logprobs"])
    rows = [(one.token, bytes(map(int, one.bytes or ())), one.logprob) for one in found.logprobs or ()]
    assert [row[:2] for row in rows] == [(" one", b" one"), (" two", b" two"), (" three", b" three")]
    assert all(log == pytest.approx(math.log(0.5), abs=1e-4) for *_, log in rows)
    *deltas, done = create(model="gpt-4o-transcribe", file=SAID, language="en", include=["logprobs"], stream=True)
    assert done.type == "transcript.text.done"
    assert len(done.logprobs or ()) == sum(len(getattr(one, "logprobs", None) or ()) for one in deltas) == 3


def test_translations(client: OpenAI) -> None:
    create = client.audio.translations.create
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client calls it deprecated
        # The first voice cannot: a program that names none of ours gets one that can.
        assert create(model="whisper-1", file=SAID).text.startswith("one in English")
        found: Any = create(model="polyglot", file=SAID, response_format="verbose_json")
        assert "00:00:01,000" in create(model="polyglot", file=SAID, response_format="srt")
    assert (found.language, found.model_extra["task"], len(found.segments or ())) == ("english", "translate", 3)


def test_names(server: Server, client: OpenAI) -> None:
    import openai

    assert [one.id for one in client.models.list()] == ["ears", "polyglot", "gpt-4o-transcribe"]
    assert client.models.retrieve("gpt-4o-transcribe").model_extra == {
        "kind": "transcriber", "language": "en", "languages": ["en", "de", "fr"], "tasks": ["transcribe", "translate"],
        "rate": 16000, "speakers": [], "licence": "MIT",
    }  # fmt: skip
    create = client.audio.transcriptions.create
    assert len(server.plane.voices.all()) == 2, "two names, one voice"
    for name in ("whisper-1", "gpt-transcribe", "gpt-4o-mini-transcribe-2025-12-15"):
        assert create(model=name, file=SAID).text == "one two three"
    with pytest.raises(openai.NotFoundError, match="there is no voice 'whisper-2'") as caught:
        create(model="whisper-2", file=SAID)
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.BadRequestError, match="timestamp_granularities") as wrong:
        create(model="ears", file=SAID, response_format="verbose_json", timestamp_granularities=["word"])
    assert wrong.value.param == "timestamp_granularities"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gpt-4o-transcribe-diarize", "transcriber"), ("gpt-live-transcribe", "transcriber"),
        ("gpt-realtime-whisper", "transcriber"), ("whisper-1", "transcriber"), ("tts-1-hd-1106", "speaker"),
        ("gpt-4o-mini-tts-2025-12-15", "speaker"),
    ],
)  # fmt: skip
def test_names_of_openai(name: str, kind: str) -> None:
    assert is_usual_name(name, kind)
    assert not is_usual_name(name, "speaker" if kind == "transcriber" else "transcriber")
    assert not is_usual_name(f"{name}x", kind)


def test_names_of_languages_and_of_sets(tmp_path: Any) -> None:
    assert [code_of_language(one) for one in ("German", "de_AT", " EN-us ", "xx")] == ["de", "de", "en", "xx"]
    assert [name_of_language(one) for one in ("zh-TW", "en", "xx")] == ["chinese", "english", "xx"]
    (tmp_path / "a=b").mkdir()
    assert split_name("whisper-1=whisper-base") == ("whisper-1", "whisper-base")
    assert split_name(f"me={tmp_path}/a=b") == ("me", f"{tmp_path}/a=b")
    assert split_name(f"{tmp_path}/a=b") == ("", f"{tmp_path}/a=b")
