"""Valid files to start from, a few kB each: a GGUF with both kinds of vocabularies, and a folder with safetensors."""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_WIDTH, _HIDDEN, _LAYERS, _VOCABULARY = 8, 8, 1, 300
_TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endfor %}"


def seed_files(kind: str) -> dict[str, bytes]:
    """Name -> content; a GGUF is one file, a folder is several."""
    return _folder() if kind == "folder" else {"model.gguf": _gguf(kind)}


KINDS = ("gpt2", "llama", "folder")


def _weights() -> dict[str, Any]:
    random = np.random.RandomState(1)
    square = (_WIDTH, _WIDTH)
    shapes: dict[str, tuple[int, ...]] = {
        "attn_q": square,
        "attn_k": (4, _WIDTH),
        "attn_v": (4, _WIDTH),
        "attn_output": square,
        "ffn_gate": square,
    }
    shapes |= {
        "ffn_up": (_HIDDEN, _WIDTH),
        "ffn_down": (_WIDTH, _HIDDEN),
        "attn_norm": (_WIDTH,),
        "ffn_norm": (_WIDTH,),
    }
    weights = {f"blk.0.{name}.weight": shape for name, shape in shapes.items()}
    weights |= {"token_embd.weight": (_VOCABULARY, _WIDTH), "output_norm.weight": (_WIDTH,)}
    return {name: random.standard_normal(shape).astype(np.float16) for name, shape in weights.items()}


def _gguf(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(str(path), "llama")
        writer.add_block_count(_LAYERS)
        writer.add_context_length(16)
        writer.add_embedding_length(_WIDTH)
        writer.add_feed_forward_length(_HIDDEN)
        writer.add_head_count(2)
        writer.add_head_count_kv(1)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(2.0)
        writer.add_tokenizer_model(kind)
        writer.add_chat_template(_TEMPLATE)
        writer.add_eos_token_id(2)
        writer.add_bos_token_id(1)
        if kind == "gpt2":
            _byte_pairs(writer)
        else:
            tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), "▁", "a", "▁a"]
            tokens += [f"x{number}" for number in range(_VOCABULARY - len(tokens))]
            writer.add_token_list(tokens)
            writer.add_token_scores([-float(number) for number in range(_VOCABULARY)])
            writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (_VOCABULARY - 259))
        for name, value in _weights().items():
            writer.add_tensor(name, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def _byte_pairs(writer: Any) -> None:
    tokens = ["<|x|>", "<|im_start|>", "<|im_end|>", *(chr(0x100 + value) for value in range(256)), "he", "Ġhe"]
    # The signs of GPT-2 for bytes; ASCII that can be printed is itself.
    tokens[3:259] = [chr(value) if 33 <= value < 127 else chr(0x100 + value) for value in range(256)]
    tokens += [f"x{number}" for number in range(_VOCABULARY - len(tokens))]
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["h e", "Ġ he"])
    writer.add_token_types([4, 3, 3] + [1] * (_VOCABULARY - 3))


def _folder() -> dict[str, bytes]:
    names = {
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "ffn_gate": "mlp.gate_proj", "attn_output": "self_attn.o_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    }  # fmt: skip
    header: dict[str, Any] = {}
    body = b""
    for name, value in _weights().items():
        stored = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}.get(name)
        if stored is None:
            stored = f"model.layers.0.{names[name.split('.')[2]]}.weight"
        header[stored] = {
            "dtype": "F16",
            "shape": list(value.shape),
            "data_offsets": [len(body), len(body) + value.nbytes],
        }
        body += value.tobytes()
    text = json.dumps(header).encode()
    config = {
        "model_type": "llama", "hidden_size": _WIDTH, "intermediate_size": _HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": True, "sliding_window": 4, "layer_types": ["sliding_attention"],
        "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    }  # fmt: skip
    return {
        "config.json": json.dumps(config).encode(), "model.safetensors": struct.pack("<Q", len(text)) + text + body,
        "tokenizer.json": _tokenizer_json(), "tokenizer_config.json": json.dumps({"chat_template": _TEMPLATE}).encode(),
    }  # fmt: skip


def _tokenizer_json() -> bytes:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "Ġ": 3}, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_end|>"])
    return str(made.to_str()).encode()
