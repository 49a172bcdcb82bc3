"""Every family as GGUF: the goldens once more, in the names and orders of llama.cpp's converter.

The converter itself, run on the same models, gave the same logits; its files are too large to keep.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from openrknn.llm.config import LanguageConfig
from openrknn.llm.files import FileSource, open_weights
from openrknn.llm.files.families import Family, gguf_family
from openrknn.llm.reference import ReferenceCache, ReferenceEngine, Transformer
from tests.llm.tiny import NAMES, paired, write_folder

LOST = {
    "mistral": "its window is not in GGUF files", "qwen2-yarn": "its window is not in GGUF files",
    "gemma2": "query_pre_attn_scalar is not in GGUF files", "gemma3": "query_pre_attn_scalar is not in GGUF files",
}  # fmt: skip
GOLDENS = [path for path in sorted((Path(__file__).parent / "goldens").glob("*.json")) if path.stem not in LOST]
TOP = {
    "embedding": "token_embd", "final_norm": "output_norm", "head": "output", "positions": "position_embd",
    "types": "token_types", "embedding_norm": "token_embd_norm",
}  # fmt: skip
MORE = {
    "attention_post_norm": "post_attention_norm",
    "ffn_post_norm": "post_ffw_norm",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
}
LATE = {"attention_norm": "attn_output_norm", "ffn_norm": "layer_output_norm"}


def metadata(config: LanguageConfig, said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "block_count": config.layers, "context_length": said["max_position_embeddings"],
        "embedding_length": config.width, "feed_forward_length": config.hidden, "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads, "attention.key_length": config.head_size,
        "attention.value_length": config.head_size, "attention.causal": config.causal,
        f"attention.layer_norm_{'rms_' if config.norm == 'rms' else ''}epsilon": config.norm_epsilon,
        "embedding_scale": config.embedding_scale, "residual_scale": config.residual_scale,
        "logit_scale": 1 / config.logit_scale, "attention.scale": config.score_scale(),
    }  # fmt: skip
    if config.window:
        found["attention.sliding_window"] = config.window
    if config.rope:
        found |= {"rope.freq_base": config.rope.base, "rope.dimension_count": config.rope.size}
        found["rope.scaling.attn_factor"] = config.rope.scale
        if len(set(config.rope.divisors)) == 1:
            found |= {"rope.scaling.type": "linear", "rope.scaling.factor": config.rope.divisors[0]}
        if "original_max_position_embeddings" in said:
            found["rope.scaling.original_context_length"] = said["original_max_position_embeddings"]
    return found


def stored(source: FileSource, family: Family) -> dict[str, Any]:
    """Canonical weights under llama.cpp's names."""
    config, tensors = source.config, {}
    for name in source.names():
        base, bias = (name[:-5], "bias") if name.endswith(".bias") else (name, "weight")
        value = source.get(name)
        if not base.startswith("layers."):
            tensors[f"{TOP[base]}.{bias}"] = value
            continue
        _, layer, part = base.split(".")
        if part in "qk" and family.interleaved:
            value = paired(value, config.heads if part == "q" else config.kv_heads)
        names = NAMES | MORE | ({} if config.norm_first else LATE)
        tensors[f"blk.{layer}.{names[part]}.{bias}"] = value
    for number in range(config.layers):
        blk = f"blk.{number}."
        if "qkv" in family.fused:
            tensors[blk + "attn_qkv.weight"] = np.concatenate(
                [tensors.pop(f"{blk}attn_{part}.weight") for part in "qkv"]
            )
        if "gate_up" in family.fused:
            both = [tensors.pop(f"{blk}ffn_{part}.weight") for part in ("gate", "up")]
            tensors[blk + "ffn_up.weight"] = np.concatenate(both)
    return tensors


def write(path: Path, folder: FileSource, far: FileSource, said: dict[str, Any]) -> Path:
    family = gguf_family(folder.config.architecture)
    writer = gguf.GGUFWriter(str(path), family.name)
    for key, value in metadata(folder.config, said).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[
            type(value)
        ]
        add(f"{family.name}.{key}", value)
    tensors = stored(folder, family)
    rope = folder.config.rope
    if rope and far.config.rope and far.config.rope.divisors != rope.divisors:
        tensors["rope_factors_short.weight"] = np.array(rope.divisors, np.float32)
        tensors["rope_factors_long.weight"] = np.array(far.config.rope.divisors, np.float32)
    elif rope and len(set(rope.divisors)) > 1:
        tensors["rope_freqs.weight"] = np.array(rope.divisors, np.float32)
    for name, value in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_the_goldens_as_gguf(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text())
    folder = write_folder(tmp_path / "folder", golden)
    tokens = golden["tokens"]
    file = write(tmp_path / "m.gguf", open_weights(folder), open_weights(folder, context=1000), golden["config"])
    source = open_weights(file, context=len(tokens))
    if source.config.causal:
        engine = ReferenceEngine(source)
        found = engine.forward(engine.new_cache(), tokens, all_logits=True)
    else:
        found = Transformer(source, keep=False).hidden_states(ReferenceCache(source.config), tokens)
    for row, wanted in golden["rows"].items():
        np.testing.assert_allclose(found[int(row)], wanted, atol=1e-4)


def test_windows_and_scales_of_gemma(tmp_path: Path) -> None:
    """What GGUF says of Gemma 3: the pattern of its windows, and bases for both kinds of layers."""
    golden = json.loads((Path(__file__).parent / "goldens/gemma3.json").read_text())
    folder = open_weights(write_folder(tmp_path / "folder", golden))
    config = open_weights(write(tmp_path / "m.gguf", folder, folder, golden["config"])).config
    assert (config.window, config.window_layers) == (5, (True, True, True))
    assert config.rope is not None
    assert config.rope.local_base == 10000.0
    assert config.rope_frequencies(0)[1] == pytest.approx(10000 ** (-2 / 16))
    assert config.embedding_scale == pytest.approx(32**0.5)
