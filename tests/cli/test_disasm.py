"""`openrknn disasm`: the listing says what every word is, and assembles back to the same words."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

import openrknn
from openrknn.analysis.explain import list_label
from openrknn.analysis.listing import Listing
from openrknn.container.parts import Graph
from openrknn.isa import assemble, map_for, parse_text
from tests.cli.run import program, run
from tests.container.places import GOLDENS, golden, sample_of_corpus

Capture = pytest.CaptureFixture[str]
PARTS = 2


def words_of(graph: Graph, numbers: range) -> list[int]:
    return [word for number in numbers for word in graph.task_words(graph.tasks[number])]


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_text_of_every_golden_assembles_again(path: Path, capsys: Capture) -> None:
    model = openrknn.load(path)
    for graph in model.graphs:
        for entry, numbers in graph.task_lists.items():
            label = list_label(entry)
            result = run(capsys, "disasm", path, "--graph", graph.index, "--core-list", label)
            assert (result.code, result.err) == (0, "")
            assert assemble(parse_text(result.out, map_for(model.chip))) == words_of(graph, numbers)
            assert result.out.count("\n# task ") + result.out.startswith("# task ") == len(numbers)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_corpus(part: int, capsys: Capture) -> None:
    for path in sample_of_corpus(12)[part::PARTS]:
        model = openrknn.load(path)
        graph = model.graphs[0]
        numbers = next(iter(graph.task_lists.values()), None)
        result = run(capsys, "disasm", path)
        if numbers is None:
            assert "nothing in it runs on the NPU" in result.err, path
            continue
        assert (result.code, result.err) == (0, ""), path
        assert assemble(parse_text(result.out, map_for(model.chip))) == words_of(graph, numbers), path


def test_a_task_with_its_tensors_and_the_next_task(capsys: Capture) -> None:
    text = run(capsys, "disasm", golden("residual_rk3588_i8"), "--op", "1").out
    assert text.startswith("# task 0, list 1: operator 1 ConvRelu Conv:conv0\n")
    assert "enables CNA, CORE, DPU, DPU_RDMA\n" in text
    assert re.search(r"^CNA\.FEATURE_DATA_ADDR .*# +\d+ -> image \(patched for input image\)$", text, re.M)
    assert re.search(r"^DPU\.DST_BASE_ADDR .*# +\d+ -> relu1$", text, re.M)
    assert re.search(r"^PC\.BASE_ADDRESS .*-> task 1$", text, re.M)
    assert "CNA.DATA_SIZE0 datain_height=16 datain_width=16 " in text
    assert "# 1 task, " in text


def test_addends_are_shown(capsys: Capture) -> None:
    text = run(capsys, "disasm", golden("residual_rk3588_i8"), "--task", "7").out
    assert "-> conv7_exSecondary + 0x100" in text


def test_look_up_tables_are_explained(capsys: Capture) -> None:
    text = run(capsys, "disasm", golden("sigmoid_rk3588_i8")).out
    assert "(a table: reads and writes the commands themselves, in place)" in text


@pytest.mark.parametrize("words", [["--op", "1"], ["--op", "Conv:conv0"], ["--op", "conv0"], ["--task", "0"]])
def test_ways_to_choose_a_task(words: list[str], capsys: Capture) -> None:
    path = golden("residual_rk3588_i8")
    assert run(capsys, "disasm", path, *words).out == run(capsys, "disasm", path, "--op", "1").out


def test_task_lists(capsys: Capture) -> None:
    path = golden("residual_rk3588_i8")
    assert run(capsys, "disasm", path, "--core-list", "1.0").out == run(capsys, "disasm", path).out
    assert "# task 55, list 3.2: " in run(capsys, "disasm", path, "--core-list", "3.2").out
    text = run(capsys, "disasm", path, "--core-list", "all").out
    assert re.findall(r"^# task (\d+),", text, re.M) == [str(number) for number in range(66)]
    assert "# task 60, list 3.2: " in run(capsys, "disasm", path, "--task", "60").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--core-list", "4.1"], "there is no task list '4.1'; the graph has 1, 2.0, 2.1, 3.0, 3.1, 3.2 (or all)"),
        (["--op", "99"], "there is no operator 99; the graph has 9, counted from 0"),
        (["--op", "Conv:cnv0"], "no operator is called 'Conv:cnv0'; did you mean Conv:conv0"),
        (["--op", "zzz"], "no operator is called 'zzz'; `openrknn inspect --all` lists them"),
        (["--op", "0"], "operator 0 has no tasks here: it runs on the cpu"),
        (["--task", "66"], "there is no task 66; the graph has 66, counted from 0"),
        (["--graph", "1"], "there is no graph 1"),
    ],
)
def test_what_is_not_there(words: list[str], message: str, capsys: Capture) -> None:
    result = run(capsys, "disasm", golden("residual_rk3588_i8"), *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


def test_raw_words(capsys: Capture) -> None:
    path = golden("conv_rk3588_i8")
    graph = openrknn.load(path).graphs[0]
    text = run(capsys, "disasm", path, "--raw").out
    words = [int(line.split()[1], 16) for line in text.splitlines() if not line.startswith("#")]
    assert words == words_of(graph, next(iter(graph.task_lists.values())))


def test_json(capsys: Capture) -> None:
    path = golden("residual_rk3588_i8")
    listing = json.loads(run(capsys, "disasm", path, "--json").out)
    assert (listing["schema_version"], listing["chip"], len(listing["tasks"])) == (1, "rk3588", 9)
    commands = {entry["register"]: entry for entry in listing["tasks"][0]["commands"]}
    assert commands["CNA.FEATURE_DATA_ADDR"]["tensor"] == "image"
    assert commands["CNA.CONV_CON1"]["fields"]["conv_mode"] == "direct"
    assert commands["PC.BASE_ADDRESS"]["next_task"] == 1
    assert int(commands["SYNC"]["word"], 16) == 0x41 << 48
    assert listing["tasks"][0]["blocks"] == ["CNA", "CORE", "DPU", "DPU_RDMA"]


def test_delta_tasks_are_marked(capsys: Capture) -> None:
    text = run(capsys, "disasm", golden("softmax_rk3588_i8")).out
    heads = re.findall(r"^# (\d+) \+ 4 commands from \d+, enables ([^;\n]*)(; delta)?", text, re.M)
    deltas = [int(amount) for amount, _, delta in heads if delta]
    assert deltas
    assert max(deltas) < max(int(amount) for amount, _, delta in heads if not delta)


def test_what_the_table_does_not_explain_is_loud() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    words = graph.commands.tolist()
    words[0] |= 0xFFFF_FFFF << 16
    words[1] = 0x0201_0000_0001_1FFC
    changed = dataclasses.replace(
        graph, commands=memoryview(b"".join(word.to_bytes(8, "little") for word in words)).cast("Q")
    )
    first, second, *_ = Listing(model, changed).entries(0)
    assert first.instruction.name == "CNA.CBUF_CON0"
    assert "undeclared bits 0x" in first.alarms[0]
    assert second.alarms == ("unknown register",)
    assert second.text == "?0x0201[0x1ffc] 0x00000001"


def test_registers_without_a_known_meaning_are_loud_when_they_hold_something(capsys: Capture) -> None:
    text = run(capsys, "disasm", golden("residual_rv1106b_i8"), "--op", "1").out
    marked = re.findall(r"^CNA\.UNKNOWN_\w+ (.*?) +#(.*)$", text, re.M)
    assert marked
    assert all(("!! meaning unknown" in notes) == (value != "0") for value, notes in marked)
    assert re.search(r"commands, \d+ not fully explained \(!!\)$", text.strip())


@pytest.mark.parametrize("path", [path for path in GOLDENS if "rk3588" in path.stem], ids=lambda path: path.stem)
def test_every_bit_of_rk3588_is_explained(path: Path) -> None:
    model = openrknn.load(path)
    for graph in model.graphs:
        listing = Listing(model, graph)
        for number in range(len(graph.tasks)):
            assert [entry for entry in listing.entries(number) if entry.alarms] == []


def test_a_damaged_file_is_listed_as_far_as_it_goes(tmp_path: Path, capsys: Capture) -> None:
    data = golden("conv_rk3588_i8").read_bytes()
    task = openrknn.load(data).graphs[0].tasks[0]
    record = b"".join(number.to_bytes(4, "little") for number in task[:7])
    changed = record[:4] + (77).to_bytes(4, "little") + record[8:24] + (50_000).to_bytes(4, "little")
    path = tmp_path / "damaged.rknn"
    path.write_bytes(data.replace(record, changed, 1))
    result = run(capsys, "disasm", path)
    assert result.code == 0, result.err
    assert "operator 77 not in the graph" in result.out
    assert "of these commands are missing: the file is damaged" in result.out


def test_colors_are_for_terminals() -> None:
    assert "\x1b" not in program("disasm", golden("conv_rk3588_i8"), "--op", "1").out
    assert "\x1b[1m# task 0" in program("disasm", golden("conv_rk3588_i8"), "--op", "1", "--color", "always").out


def test_the_page_about_json_names_every_key(capsys: Capture) -> None:
    page = (Path(__file__).parents[2] / "docs" / "disasm-json.md").read_text()
    documented = set(re.findall(r"`([a-z_]+)`", page))
    for name in ("silu_rk3588_i8", "single_rv1106_i8"):
        found = json.loads(run(capsys, "disasm", golden(name), "--json").out)
        keys = set(found)
        for task in found["tasks"]:
            keys |= set(task)
            for command in task["commands"]:
                keys |= set(command)
        assert keys <= documented


def test_commands_alone_in_a_file(tmp_path: Path, capsys: Capture) -> None:
    """FINDINGS 22: what Mesa writes with ROCKET_DEBUG=dump_bos was no .rknn and was refused."""
    graph = openrknn.load(golden("conv_rk3588_i8")).graphs[0]
    words = graph.commands[: graph.tasks[0].amount + 4]
    dump = tmp_path / "mesa-regcmd-000-000.bin"
    dump.write_bytes(words.tobytes())
    text = run(capsys, "disasm", dump).out
    registers = map_for("rk3588")
    assert assemble(parse_text(text, registers)) == words.tolist()
    lines = run(capsys, "disasm", dump, "--raw").out.splitlines()
    assert lines[1].startswith(f"0x0008  {int(words[1]):#018x}  {int(words[1]) & 0xFFFF:#06x} ")
    rows = json.loads(run(capsys, "disasm", dump, "--json").out)["commands"]
    assert [int(row["word"], 16) for row in rows] == words.tolist()
    dump.write_bytes(bytes(range(256)) * 2)
    assert run(capsys, "disasm", dump).code == 2
