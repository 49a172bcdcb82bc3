"""ONNX Runtime's own session is the witness: same model, same feed, same answers and same exceptions."""

import importlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import openrknn.onnxruntime as ort

OPTIONS = [{"prefer": "cpu", "cache": "off"}, {}]
BOTH = ["RknnExecutionProvider", "CPUExecutionProvider"]


def model(*, dynamic: bool = True) -> bytes:
    rows: int | str = "n" if dynamic else 2
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 3]),
            helper.make_tensor_value_info("m", TensorProto.FLOAT, [rows, 3]),
        ],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.linspace(-1, 1, 12).tolist())],
        doc_string="of the graph",
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="a test", doc_string="words"
    )
    made.metadata_props.add(key="labels", value="a,b,c")
    written: bytes = made.SerializeToString()
    return written


def ours(source: Any = None, options: Any = None, **more: Any) -> ort.InferenceSession:
    return ort.InferenceSession(source or model(), options, BOTH, OPTIONS, **more)


def feed(rows: int = 2) -> dict[str, Any]:
    return {"x": np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) - 3}


@pytest.fixture(scope="module")
def real() -> Any:
    return onnxruntime.InferenceSession(model(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def session() -> ort.InferenceSession:
    return ours()


def test_it_is_the_real_module_with_our_session() -> None:
    assert ort.SessionOptions is onnxruntime.SessionOptions
    # The plug-in registers one of the same name.
    others = [name for name in onnxruntime.get_available_providers() if name != "RknnExecutionProvider"]
    assert ort.get_available_providers() == ["RknnExecutionProvider", *others]
    assert ort.__version__ == onnxruntime.__version__
    assert set(dir(onnxruntime)) <= set(dir(ort))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ort.nonsense


def test_submodules_are_those_of_the_real_module() -> None:
    # By name: the types of the real package are not known, and neither are those of its other name.
    state = importlib.import_module("openrknn.onnxruntime.capi.onnxruntime_pybind11_state")
    onnxruntime_validation = importlib.import_module("openrknn.onnxruntime.capi.onnxruntime_validation")
    assert state.InvalidArgument is onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument
    assert onnxruntime_validation.__name__ == "onnxruntime.capi.onnxruntime_validation"
    assert onnxruntime_validation.__spec__ is not None
    assert onnxruntime_validation.__spec__.name == "onnxruntime.capi.onnxruntime_validation"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("openrknn.onnxruntime.nonsense")


def test_run_gives_what_onnx_runtime_gives(real: Any, session: ort.InferenceSession) -> None:
    assert isinstance(session, onnxruntime.InferenceSession)
    for rows in (1, 2, 5):
        for names in (None, [], ["m"], ["m", "y"], ["y", "y"]):
            got, want = session.run(names, feed(rows)), real.run(names, feed(rows))
            assert len(got) == len(want)
            for one, other in zip(got, want, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype


def test_a_list_is_as_good_as_an_array(real: Any, session: ort.InferenceSession) -> None:
    given = {"x": [[1, 2, 3, 4]]}
    np.testing.assert_array_equal(session.run(None, given)[0], real.run(None, given)[0])
    value = {"x": ort.OrtValue.ortvalue_from_numpy(feed()["x"])}
    np.testing.assert_array_equal(session.run(None, value)[0], real.run(None, feed())[0])


def test_it_says_what_onnx_runtime_says(real: Any, session: ort.InferenceSession) -> None:
    for mine, theirs in zip(
        (*session.get_inputs(), *session.get_outputs()), (*real.get_inputs(), *real.get_outputs()), strict=True
    ):
        assert (mine.name, mine.type, mine.shape, str(mine)) == (theirs.name, theirs.type, theirs.shape, str(theirs))
    mine, theirs = session.get_modelmeta(), real.get_modelmeta()
    for word in (word for word in dir(theirs) if not word.startswith("_")):
        assert getattr(mine, word) == getattr(theirs, word), word
    assert session.get_providers() == BOTH
    assert session.get_provider_options() == {"RknnExecutionProvider": OPTIONS[0], "CPUExecutionProvider": {}}
    assert isinstance(session.get_session_options(), ort.SessionOptions)
    assert len(session.get_input_memory_infos()) == 1  # of the whole model, opened for the question


@pytest.mark.parametrize(
    "wrong",
    [
        lambda one: one.run(None, {}),
        lambda one: one.run(["nonsense"], feed()),
        lambda one: one.run(None, {**feed(), "nonsense": feed()["x"]}),
        lambda one: one.run(None, {"x": feed()["x"][0]}),
        lambda one: one.run(None, {"x": feed()["x"].astype(np.float64)}),
        lambda one: one.run(None, {"x": feed()["x"][:, :3]}),
        lambda one: one.run(None, {"x": np.float32(1)}),
        lambda one: one.run(None, [1]),
    ],
)
def test_exceptions_are_onnx_runtimes(wrong: Callable[[Any], Any], real: Any, session: Any) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - what it is, ONNX Runtime says
        wrong(real)
    with pytest.raises(theirs.type) as mine:
        wrong(session)
    assert str(mine.value) == str(theirs.value)


@pytest.mark.parametrize("source", ["nonsense.onnx", b"nonsense", b"", 3])
def test_what_is_no_model_is_refused_as_by_onnx_runtime(source: Any) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    with pytest.raises(theirs.type) as mine:
        ort.InferenceSession(source)
    assert str(mine.value) == str(theirs.value)


def test_without_our_provider_it_is_a_plain_session(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
    assert plain.parted is None
    assert plain.get_providers() == ["CPUExecutionProvider"]
    assert type(plain.get_inputs()[0]) is onnxruntime.NodeArg
    assert type(plain.io_binding()) is onnxruntime.IOBinding
    assert plain.run(["y"], feed())[0].shape == (2, 3)
    monkeypatch.setenv("OPENRKNN_PROVIDERS", "RknnExecutionProvider")
    monkeypatch.setenv("OPENRKNN_PROVIDER_OPTIONS", "prefer=cpu; cache=off")
    pushed = ort.InferenceSession(model(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert pushed.get_providers() == BOTH
    assert pushed.get_provider_options()["RknnExecutionProvider"] == {"prefer": "cpu", "cache": "off"}


def test_providers_change() -> None:
    one = ours()
    one.set_providers(["CPUExecutionProvider"])
    assert (one.parted, one.get_providers()) == (None, ["CPUExecutionProvider"])
    want = one.run(None, feed())
    one.set_providers(["RknnExecutionProvider"], OPTIONS[:1])
    assert one.get_providers() == BOTH
    np.testing.assert_array_equal(one.run(None, feed())[0], want[0])


def test_a_subclass_keeps_its_hooks() -> None:
    class Mine(ort.InferenceSession):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return [-value for value in super().run(*args, **kwargs)]

    for providers in (BOTH, ["CPUExecutionProvider"]):
        options = OPTIONS[: len(providers)] if len(providers) == 2 else None
        mine = Mine(model(), providers=providers, provider_options=options)
        assert mine.run(["y"], feed())[0].max() <= 0


def test_binding_reads_and_writes_the_callers_memory(real: Any, session: ort.InferenceSession) -> None:
    want = real.run(["y", "m"], feed())
    binding = session.io_binding()
    assert isinstance(binding, onnxruntime.IOBinding)
    given, place = feed()["x"], np.zeros((2, 3), np.float32)
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, given.shape, given.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, place.shape, place.ctypes.data)
    binding.bind_ortvalue_output("m", value)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, want[0])
    np.testing.assert_array_equal(value.numpy(), want[1])
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], want[1])
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), want[0])
    assert len(binding.get_outputs_as_ortvaluevector()) == 2
    given *= 2  # what the memory holds at the time of the run counts
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, 2 * want[0])
    binding.clear_binding_outputs()
    with pytest.raises(RuntimeError, match="At least one output should be requested"):
        session.run_with_iobinding(binding)
    binding.bind_output("y", "cpu", 0, np.float32, (3, 3), np.zeros((3, 3), np.float32).ctypes.data)
    with pytest.raises(
        RuntimeError, match=r"output y is float32 \[2, 3\], but what was bound for it is float32 \[3, 3\]"
    ):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: u in the def list"):
        binding.bind_cpu_input("u", given)
    with pytest.raises(RuntimeError, match="device 'cuda' is not here"):
        binding.bind_output("y", "cuda")


