"""CPU parts of a file: limits of memory and time, interrupts, processes that end. Evidence: what the process does."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openrknn.container.bundle import Bundle, Part, Plan, Port, write_bundle
from openrknn.errors import BudgetError, ExecutionError, FormatError, RknnError
from openrknn.runtime.parted.session import PartedSession
from openrknn.runtime.session import Session
from tests.parted_file import feed, parted_bundle

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def file_of(nodes: Any, initializers: Any = (), *, shape: Any = (1,)) -> bytes:
    """A file with one CPU part: x to y."""
    from onnx import helper

    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "g", [given], [onnx.ValueInfoProto(name="y")], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    part = Part("cpu", "parts/00.onnx", ("x",), ("y",))
    port = Port("x", "tensor(float)", (1,)), Port("y", "tensor(float)", shape)
    return write_bundle(
        Bundle("rk3588", port[:1], port[1:], (part,), (Plan((0,)),), {part.file: model.SerializeToString()})
    )


def constant(value: Any, name: str) -> Any:
    return onnx.numpy_helper.from_array(np.array(value), name)


def endless() -> bytes:
    """A Loop that never ends."""
    from onnx import helper

    scalar = [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("go", 9))]
    state = helper.make_tensor_value_info("s", 1, [1])
    made = [helper.make_tensor_value_info("again", 9, []), helper.make_tensor_value_info("t", 1, [1])]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Cos", ["s"], ["t"])], "b",
        [*scalar, state], made,
    )  # fmt: skip
    return file_of(
        [helper.make_node("Loop", ["most", "true", "x"], ["y"], body=body)],
        [constant(np.int64(2**62), "most"), constant(np.bool_(1), "true")],
    )


def enormous() -> bytes:
    """2 GB from a few hundred bytes, when it runs."""
    helper = onnx.helper
    return file_of(
        [
            helper.make_node("Concat", ["x", "x"], ["twice"], axis=0),
            helper.make_node("Expand", ["x", "size"], ["large"]),
            helper.make_node("ReduceSum", ["large"], ["y"], keepdims=0),
        ],
        [constant(np.array([2**14, 2**15], np.int64), "size")], shape=(),
    )  # fmt: skip


def folded() -> bytes:
    """The same from constants: ONNX Runtime computes it when the part is opened."""
    helper = onnx.helper
    return file_of(
        [
            helper.make_node("Expand", ["one", "size"], ["large"]),
            helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=1),
            helper.make_node("Add", ["sum", "x"], ["y"]),
        ],
        [constant(np.array([2**15, 2**15], np.int64), "size"), constant(np.ones(1, np.float32), "one")],
        shape=(1, 1),
    )  # fmt: skip


X = {"x": np.ones(1, np.float32)}


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pid_of(session: PartedSession) -> int:
    assert session._host is not None
    assert session._host._process is not None
    return session._host._process.pid


@pytest.mark.parametrize("make", [enormous, folded])
def test_memory_is_limited(make: Any) -> None:
    data = make()
    assert len(data) < 2000
    with Session(data, "software", max_memory=256 << 20) as session:
        with pytest.raises(BudgetError, match="OPENRKNN_MAX_MEMORY"):
            session.run(X)
        with pytest.raises(BudgetError, match="OPENRKNN_MAX_MEMORY"):  # the session is still usable, and still refuses
            session.run(X)


def test_the_default_allows_a_gigabyte_and_no_more_for_a_small_file() -> None:
    with Session(enormous(), "software") as session, pytest.raises(BudgetError, match="needs more memory"):
        session.run(X)


def test_time_is_limited_and_the_next_run_begins_anew() -> None:
    with Session(endless(), "software", max_work=300_000_000) as session:
        for _ in range(2):
            with pytest.raises(BudgetError, match=r"took more than 0\.3 s"):
                session.run(X)


def test_an_interrupt_ends_a_part() -> None:
    session = Session(endless(), "software")
    assert isinstance(session, PartedSession)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.run(X)
    finally:
        timer.cancel()
    assert time.monotonic() - begun < 30
    assert session._host is not None
    assert session._host._process is None
    session.close()


def test_the_process_ends_with_its_last_session() -> None:
    bundle = parted_bundle()
    first = PartedSession(bundle, "software")
    wanted = first.run(feed())
    second = PartedSession(bundle, share_weights_with=first)
    assert np.array_equal(second.run(feed())["scores"], wanted["scores"])
    pid = pid_of(first)
    assert pid_of(second) == pid
    first.close()
    first.close()
    assert not is_gone(pid)
    assert np.array_equal(second.run(feed(1))["scores"].shape, wanted["scores"].shape)
    second.close()
    assert is_gone(pid)


def test_sessions_that_share_run_at_the_same_time_and_alike() -> None:
    with PartedSession(parted_bundle(), "software") as first:
        wanted = [first.run(feed(seed)) for seed in range(3)]
        with PartedSession(parted_bundle(), share_weights_with=first) as second:
            found: dict[int, Any] = {}
            threads = [
                threading.Thread(target=lambda at=at, one=one: found.setdefault(at, one.run(feed(at))))
                for at, one in enumerate((first, second))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for at, made in found.items():
            assert all(np.array_equal(made[name], wanted[at][name]) for name in made)


def test_a_process_that_dies_is_an_error_and_is_replaced() -> None:
    with PartedSession(parted_bundle(), "software") as session:
        wanted = session.run(feed())
        os.kill(pid_of(session), signal.SIGSEGV)
        # A thread of it may still answer until the signal has ended all of them.
        os.waitid(os.P_PID, pid_of(session), os.WEXITED | os.WNOWAIT)
        with pytest.raises(ExecutionError, match="ended"):
            session.run(feed())
        assert np.array_equal(session.run(feed())["scores"], wanted["scores"])


def test_what_onnxruntime_refuses_is_an_error_of_ours() -> None:
    helper = onnx.helper
    with (
        Session(file_of([helper.make_node("NoSuchThing", ["x"], ["y"])]), "software") as session,
        pytest.raises(FormatError, match="ONNX Runtime does not take"),
    ):
        session.run(X)
    reshape = file_of([helper.make_node("Reshape", ["x", "to"], ["y"])], [constant(np.array([3], np.int64), "to")])
    with Session(reshape, "software") as session, pytest.raises((RknnError, ValueError)):
        session.run(X)


def test_in_this_process_with_options_of_onnxruntime() -> None:
    import onnxruntime

    with PartedSession(parted_bundle(), "software", session_options=onnxruntime.SessionOptions()) as one:
        wanted = one.run(feed())
        assert one._host is None
    with PartedSession(replace(parted_bundle()), "software") as other:
        found = other.run(feed())
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_texts_and_sequences_pass() -> None:
    import socket

    from openrknn.runtime.parted.messages import receive, send

    ours, theirs = socket.socketpair()
    with ours, theirs:
        values = [np.array(["a", "ü"], object), [np.arange(3), np.zeros((0, 2))], None, np.float32(2), np.array(True)]
        send(ours, {"do": "it"}, values)
        words, found = receive(theirs, 5)
    assert words == {"do": "it"}
    assert found[0].tolist() == ["a", "ü"]
    assert found[1][0].tolist() == [0, 1, 2]
    assert found[1][1].shape == (0, 2)
    assert found[2] is None
    assert (found[3].shape, found[4].dtype) == ((), np.bool_)
