"""From files to models that chat: a compiled one on the software NPU, and what is said about others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from openrknn.errors import FormatError, RknnError, UnsupportedError
from openrknn.llm.compile import compile_language
from openrknn.llm.compiled_assets import VOCABULARY, tokenizer_in, vocabulary_assets
from openrknn.llm.config import Rope
from openrknn.llm.engine import Cache
from openrknn.llm.errors import TokenizerError
from openrknn.llm.file import read_language
from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.model import Details, LanguageModel
from openrknn.llm.generation.promptcache import load_prompt, save_prompt
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.limits import distances
from openrknn.llm.measuring import board_costs, measure_speed
from openrknn.llm.opening import SOFTWARE_NOTICE, open_model
from openrknn.llm.reference import ReferenceEngine
from openrknn.llm.tokens.gguf_tokens import gguf_tokenizer
from openrknn.llm.weights import Floats
from tests.llm.chat_file import write_chat_model
from tests.llm.fakes import FakeVocabulary
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_tokens import byte_pair_metadata

TEMPLATE = "{% for one in messages %}<|im_start|>{{ one.role }}: {{ one.content }}<|im_end|>{% endfor %}"
GREEDY = Request(Sampling(temperature=0), max_tokens=8, ignore_end=True)


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource(vocabulary=272, width=64, head_size=32, hidden=96, context=256, rope=Rope(10000.0, 32))


@pytest.fixture(scope="module")
def compiled(source: MemorySource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    assets = vocabulary_assets({**byte_pair_metadata(chat_template=TEMPLATE), "general.name": "left out"})
    path = tmp_path_factory.mktemp("compiled") / "tiny.rknnz"
    path.write_bytes(compile_language(source, capacity=64, prefill=(32,), assets=assets).data)
    return path


def test_a_compiled_file_chats_alone(compiled: Path, source: MemorySource) -> None:
    model = open_model(compiled, device="software", sequences=2)
    tokens = model.chat_tokens([{"role": "user", "content": "hello"}])
    assert tokens == gguf_tokenizer(byte_pair_metadata()).encode("<|im_start|>user: hello<|im_end|>")
    found = model.generator.complete(tokens, GREEDY)
    assert len(found.tokens) == 8
    # What float chooses as well, token by token: fp16 does not change the maxima of this model.
    reference = ReferenceEngine(source)
    past = list(tokens)
    for token in found.tokens:
        logits = reference.forward(reference.new_cache(), past)[0, :266]
        assert logits[token] > logits.max() - 0.02
        past.append(token)
    details = model.details
    assert (details.format, details.notice, details.quantisation) == ("rknn", SOFTWARE_NOTICE, "for rk3588")
    assert not model.can_embed
    with pytest.raises(UnsupportedError, match="gives no embeddings"):
        model.embed(tokens)
    model.close()


def test_a_context_that_is_larger_than_compiled(compiled: Path) -> None:
    with pytest.raises(UnsupportedError, match="compiled for 64 tokens"):
        open_model(compiled, capacity=100)


def test_weights_do_not_run_on_an_npu(tmp_path: Path) -> None:
    file = write_chat_model(tmp_path / "tiny.gguf")
    with pytest.raises(UnsupportedError, match="is not compiled, so that it cannot run on 'rknpu'"):
        open_model(file, device="rknpu")


def test_vocabularies_in_compiled_files() -> None:
    assets = vocabulary_assets(byte_pair_metadata())
    for text in ("hello w 12", "<tool>\u00e9\n"):
        assert tokenizer_in(assets, "x").encode(text) == gguf_tokenizer(byte_pair_metadata()).encode(text)
    with pytest.raises(UnsupportedError, match="llm compile"):
        tokenizer_in({}, "x")
    for wrong in (b"[]", b"{", b"\xff", b'{"tokenizer.ggml.scores": {"type": "O", "numbers": []}}',
                  b'{"tokenizer.ggml.scores": {"type": "<f4", "numbers": ["x"]}}', b"{}"):  # fmt: skip
        with pytest.raises(TokenizerError):
            tokenizer_in({VOCABULARY: wrong}, "x")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"nothing like it")
    for where in (tmp_path / "x.gguf", tmp_path, tmp_path / "none"):
        with pytest.raises(RknnError):
            open_model(where)


def test_prompts_on_disk(compiled: Path, tmp_path: Path) -> None:
    model = open_model(compiled, device="software", sequences=1)
    prompt = list(range(40, 60))
    file = tmp_path / "prompt.bin"
    save_prompt(model, prompt, file)
    wanted = model.generator.complete(prompt, GREEDY)
    again = open_model(compiled, device="software", sequences=1)
    assert load_prompt(again, file) == 20
    found = again.generator.complete(prompt, GREEDY)
    assert (found.tokens, found.statistics.reused_tokens) == (wanted.tokens, 19)
    # The float reference keeps its own; neither takes the other's.
    source = MemorySource()
    float_engine = ReferenceEngine(source)
    other = LanguageModel(Details("other", "llama", 1, 64, 1, "gguf"), Generator(float_engine, FakeVocabulary()))
    with pytest.raises(PromptError, match="was computed by 'tiny rknn"):
        load_prompt(other, file)
    save_prompt(other, [1, 2, 3], tmp_path / "other.bin")
    cache = float_engine.new_cache()
    float_engine.forward(cache, [1, 2, 3])
    back = float_engine.restore([1, 2, 3], float_engine.rows_of(cache))
    assert np.array_equal(float_engine.forward(back, [4]), float_engine.forward(cache, [4]))
    assert load_prompt(other, tmp_path / "other.bin") == 3
    whole = file.read_bytes()
    for wrong in (b"", b"x" * 100, whole[:-1], whole[:60], whole[:100] + b"?" + whole[101:]):
        file.write_bytes(wrong)
        with pytest.raises(FormatError):
            load_prompt(again, file)
    with pytest.raises(ContextFullError, match="65 tokens"):
        save_prompt(model, [1] * 65, file)


def test_a_prompt_that_was_computed_is_saved_as_it_is(compiled: Path, tmp_path: Path) -> None:
    model = open_model(compiled, device="software", sequences=1)
    prompt = list(range(40, 60))
    model.generator.complete(prompt, GREEDY)
    computed: list[int] = []
    engine = model.generator.engine
    forward = engine.forward

    def counted(cache: Cache, tokens: Sequence[int], **options: bool) -> Floats:
        computed.extend(tokens)
        return forward(cache, tokens, **options)

    engine.forward = counted  # type: ignore[method-assign]
    save_prompt(model, prompt, tmp_path / "prompt.bin")
    assert not computed
    save_prompt(model, [*prompt[:12], 3, 4, 5], tmp_path / "other.bin")
    assert computed == [3, 4, 5]
    again = open_model(compiled, device="software", sequences=1)
    assert load_prompt(again, tmp_path / "prompt.bin") == 20
    assert again.generator.complete(prompt, GREEDY).statistics.reused_tokens == 19


def test_what_a_board_is_expected_to_take(compiled: Path) -> None:
    found = board_costs(read_language(compiled))
    costs = found.costs
    assert (found.chip, found.cores) == ("rk3588", 1)
    near = list(distances(found.chip, found.weight_bytes, 2.0, 1.0, 4.0))
    assert [one.memory.name for one in near] == ["LPDDR4x-4224", "LPDDR5-5472"]
    assert near[0].limit_ms == pytest.approx(found.weight_bytes / 33.8e6)
    assert near[0].part == pytest.approx(near[0].limit_ms / 2)
    assert (near[0].low, near[0].high) == pytest.approx((near[0].part / 2, near[0].part * 2))
    assert not list(distances("rv1106", 1, None, None, None))
    assert list(costs) == [1, 32]
    assert 0 < (costs[1].time_ms or 0) < (costs[32].time_ms or 0)
    speed = measure_speed(open_model(compiled, device="software").generator.engine, prompt=4, tokens=2, repeats=1)
    assert speed.generation_rate > 0
