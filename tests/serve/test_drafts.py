"""Drafts for served language models: n-grams or a smaller model; the text is the one without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openrknn.errors import UnsupportedError
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.opening import SLOW_DRAFTS, open_model
from openrknn.serve.llm.language import FoundLanguage
from openrknn.serve.llm.languages import with_drafts
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.llm.chat_file import write_chat_model
from tests.llm.tiny import llama_weights, write_gguf
from tests.serve.asking import ask
from tests.serve.languages import open_fake_language

GREEDY = Request(Sampling(temperature=0), max_tokens=12, ignore_end=True)


def write(server: Server, prompt: str, tokens: int) -> str:
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    answer = ask(server, "POST", "/v1/completions", json.dumps(body))
    assert answer.status == 200, answer.json
    return str(answer.json["choices"][0]["text"])


@pytest.mark.parametrize("drafts", [{"llm_drafts": 3}, {"llm_draft_models": ["tiny={file}"]}])
def test_drafts_change_the_speed_only(tmp_path: Path, drafts: dict[str, Any]) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x")
    given: dict[str, Any] = {
        name: [text.format(file=file) for text in value] if name.endswith("models") else value
        for name, value in drafts.items()
    }
    settings = Settings([], llms=[f"tiny={file}"], http_port=0, grpc_port=None, workers=IN_PROCESS, **given)
    prompt = "SAY:one two three one two three one two three|"
    with running(settings, open_language=open_fake_language) as server:
        assert write(server, prompt, 40) == "one two three one two three one two three"[:40]
        stats = server.plane.languages.find("tiny").stats
        assert stats.drafted_tokens > 0
        metrics = ask(server, "GET", "/metrics").body.decode()
        assert f'openrknn_llm_drafted_tokens_total{{model="tiny"}} {stats.drafted_tokens}' in metrics


def test_a_process_drafts_with_a_smaller_model(tmp_path: Path) -> None:
    """The same model here, so that all drafts are right: 12 tokens are three forwards of four and the first one."""
    file = write_chat_model(tmp_path / "tiny.gguf")
    plain = open_model(file).generator.complete("he", GREEDY)
    settings = Settings([], llms=[str(file)], llm_draft_models=[str(file)], http_port=0, grpc_port=None)
    with running(settings) as server:
        assert write(server, "he", 12) == plain.text
        stats = server.plane.languages.find("tiny").stats
        assert stats.drafted_tokens > 0
        assert stats.accepted_tokens == stats.drafted_tokens


def test_a_draft_model_with_other_tokens_is_refused(tmp_path: Path) -> None:
    file = write_chat_model(tmp_path / "tiny.gguf")
    with pytest.raises(UnsupportedError, match="tokens are not those of"):
        open_model(file, draft_model=_other_tokens(tmp_path / "other.gguf"))


def test_a_model_of_embeddings_cannot_draft(tmp_path: Path) -> None:
    """It would be noticed by the first request only."""
    file = write_chat_model(tmp_path / "tiny.gguf")
    with pytest.raises(UnsupportedError, match="makes embeddings and no text"):
        open_model(file, draft_model=write_chat_model(tmp_path / "other.gguf", changes={"pooling_type": 1}))


def _other_tokens(path: Path) -> Path:
    def extend(writer: Any) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list([chr(ord("a") + at) for at in range(26)] + [str(at) for at in range(10)] + [*"ABC", "ab"])
        writer.add_token_types([1] * 40)
        writer.add_token_merges(["a b"])

    return write_gguf(path, llama_weights(), extend=extend)


def test_a_file_that_cannot_verify_drafts_says_so(tmp_path: Path) -> None:
    from openrknn.llm.compile import compile_language
    from openrknn.llm.compiled_assets import assets_of
    from openrknn.llm.files import open_weights

    file = write_chat_model(tmp_path / "tiny.gguf")
    made = compile_language(open_weights(file), capacity=32, prefill=(), batch=2, assets=assets_of(file))
    made.save(tmp_path / "tiny.rknnz")
    model = open_model(tmp_path / "tiny.rknnz", device="software", sequences=1, drafts=4)
    assert SLOW_DRAFTS in model.details.notice
    model.close()


def found(name: str) -> FoundLanguage:
    return FoundLanguage(name, f"/{name}.gguf", 1, 0.0)


def test_which_model_drafts_for_which(tmp_path: Path) -> None:
    small, other = tmp_path / "small.gguf", tmp_path / "other.gguf"
    small.write_bytes(b"1234")
    other.write_bytes(b"12")
    made = with_drafts([found("a"), found("b")], [f"a={small}", str(other)])
    assert [(one.draft, one.draft_bytes) for one in made] == [(str(small), 4), (str(other), 2)]
    assert [one.draft for one in with_drafts([found("a"), found("b")], [f"b={small}"])] == [None, str(small)]
    with pytest.raises(UnsupportedError, match="for no language model"):
        with_drafts([found("a")], [f"c={small}"])
    with pytest.raises(UnsupportedError, match="twice"):
        with_drafts([found("a")], [f"a={small}", f"a={other}"])
