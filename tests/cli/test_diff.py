"""`openrknn diff`: what differs, in words, and an exit code like that of diff."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import openrknn
from openrknn.analysis.differences.difference import Difference, Section
from openrknn.analysis.differences.models import compare
from openrknn.container.edit import rename_tensors, with_custom_string
from openrknn.container.model import Model
from openrknn.container.parts import Quantization
from openrknn.container.writer import encode
from tests.cli.hostile import NAMES, hostile_model
from tests.cli.run import messages, program, run
from tests.container.places import CORPUS, GOLDENS, golden, need_corpus

Capture = pytest.CaptureFixture[str]


def differences(capsys: Capture, first: Path, second: Path) -> list[dict[str, Any]]:
    result = run(capsys, "diff", first, second, "--json")
    report = json.loads(result.out)
    assert result.code == (0 if report["same"] else 1)
    assert report["same"] == (not report["differences"])
    found: list[dict[str, Any]] = report["differences"]
    return found


def sections(found: list[dict[str, Any]]) -> set[str]:
    return {entry["section"] for entry in found}


# ---------------------------------------------------------------------------------------------- the same


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_a_model_is_like_itself(path: Path, tmp_path: Path, capsys: Capture) -> None:
    same = tmp_path / "same.rknn"
    same.write_bytes(path.read_bytes())
    assert run(capsys, "diff", path, same) == (0, "the files are the same, byte for byte\n", "")
    assert list(compare(openrknn.load(path), openrknn.load(path))) == []


def test_a_rewritten_file_is_the_same_model(tmp_path: Path, capsys: Capture) -> None:
    rewritten = tmp_path / "rewritten.rknn"
    rewritten.write_bytes(encode(openrknn.load(golden("residual_rk3588_i8"))))
    result = run(capsys, "diff", golden("residual_rk3588_i8"), rewritten)
    assert result.code == 0
    assert "the models are the same" in result.out


# ---------------------------------------------------------------------------------------------- one change at a time


def changed(model: Model, name: str, **values: Any) -> Model:
    graph = model.graphs[0]
    tensors = tuple(replace(tensor, **values) if tensor.name == name else tensor for tensor in graph.tensors)
    return replace(model, graphs=(replace(graph, tensors=tensors),))


def words(first: Model, second: Model) -> list[str]:
    return [f"{difference.section}: {difference}" for difference in compare(first, second)]


def test_custom_string() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    assert words(model, with_custom_string(model, "new")) == ["model: custom string '' -> new"]


def test_a_renamed_input_is_one_change() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    assert words(model, rename_tensors(model, {"image": "photo"})) == [
        "inputs and outputs: input 0 'image': name image -> photo",
        "tensors: tensor 'image': is called 'photo'",
    ]


def test_a_scale() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    scale = model.inputs[0].quantization
    assert scale is not None
    other = changed(model, "x", quantization=Quantization((scale.scale[0] * 2,), scale.zero_point))
    found = words(model, other)
    assert "inputs and outputs: input 0 'x': scale 0.0229838 -> 0.0459676 (+100 %)" in found
    # The weights' scales are told relative to the input's, so they change with it.
    assert any("the same numbers with other scales" in line for line in found)


def test_one_weight() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    tensor = model.graphs[0].tensor_named("const0")
    assert tensor is not None
    data = bytearray(tensor.data or b"")
    data[0] = (data[0] + 3) % 256
    (line,) = words(model, changed(model, "const0", data=memoryview(bytes(data))))
    assert line.startswith("weights: 'const0': 1 of 864 differ (0.116 %), by at most 3 steps, 3 on average; as real")


def test_padding_of_weights_does_not_count() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    tensor = model.graphs[0].tensor_named("const0")
    assert tensor is not None
    data = bytearray(tensor.data or b"")
    data[15] ^= 0x7F  # the last of 16 input channels, of which 8 are used
    assert words(model, changed(model, "const0", data=memoryview(bytes(data)))) == []


def test_removed_weights(capsys: Capture) -> None:
    found = differences(capsys, golden("residual_rk3588_i8_no_weights"), golden("residual_rk3588_i8_single_core"))
    texts = [entry["text"] for entry in found if entry["section"] == "weights"]
    assert "'const0': the data are only in the second" in texts


def with_word(model: Model, register: int, value: int) -> Model:
    """The first command that writes `register`, with another value."""
    graph = model.graphs[0]
    commands = list(graph.commands)
    number = next(number for number, word in enumerate(commands) if word & 0xFFFF == register)
    commands[number] = commands[number] & 0xFFFF_0000_0000_FFFF | value << 16
    data = b"".join(word.to_bytes(8, "little") for word in commands)
    return replace(model, graphs=(replace(graph, commands=memoryview(data).cast("Q")),))


def test_a_register_field() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    found = words(model, with_word(model, 0x4088, 5))
    assert "commands: task 0 (Conv:conv0): DPU.OUT_CVT_SHIFT out_cvt_shift 23 -> 5" in found


def test_an_address() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    groups = tuple(
        replace(group, entries=memoryview(b"\x40" + bytes(group.entries)[1:])) if group.tensor == "const0" else group
        for group in graph.relocations
    )
    found = words(model, replace(model, graphs=(replace(graph, relocations=groups),)))
    assert any("const0 -> 'const0 + 0x40'" in line for line in found)


def test_another_operator_and_place() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    nodes = tuple(replace(node, type="ConvRelu", target=0) if node.type == "Conv" else node for node in graph.nodes)
    found = words(model, replace(model, graphs=(replace(graph, nodes=nodes),)))
    assert "operators: operator 1 Conv:conv0: type Conv -> ConvRelu" in found
    assert "operators: operator 1 Conv:conv0: runs on npu -> cpu" in found


# ---------------------------------------------------------------------------------------------- whole models


def test_another_chip_has_the_same_weights(capsys: Capture) -> None:
    """Layout and operand stream differ, the numbers do not."""
    for chip in ("rk3566", "rk3562", "rk3576", "rv1126b"):
        found = differences(capsys, golden("conv_rk3588_i8"), golden(f"conv_{chip}_i8"))
        assert "weights" not in sections(found), chip
        assert {"section": "model", "what": "chip"}.items() <= found[0].items()
        assert any("not compared" in entry["text"] for entry in found)


def test_int8_against_fp16(capsys: Capture) -> None:
    found = differences(capsys, golden("conv_rk3588_i8"), golden("conv_rk3588_fp"))
    (weights,) = [entry for entry in found if entry["subject"] == "'const0'"]
    assert weights["text"].startswith("'const0': int8 against float16; as real numbers by at most 0.00252")
    assert weights["after"]["real_largest"] < 0.005 * weights["after"]["real_range"] + 0.003
    assert any(entry["what"] == "CNA.CONV_CON1 in_precision" for entry in found)


def test_another_network(capsys: Capture) -> None:
    result = run(capsys, "diff", golden("residual_rk3588_i8"), golden("silu_rk3588_i8"), "--all")
    assert result.code == 1
    assert "only in the first" in result.out
    assert "only in the second" in result.out


def test_graphs_are_named(capsys: Capture) -> None:
    found = differences(capsys, golden("dynamic_rk3588_i8"), golden("dynamic_rk3576_i8"))
    assert any(entry["subject"].startswith("graph 2, ") for entry in found)


# ---------------------------------------------------------------------------------------------- the command


def test_long_lists_are_cut(capsys: Capture) -> None:
    files = golden("conv_rk3588_i8"), golden("conv_rk3588_fp")
    short, long = run(capsys, "diff", *files).out, run(capsys, "diff", *files, "--all").out
    assert "more (--all shows them)" in short
    assert "more (--all shows them)" not in long
    assert len(long) > len(short)


def test_quiet(capsys: Capture) -> None:
    assert run(capsys, "diff", golden("conv_rk3588_i8"), golden("conv_rk3588_fp"), "-q") == (1, "", "")
    assert run(capsys, "diff", golden("conv_rk3588_i8"), golden("conv_rk3588_i8"), "-q") == (0, "", "")


def test_wrong_files(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "picture.rknn").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for name in ("none.rknn", "picture.rknn", "."):
        for files in ((tmp_path / name, golden("conv_rk3588_i8")), (golden("conv_rk3588_i8"), tmp_path / name)):
            result = run(capsys, "diff", *files)
            assert (result.code, result.out, messages(result.err)) == (2, "", 1)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_names_do_not_reach_the_terminal(name: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "hostile.rknn"
    hostile_model(path, name)
    result = run(capsys, "diff", golden("conv_rk3588_i8"), path, "--all")
    assert (result.code, result.err) == (1, "")
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out


def test_numbers_that_json_does_not_have(tmp_path: Path, capsys: Capture) -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    path = tmp_path / "nan.rknn"
    path.write_bytes(encode(changed(model, "x", quantization=Quantization((float("nan"),), (0,)))))
    found = differences(capsys, golden("conv_rk3588_i8"), path)
    assert any(entry["after"] == "nan" for entry in found)


def test_as_a_program() -> None:
    result = program("diff", golden("conv_rk3588_i8"), golden("conv_rk3588_fp"))
    assert (result.code, result.err) == (1, "")


def pairs() -> Iterator[tuple[Path, Path]]:
    """int8 and fp16 of the same network on the same chip."""
    known = set(CORPUS)
    for path in CORPUS:
        other = path.with_name(path.name.replace("_i8.", "_fp."))
        if other in known and other != path:
            yield path, other


def test_the_corpus() -> None:
    """Real weights of int8 and fp16 files agree to within a quantisation step."""
    need_corpus()
    compared = 0
    for first, second in list(pairs())[::4]:
        for difference in compare(openrknn.load(first), openrknn.load(second)):
            assert isinstance(difference, Difference)
            facts = difference.after
            if difference.section is Section.WEIGHTS and isinstance(facts, dict) and "real_largest" in facts:
                largest, reach = facts["real_largest"], facts["real_range"]
                assert isinstance(largest, float)
                assert isinstance(reach, float)
                assert largest <= 0.02 * reach, (first, str(difference))
                compared += 1
    assert compared > 50


def test_large_files_are_compared_fast(capsys: Capture) -> None:
    need_corpus()
    large = sorted(CORPUS, key=lambda path: path.stat().st_size)[-1]
    start = time.perf_counter()
    assert run(capsys, "diff", large, sorted(CORPUS, key=lambda path: path.stat().st_size)[-2]).code == 1
    assert time.perf_counter() - start < 20
