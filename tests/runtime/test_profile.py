"""What operators cost, and what a session needs."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.container.parts import Kind, Placement
from openrknn.cost import BOARDS, Bound
from openrknn.runtime.cost import cost_of
from openrknn.runtime.profile import describe
from openrknn.runtime.program.steps import core_lists, operators_to_run, split
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS, MODELS, answers, program_of, shared_case


def test_a_profile_has_a_row_for_each_operator() -> None:
    inputs, _ = answers(GOLDENS / "cpu_sin_rk3588_i8.rknn")
    with Session(GOLDENS / "cpu_sin_rk3588_i8.rknn") as session:
        profile = session.profile(inputs, runs=2)
        assert [row.type for row in profile.operators] == ["Conv", "Sin", "Conv"]
        assert [row.placement for row in profile.operators] == [Placement.NPU, Placement.CPU, Placement.NPU]
        assert all(row.seconds > 0 for row in profile.operators)
        assert profile.seconds == sum(row.seconds for row in profile.operators)
        assert profile.operators[1].estimated_cycles is None
        assert (profile.runs, profile.device, profile.cores) == (2, "software:rk3588", 1)
        with pytest.raises(ValueError, match="0 runs"):
            session.profile(inputs, runs=0)


def test_one_row_by_hand() -> None:
    """Every weight meets every pixel once; what is moved is counted in the registers, the commands included."""
    inputs, _ = answers(GOLDENS / "conv_rk3588_i8.rknn")
    with Session(GOLDENS / "conv_rk3588_i8.rknn") as session:
        (row,) = session.profile(inputs).operators
        operator = session.model.operators[1]
        source, weights, bias = operator.inputs[:3]
        assert row.macs == 7 * 5 * weights.elements
        atoms = [-(-tensor.shape[1] // 16) * 16 for tensor in (source, operator.outputs[0])]
        commands = 8 * (session.model.graphs[0].tasks[0].amount + 4)
        read = atoms[0] * 7 * 5 + len(weights.data or b"") + len(bias.data or b"")
        assert row.bytes_moved == read + atoms[1] * 7 * 5 + commands
        board = BOARDS["rk3588"]
        seconds = row.bytes_moved / board.bytes_per_second + board.task_seconds + board.submit_seconds
        assert row.estimated_cycles == round(seconds * board.hertz)
        assert row.time_ms == pytest.approx(seconds * 1e3)
        assert row.bound is Bound.START
        assert row.array_cycles == 7 * 5 * 9 * -(-source.shape[1] // 32) * -(-weights.shape[0] // 32)


def test_what_cannot_be_decoded_counts_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no cycles and no time, and the profile says so."""
    from openrknn.container.load import load
    from openrknn.errors import UnsupportedError
    from openrknn.npu import Machine

    def refuse(*_: object) -> None:
        raise UnsupportedError("a mode that nobody knows")

    model = load(GOLDENS / "conv_rk3576_i8.rknn")
    monkeypatch.setattr(Machine, "prepare", refuse)
    (row,) = describe(model, model.graphs[0], cost_of(model), {})
    operator = next(entry for entry in operators_to_run(model.operators) if entry.index == row.index)
    tensors = (*operator.inputs, *operator.outputs)
    assert row.bytes_moved == sum(len(t.data) if t.data else t.size_bytes for t in tensors)
    assert (row.estimated_cycles, row.time_ms, row.bound) == (None, None, None)


def test_profiling_changes_no_result() -> None:
    """Operator by operator, each a job of its own, on what the last run left in the inputs."""
    inputs, _ = answers(GOLDENS / "two_outputs_rk3588_i8.rknn")
    with Session(GOLDENS / "two_outputs_rk3588_i8.rknn", cores=2) as session:
        want = session.run(inputs, outputs="raw")
        for port in program_of(session).outputs:
            port.stored.native[...] = 0
        session.profile()
        ours = {port.name: port.read("raw") for port in program_of(session).outputs}
        assert all(np.array_equal(ours[name], want[name]) for name in want)


@pytest.mark.parametrize(
    ("name", "cycles"),
    [
        ("bench/mbv2", 1_004_210),
        ("effnet_lite0", 1_083_184),
        ("bench/resnet18", 2_006_722),
        ("bench/v8n", 5_937_102),
        ("yolox_nano", 1_601_955),
    ],
)
def test_whole_networks_take_longer_than_the_vendor_counts(name: str, cycles: int) -> None:
    """Runtime 1.5.2 prints cycles of the one-core list, without tables and starts: with SiLU it is far from a board's.

    What boards take is held in tests/cost/test_docs.py; this holds the counting against an independent one.
    """
    from openrknn.container.load import load

    model = load(shared_case(MODELS / f"{name}_rk3588_i8.rknn"))
    rows = describe(model, model.graphs[0], cost_of(model), {})
    assert 1.3 < sum(row.estimated_cycles or 0 for row in rows) / cycles < 6


def test_memory_by_use() -> None:
    with Session(GOLDENS / "two_outputs_rk3588_i8.rknn") as session:
        report = session.memory()
        page = 4096
        assert (report.inputs, report.outputs) == (page, 2 * page)
        constants = [tensor for tensor in session.model.graphs[0].tensors if tensor.kind in {Kind.WEIGHT, Kind.LUT}]
        assert report.weights >= sum(len(tensor.data or b"") for tensor in constants)
        assert report.commands == -(-8 * len(session.model.graphs[0].commands) // page) * page
        assert report.total == report.weights + report.commands + report.internal + report.inputs + report.outputs
        assert "weights" in str(report)
        assert "shared" not in str(report)
        with Session(session.model, share_weights_with=session):
            assert "weights shared by 2 sessions" in str(session.memory())


def test_jobs_are_split_where_the_cpu_works() -> None:
    from openrknn.container.load import load

    model = load(GOLDENS / "cpu_sin_rk3588_i8.rknn")
    graph = model.graphs[0]
    operators = operators_to_run(model.operators)
    lists = core_lists(graph, model.chip, 1)
    segments = split(graph, operators, lists, singly=False)
    assert [segment.is_npu for segment in segments] == [True, False, True]
    assert [segment.lists for segment in segments] == [((0,),), (), ((1,),)]


def test_neither_end_of_a_graph_is_run() -> None:
    """The vendor's runtime 1.5.2 starts behind the task of the InputOperator as well (tests/witness)."""
    from openrknn.container.load import load

    model = load(GOLDENS / "two_inputs_rk3588_i8.rknn")
    assert len(model.operators[0].tasks) == 1
    graph = model.graphs[0]
    (segment,) = split(graph, operators_to_run(model.operators), core_lists(graph, model.chip, 1), singly=False)
    assert segment.lists == ((1, 2),)
