"""Where the weights of a Moonshine are found. Witness: the arrays that the exporter was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine import _pieces
from openrknn.voice.make.moonshine_weights import ExportedGraph, Weights, decoder_weights, encoder_weights
from openrknn.voice.tokens import write_pieces
from tests.voice.fake_moonshine import HEADS, Fake

onnx = pytest.importorskip("onnx")
OLD_NAMES = {"o_proj": "dense", "mlp/fc1": "mlp/up_proj", "mlp/fc2": "mlp/down_proj"}
OLD_BIASES = {"mlp.fc1.bias": "mlp.up_proj.bias", "mlp.fc2.bias": "mlp.down_proj.bias"}


def in_integers(model: Any, *, is_decoder: bool) -> tuple[Any, dict[str, Any]]:
    """The graph as moonshine-cpp 0.1.4 has it: weights * scale + offset of bytes, names of the first exports."""
    graph, stored = model.graph, dict[str, Any]()
    kept, added = [], []
    for entry in graph.initializer:
        array = onnx.numpy_helper.to_array(entry)
        if array.dtype != np.float32 or array.ndim < 2 or array.size < 256:
            kept.append(entry)
            continue
        low = array.min().reshape(1)
        scale = ((array.max() - low) / 255).astype(np.float32)
        numbers = np.rint((array - low) / scale).astype(np.uint8)
        stored[entry.name] = numbers.astype(np.float32) * scale + low
        parts = {"quantized": numbers, "scale": scale, "zero_point": low}
        kept += [onnx.numpy_helper.from_array(value, f"{entry.name}_{part}") for part, value in parts.items()]
        cast, product, total = (f"{entry.name}_{part}_tensor" for part in ("cast", "mul", "add"))
        added += [
            onnx.helper.make_node("Cast", [f"{entry.name}_quantized"], [cast], to=1),
            onnx.helper.make_node("Mul", [cast, f"{entry.name}_scale"], [product]),
            onnx.helper.make_node("Add", [product, f"{entry.name}_zero_point"], [total]),
        ]
    nodes = list(graph.node)
    for node in nodes:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                new = f"{name}_add_tensor" if name in stored else name
                for plain, old in OLD_NAMES.items() if is_decoder else (("o_proj", "dense"),):
                    new = new.replace(plain, old)
                for plain, old in OLD_BIASES.items() if is_decoder else ():
                    new = new.replace(plain, old)
                names[at] = new
    for entry in kept:
        for plain, old in OLD_BIASES.items() if is_decoder else ():
            entry.name = entry.name.replace(plain, old)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend([*added, *nodes])
    return model, stored


def read(model: Any, *, is_decoder: bool) -> Weights:
    return decoder_weights(model, "decoder") if is_decoder else encoder_weights(model, "encoder", HEADS)


@pytest.mark.parametrize("is_decoder", [False, True])
def test_weights_behind_cast_mul_and_add_are_the_same_as_plain_ones(is_decoder: bool) -> None:
    plain, changed = (Fake().decoder() if is_decoder else Fake().encoder() for _ in range(2))
    wanted = read(plain, is_decoder=is_decoder)
    changed, stored = in_integers(changed, is_decoder=is_decoder)
    found = read(changed, is_decoder=is_decoder)
    assert stored
    assert set(found.arrays) == set(wanted.arrays)
    for place, array in wanted.arrays.items():
        step = (array.max() - array.min()) / 255
        np.testing.assert_allclose(found[place], array, atol=step * 0.51, err_msg=place)


def test_a_kernel_is_what_the_graph_computes_from_its_integers() -> None:
    changed, stored = in_integers(Fake().encoder(), is_decoder=False)
    graph = ExportedGraph(changed, "encoder")
    np.testing.assert_array_equal(graph.constant("conv1.weight"), stored["conv1.weight"])


def test_a_value_that_depends_on_an_input_is_no_constant() -> None:
    graph = ExportedGraph(Fake().encoder(), "encoder")
    assert graph.constant("/groupnorm/Mul_output_0") is None
    assert graph.constant("input_values") is None


def test_a_chain_without_an_end_is_left() -> None:
    model = Fake().encoder()
    model.graph.node.extend(
        [onnx.helper.make_node("Mul", ["a", "b"], ["c"]), onnx.helper.make_node("Add", ["c", "c"], ["a"])]
    )
    assert ExportedGraph(model, "encoder").constant("a") is None


def test_a_tokenizer_without_the_marks_is_filled_up(tmp_path: Path) -> None:
    pieces = [b"<unk>", b"<s>", b"</s>", b"a" * 200]
    write_pieces(tmp_path / "tokenizer.bin", pieces)
    assert _pieces(tmp_path / "tokenizer.bin", 6) == [*pieces, b"<<ST_0>>", b"<<ST_1>>"]
    assert _pieces(tmp_path / "tokenizer.bin", 4) == pieces
    with pytest.raises(VoiceSetError, match="4 pieces for 800 words; this is the tokenizer of another model"):
        _pieces(tmp_path / "tokenizer.bin", 800)
