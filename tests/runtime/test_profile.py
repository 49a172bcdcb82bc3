"""What operators cost, and what a session needs."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.container.parts import Kind, Placement
from openrknn.runtime.profile import describe
from openrknn.runtime.session import Session
from openrknn.runtime.steps import core_lists, operators_to_run, split
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
        assert row.estimated_cycles == -(-(row.bytes_moved - commands) // 16) + commands // 16
        assert row.array_cycles is not None
        assert row.array_cycles >= row.macs / 1024


def test_what_cannot_be_decoded_counts_its_tensors() -> None:
    """RK3576: a part of a task's description is in memory."""
    from openrknn.container.load import load

    model = load(GOLDENS / "conv_rk3576_i8.rknn")
    (row,) = describe(model, model.graphs[0], 1, {})
    operator = next(entry for entry in operators_to_run(model.operators) if entry.index == row.index)
    moved = sum(len(t.data) if t.data else t.size_bytes for t in (*operator.inputs, *operator.outputs))
    assert row.bytes_moved == moved
    assert row.estimated_cycles == max(row.array_cycles or 0, -(-moved // 16))


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
def test_whole_networks_are_near_the_vendors_own_estimate(name: str, cycles: int) -> None:
    """What runtime 1.5.2 prints as total cycles of the one-core list; ours is 3 to 17 % above it."""
    from openrknn.container.load import load

    model = load(shared_case(MODELS / f"{name}_rk3588_i8.rknn"))
    rows = describe(model, model.graphs[0], 1, {})
    assert 1 <= sum(row.estimated_cycles or 0 for row in rows) / cycles < 1.17


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
