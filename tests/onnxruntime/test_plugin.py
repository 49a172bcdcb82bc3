"""The execution provider inside the unmodified onnxruntime. Witness: onnxruntime's own CPUExecutionProvider."""

import gc
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from openrknn.onnxruntime import plugin, plugin_host, plugin_parts  # noqa: E402
from openrknn.partition import Parted  # noqa: E402

try:
    plugin.library()
    plugin.register()
except UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)

RKNN = plugin.PROVIDER
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any]) -> bytes:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data: bytes = made.SerializeToString()
    return data


def weights(*shape: int, seed: int = 0) -> Any:
    made = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return made.astype(np.float32)


def small(batch: int | str = 1) -> bytes:
    """Two convolutions with an operator between them that the NPU does not have."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Shrink", ["b"], ["c"], lambd=0.2, bias=0.1, name="shrunk"),
        helper.make_node("Conv", ["c", "v"], ["d"], strides=[2, 2], name="second"),
        helper.make_node("GlobalAveragePool", ["d"], ["y"], name="mean"),
    ]
    constants = {"w": weights(8, 3, 3, 3), "v": weights(16, 8, 3, 3, seed=1)}
    return model_of(nodes, [value("x", [batch, 3, 12, 12])], [value("y", [batch, 16, 1, 1])], constants)


def options_with(**given: str) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_provider_for_devices(plugin.devices(), {"prefer": "npu", "cache": "off", **given})
    return options


def session_of(model: bytes, **given: str) -> Any:
    """Without the other try that Python's class makes on the CPU whenever something fails."""
    session = ort.InferenceSession(model, options_with(**given), enable_fallback=0)
    session.disable_fallback()
    return session


def on_cpu(model: bytes, feed: dict[str, Any]) -> list[Any]:
    found: list[Any] = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    return found


def assert_close(got: list[Any], want: list[Any]) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=4e-3 * max(1.0, float(np.abs(other).max())))


def picture(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def planned(model: bytes, **given: str) -> list[int]:
    """Which part each node of a model file goes to, without ONNX Runtime's help."""
    book = plugin_parts.Book()
    entries = {plugin_parts.PREFIX + key: text for key, text in {"prefer": "npu", "cache": "off", **given}.items()}
    return book.plan(book.open(entries), model)


def test_the_device_is_there() -> None:
    (device,) = plugin.devices()
    assert device.ep_name == RKNN
    assert device.ep_vendor == "openrknn"
    plugin.register()  # again: nothing happens
    assert plugin.is_registered()
    assert len(plugin.devices()) == 1


def test_parts_on_the_npu_and_the_rest_in_onnx_runtime() -> None:
    model, x = small(), picture(1, 3, 12, 12)
    session = session_of(model)
    assert session.get_providers()[0] == RKNN
    assert plugin_host.BOOK.sizes == (1, 2)
    got, want = session.run(None, {"x": x}), on_cpu(model, {"x": x})
    assert_close(got, want)
    assert not np.array_equal(got[0], want[0])  # the NPU's fp16 leaves its traces: it was not the CPU that computed
    del session
    gc.collect()
    assert plugin_host.BOOK.sizes == (0, 0)


def test_what_is_taken() -> None:
    assert planned(small()) == [0, 0, -1, 1, 1]
    assert planned(small(), prefer="cpu") == [-1] * 5
    assert planned(small(), prefer="cost") == [-1] * 5  # a hundred numbers are not worth the way


def test_the_npu_is_preferred_by_policy() -> None:
    if (
        not hasattr(ort.SessionOptions, "set_provider_selection_policy")
        or plugin.devices()[0].device.type.name != "NPU"
    ):
        pytest.skip("onnxruntime 1.23 lets no library bring an NPU")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_NPU)
    assert RKNN in ort.InferenceSession(small(), options).get_providers()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"target": "rk1"}, "rk1"),
        ({"precision": "int3"}, "int3"),
        ({"speed": "high"}, "speed"),
        ({"outputs": "d"}, "change the model"),
    ],
)
def test_options_that_are_wrong_are_said(given: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        session_of(small(), **given)
    assert plugin_host.BOOK.sizes == (0, 0)


def test_open_batch_runs_with_any_size() -> None:
    model = small("n")
    session = session_of(model)
    assert plugin_host.BOOK.sizes == (1, 2)
    for rows in (1, 3, 1):
        x = picture(rows, 3, 12, 12)
        assert_close(session.run(None, {"x": x}), on_cpu(model, {"x": x}))


def test_announced_shapes_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Parted] = []

    def open_it(*given: Any) -> Parted:
        opened.append(Parted(*given))
        return opened[-1]

    monkeypatch.setattr(plugin_parts, "Parted", open_it)
    model = small("n")
    session = session_of(model, shapes="x=2x3x12x12")
    assert [len(parted.plans) for parted in opened] == [1, 1]
    x = picture(2, 3, 12, 12)
    assert_close(session.run(None, {"x": x}), on_cpu(model, {"x": x}))
    assert [len(parted.plans) for parted in opened] == [1, 1]  # nothing had to be learnt


