"""C programs with rkllm.h on our librkllmrt.so: every version of the header, and what they survive."""

from __future__ import annotations

import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from openrknn.capi.parts import LLM_NAME, header_path, library_for
from openrknn.errors import UnsupportedError
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.opening import open_model
from tests.capi.building import Programs
from tests.llm.chat_file import write_chat_model

VERSIONS = {"1.1": 110, "1.2.0": 120, "1.2.3": 121, "1.3.0": 130}


@pytest.fixture
def chats(programs: Programs) -> Programs:
    try:
        return replace(programs, library=library_for(name=LLM_NAME))
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_chat_model(tmp_path / "model.gguf")


def compiled(chats: Programs, api: int) -> Path:
    return chats.compiled("chat", [f"-DAPI={api}", f"-I{header_path('rkllm.h').parent}"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_program_of_each_version(version: str, chats: Programs, model: Path, tmp_path: Path) -> None:
    """1.1 has to be named; the others are told from what the program passes."""
    named = {"OPENRKNN_RKLLM_ABI": "1.1"} if version == "1.1" else {}
    ran = chats.run(compiled(chats, VERSIONS[version]), model, tmp_path / "cache", **named)
    assert ran.code == 0, ran.out + ran.err
    with closing(open_model(model, sequences=1, capacity=64)) as opened:
        tokens = opened.chat_tokens([{"role": "user", "content": "a b c"}])
        greedy = Request(Sampling(temperature=0.0), max_tokens=8)
        expected = opened.generator.complete(tokens, greedy)
    assert ran.out == expected.text.partition("\0")[0] + "\n"


@pytest.mark.parametrize("version", ["1.2.0", "1.2.3", "1.3.0"])
def test_a_named_version_is_the_one_that_is_found(version: str, chats: Programs, model: Path, tmp_path: Path) -> None:
    program = compiled(chats, VERSIONS[version])
    found = chats.run(program, model, tmp_path / "cache")
    named = chats.run(program, model, tmp_path / "cache", OPENRKNN_RKLLM_ABI=version)
    assert (named.code, named.out) == (found.code, found.out) == (0, found.out), named.err


def test_a_version_that_is_none(chats: Programs, model: Path) -> None:
    ran = chats.run(compiled(chats, 130), model, OPENRKNN_RKLLM_ABI="0.9")
    assert ran.code == 1
    assert "OPENRKNN_RKLLM_ABI is not a version of rkllm.h; there are 1.1, 1.2.0, 1.2 and 1.3" in ran.err


def test_every_refusal_says_why(chats: Programs, model: Path, tmp_path: Path) -> None:
    ran = chats.run(compiled(chats, 130), model, tmp_path / "cache")
    assert ran.code == 0, ran.err
    for text in ("rkllm_input is no address", "there is no model with the handle", "RKLLM_INPUT_EMBED is not supported",
                 "prompt is no address of a text", "adapters are not supported", "/no/such/file.gguf"):  # fmt: skip
        assert text in ran.err, ran.err


def test_nothing_else_is_visible(chats: Programs) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(chats.library)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert len(names) == 15
    assert all(name.startswith("rkllm_") for name in names)