def test_ort_values(real: Any, session: ort.InferenceSession) -> None:
    values = {"x": ort.OrtValue.ortvalue_from_numpy(feed()["x"])}
    got = session.run_with_ort_values(["y"], values)
    assert type(got[0]) is onnxruntime.OrtValue
    np.testing.assert_array_equal(got[0].numpy(), real.run(["y"], feed())[0])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", values["x"])
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], got[0].numpy())


def test_run_async(real: Any, session: ort.InferenceSession) -> None:
    def ask(names: Any, given: Any) -> tuple[Any, ...]:
        said: list[Any] = []
        done = threading.Event()

        def callback(*words: Any) -> None:
            said.extend(words)
            done.set()

        session.run_async(names, given, callback, "mine")
        assert done.wait(30)
        return tuple(said)

    results, data, error = ask(["y"], feed())
    assert (data, error) == ("mine", "")
    np.testing.assert_array_equal(results[0], real.run(["y"], feed())[0])
    results, data, error = ask(None, {"x": feed()["x"][0]})
    assert (results, data) == ([], "mine")
    assert error.startswith("Invalid rank for input: x Got: 1 Expected: 2")
    with pytest.raises(ValueError, match="Required inputs"):
        session.run_async(None, {}, print, None)


def test_threads_share_a_session(real: Any, session: ort.InferenceSession) -> None:
    wrong: list[int] = []

    def work(rows: int) -> None:
        want = real.run(["y"], feed(rows))[0]
        wrong.extend(rows for _ in range(20) if not np.array_equal(session.run(["y"], feed(rows))[0], want))

    threads = [threading.Thread(target=work, args=(1 + number % 3,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profiling_writes_onnx_runtimes_trace(tmp_path: Path, session: ort.InferenceSession) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    one = ours(options=options)
    one.run(None, feed())
    assert one.get_profiling_start_time_ns() > 0
    name = one.end_profiling()
    assert Path(name).parent == tmp_path
    events = json.loads(Path(name).read_text())
    assert {"session_initialization", "model_run"} <= {event["name"] for event in events}
    assert {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(events[0])
    assert one.end_profiling() == ""
    assert session.end_profiling() == ""


def test_inputs_with_a_value_in_the_model_can_be_given() -> None:
    made = onnx.load_from_string(model())
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]))
    written = made.SerializeToString()
    one, other = ours(written), onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    mine, theirs = one.get_overridable_initializers(), other.get_overridable_initializers()
    assert [str(entry) for entry in mine] == [str(entry) for entry in theirs]
    assert [entry.name for entry in one.get_inputs()] == ["x"]
    given = {**feed(), "w": np.ones((4, 3), np.float32)}
    np.testing.assert_array_equal(one.run(["y"], given)[0], other.run(["y"], given)[0])
    np.testing.assert_array_equal(one.run(["y"], feed())[0], other.run(["y"], feed())[0])


def test_sequences_strings_and_optionals_stay_in_onnx_runtime() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
            helper.make_node("ConcatFromSequence", ["given"], ["joined"], axis=0),
            helper.make_node("Identity", ["s"], ["same"]),
            helper.make_node("OptionalHasElement", ["o"], ["there"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2]),
            helper.make_tensor_sequence_value_info("given", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("s", TensorProto.STRING, ["k"]),
            helper.make_value_info(
                "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
            ),
        ],
        [
            helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("joined", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("same", TensorProto.STRING, ["k"]),
            helper.make_tensor_value_info("there", TensorProto.BOOL, []),
        ],
    )
    written = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    given = {"x": x, "given": [x, x + 1], "s": np.array(["a", "bc"]), "o": x[0]}
    other = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    one = ours(written)
    for missing in (given, {**given, "o": None}):
        got, want = one.run(None, missing), other.run(None, missing)
        assert len(got[0]) == len(want[0]) == 2
        np.testing.assert_array_equal(got[0][1], want[0][1])
        for mine, theirs in zip(got[1:], want[1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