def test_graphs_inside_stay_where_they_are() -> None:
    """The body of an If, values from outside in it, and a shape that only ONNX Runtime knows behind it."""
    then = helper.make_graph([helper.make_node("Neg", ["a"], ["t"])], "then", [], [value("t", [1, 4, 8, 8])])
    other = helper.make_graph([helper.make_node("Abs", ["a"], ["e"])], "else", [], [value("e", [1, 4, 8, 8])])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("If", ["flag"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("Conv", ["b", "v"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    model = model_of(
        nodes, [value("x", [1, 3, 8, 8]), value("flag", [], BOOL)], [value("y", [1, 5, 6, 6])],
        {"w": weights(4, 3, 3, 3), "v": weights(5, 4, 3, 3, seed=2)},
    )  # fmt: skip
    session = session_of(model)
    assert plugin_host.BOOK.sizes == (1, 2)
    for flag in (True, False):
        feed = {"x": picture(1, 3, 8, 8), "flag": np.array(flag)}
        assert_close(session.run(None, feed), on_cpu(model, feed))


def test_attributes_of_every_kind_arrive() -> None:
    """Numbers, lists of both kinds, texts, and tensors: of the operators, as the partition sees them."""
    seen: list[Any] = []
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(weights(4, 3, 1, 1))),
        helper.make_node("Conv", ["x", "k"], ["a"], kernel_shape=[1, 1], group=1, auto_pad="NOTSET"),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.25),
        helper.make_node("Resize", ["b", "", "scales"], ["y"], mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric"),
    ]  # fmt: skip
    scales = np.array([1, 1, 2, 2], np.float32)
    model = model_of(nodes, [value("x", [1, 3, 4, 4])], [value("y", [1, 4, 8, 8])], {"scales": scales})
    options = options_with()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    plan = plugin_host.BOOK.plan

    def spy(session: int, data: bytes) -> list[int]:
        seen.append(onnx.load_from_string(data))
        return plan(session, data)

    plugin_host.BOOK.plan = spy  # type: ignore[method-assign]
    try:
        session = ort.InferenceSession(model, options, enable_fallback=0)
    finally:
        plugin_host.BOOK.plan = plan  # type: ignore[method-assign]
    onnx.checker.check_model(seen[0])
    told = {node.op_type: node for node in seen[0].graph.node}
    source = {node.op_type: node for node in nodes}
    for kind in ("Conv", "LeakyRelu", "Resize"):
        want = {entry.name: helper.get_attribute_value(entry) for entry in source[kind].attribute}
        got = {entry.name: helper.get_attribute_value(entry) for entry in told[kind].attribute}
        assert {name: got[name] for name in want} == want
        assert list(told[kind].input) == list(source[kind].input)
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in seen[0].graph.initializer}
    np.testing.assert_array_equal(kept["scales"], scales)
    assert_close(session.run(None, {"x": picture(1, 3, 4, 4)}), on_cpu(model, {"x": picture(1, 3, 4, 4)}))


def test_quantised_models_keep_their_scales() -> None:
    def pair(name: str, scale: str, zero: str) -> list[Any]:
        return [
            helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_q"]),
            helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_d"]),
        ]

    nodes = [
        *pair("x", "sx", "zero"),
        helper.make_node("DequantizeLinear", ["w", "sw", "zero"], ["w_d"]),
        helper.make_node("Conv", ["x_d", "w_d"], ["a"], pads=[1, 1, 1, 1]),
        *pair("a", "sa", "zero"),
        helper.make_node("Identity", ["a_d"], ["y"]),
    ]
    constants = {
        "sx": np.float32(0.03), "sw": np.float32(0.01), "sa": np.float32(0.05), "zero": np.int8(0),
        "w": np.random.default_rng(3).integers(-90, 90, (8, 4, 3, 3)).astype(np.int8),
    }  # fmt: skip
    model = model_of(nodes, [value("x", [1, 4, 8, 8])], [value("y", [1, 8, 8, 8])], constants)
    x = picture(1, 4, 8, 8)
    (got,), (want,) = session_of(model).run(None, {"x": x}), on_cpu(model, {"x": x})
    assert np.abs(got - want).max() <= 0.05 * 1.01  # one step


def test_a_failure_in_python_is_a_text_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> Any:
        raise RuntimeError("the moon is full")

    caplog.set_level(logging.CRITICAL, plugin_host.__name__)  # tracebacks hold the frames that called, and sessions
    model, feed = small(), {"x": picture(1, 3, 12, 12)}
    session = session_of(model)
    with monkeypatch.context() as patch:
        patch.setattr(plugin_host.BOOK, "run", fails)
        with pytest.raises(Exception, match="RuntimeError: the moon is full"):
            session.run(None, feed)
    assert_close(session.run(None, feed), on_cpu(model, feed))
    with monkeypatch.context() as patch:
        patch.setattr(plugin_host.BOOK, "build", fails)
        with pytest.raises(Exception, match="the moon is full"):
            session_of(model)
    with monkeypatch.context() as patch:
        patch.setattr(plugin_host.BOOK, "plan", fails)
        options = options_with()
        options.log_severity_level = 4
        assert_close(ort.InferenceSession(model, options).run(None, feed), on_cpu(model, feed))  # all in ONNX Runtime
    del session
    gc.collect()
    assert plugin_host.BOOK.sizes == (0, 0)


def test_results_of_another_type_or_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(small())
    run = plugin_host.BOOK.run
    for change in (lambda array: array.astype(np.float64), lambda array: array[..., :-1].astype(np.float16)):
        monkeypatch.setattr(
            plugin_host.BOOK, "run", lambda part, arrays, change=change: [change(one) for one in run(part, arrays)]
        )
        with pytest.raises(Exception, match="another type or size"):
            session.run(None, {"x": picture(1, 3, 12, 12)})


def test_many_sessions_and_threads() -> None:
    model, x = small(), picture(1, 3, 12, 12)
    want = session_of(model).run(None, {"x": x})[0]
    sessions = [session_of(model) for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda number: sessions[number % 3].run(None, {"x": x})[0], range(24)):
            np.testing.assert_array_equal(got, want)
    sessions.clear()
    gc.collect()
    assert plugin_host.BOOK.sizes == (0, 0)


def test_outputs_inside_a_part_and_inputs_that_others_read() -> None:
    """A value that is an output of the model and read in the part as well, and two outputs of one part."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("ArgMax", ["b"], ["best"], axis=1),
    ]
    outputs = [value("c", [1, 4, 6, 6]), value("best", [1, 1, 6, 6], INT64), value("a", [1, 4, 6, 6])]
    model = model_of(nodes, [value("x", [1, 3, 6, 6])], outputs, {"w": weights(4, 3, 3, 3)})
    feed = {"x": picture(1, 3, 6, 6)}
    got, want = session_of(model).run(None, feed), on_cpu(model, feed)
    assert_close([got[0], got[2]], [want[0], want[2]])
    assert (got[1] == want[1]).mean() > 0.95


def test_a_process_that_ends_with_open_sessions_ends_well(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(small())
    program = f"""
import onnxruntime as ort, numpy as np
from openrknn.onnxruntime import plugin
options = ort.SessionOptions()
options.log_severity_level = 3
options.add_provider_for_devices(plugin.devices(), {{"prefer": "npu", "cache": "off"}})
session = ort.InferenceSession({str(tmp_path / "model.onnx")!r}, options)
class Keeper: pass
keeper = Keeper(); keeper.me, keeper.session = keeper, session
print(session.run(None, {{"x": np.ones((1, 3, 12, 12), np.float32)}})[0].shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "(1, 16, 1, 1)"), done.stderr


ALONE = """
import os, sys, threading
import numpy as np, onnxruntime as ort
model, library = sys.argv[1:]
ort.register_execution_provider_library("rknn", library)  # as a C program does it: nothing of openrknn is loaded
assert "openrknn" not in sys.modules
(device,) = [one for one in ort.get_ep_devices() if one.ep_name == "RknnExecutionProvider"]

def session(**given):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices([device], {"prefer": "npu", "cache": "off", **given})
    made = ort.InferenceSession(model, options, enable_fallback=0)
    made.disable_fallback()
    return made

feed = {"x": np.load(model + ".npy")}
first, second = session(), session()
found = []
threads = [threading.Thread(target=lambda one=one: found.append(one.run(None, feed)[0])) for one in (first, second) * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 4 and all(np.array_equal(one, found[0]) for one in found)
np.save(model + ".got.npy", found[0])
try:
    session(target="rk1")
except Exception as error:
    assert "rk1" in str(error), error
else:
    raise AssertionError("taken")
(engine,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
os.kill(engine, 9)
os.waitid(os.P_PID, engine, os.WEXITED | os.WNOWAIT)
try:
    first.run(None, feed)
except Exception as error:
    assert "Make the session again" in str(error), error
else:
    raise AssertionError("it ran without its engine")
assert np.array_equal(session().run(None, feed)[0], found[0])  # a new engine
try:
    second.run(None, feed)
except Exception as error:
    assert "released" in str(error), error  # the numbers of the old one mean nothing to it
else:
    raise AssertionError("it ran in another engine")
print("done")
"""


def test_programs_that_are_not_python_have_an_engine(tmp_path: Path) -> None:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("no /proc here")
    model, x = small(), picture(1, 3, 12, 12)
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    np.save(f"{path}.npy", x)
    engine = f"{sys.executable} -m openrknn.onnxruntime.plugin_engine"
    words = [sys.executable, "-c", ALONE, str(path), str(plugin.library())]
    environment = {**os.environ, "OPENRKNN_ORT_ENGINE": engine}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert_close([np.load(f"{path}.got.npy")], on_cpu(model, {"x": x}))


def test_an_engine_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(small())
    program = """
import sys, onnxruntime as ort
ort.register_execution_provider_library("rknn", sys.argv[2])
options = ort.SessionOptions()
options.add_provider_for_devices([one for one in ort.get_ep_devices() if one.ep_name == "RknnExecutionProvider"], {})
ort.InferenceSession(sys.argv[1], options, enable_fallback=0)
"""
    words = [sys.executable, "-c", program, str(tmp_path / "model.onnx"), str(plugin.library())]
    environment = {**os.environ, "OPENRKNN_ORT_ENGINE": "/no/such/engine"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 1
    assert "/no/such/engine cannot be started" in done.stderr
