"""What people expect of a session who know ONNX Runtime, dicts and asyncio; mypy checks the types in this file."""

from __future__ import annotations

import asyncio
import json
import pickle
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn import Outputs, RunFuture, Session, SessionPool, Specs, TensorSpec, UnknownNameError
from openrknn.runtime.runner import NodeArg
from tests.parted_file import parted_bundle
from tests.runtime.cases import answers, golden

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, _: Any) -> Any:
        return value


Array = npt.NDArray[Any]
TWO = golden("two_outputs_rk3588_i8")
PICTURE = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
IMAGE = golden("image_rk3588_i8")


# ---------------------------------------------------------------- names and numbers


def test_inputs_and_outputs_by_number_and_name() -> None:
    model = openrknn.load(TWO)
    with Session(model) as session, SessionPool(model, size=1) as pool:
        for specs in (model.outputs, session.outputs, pool.outputs):
            assert_type(specs, Specs)
            first, second = specs.names
            assert_type(specs[second], TensorSpec)
            assert specs[second] is specs[1]
            assert specs[first] == specs[0] == specs[-2]
            assert_type(specs[1:], Specs)
            assert specs[1:].names == (second,)
            wanted: list[object] = [first, specs[0], "nothing", 0]
            assert [one in specs for one in wanted] == [True, True, False, False]
            assert specs == tuple(specs)
            assert hash(specs) == hash(tuple(specs))
        assert session.inputs == pool.inputs == model.inputs


def test_a_name_that_is_not_there() -> None:
    inputs = openrknn.load(IMAGE).inputs
    with pytest.raises(UnknownNameError, match=r"is called 'imag'; there are image; did you mean 'image'\?"):
        inputs["imag"]
    with pytest.raises(KeyError) as caught:
        inputs["Bild"]
    assert str(caught.value) == "nothing here is called 'Bild'; there are image"
    with pytest.raises(IndexError):
        inputs[1]


def test_specs_pickle() -> None:
    specs = openrknn.load(IMAGE).inputs
    again = pickle.loads(pickle.dumps(specs))
    assert again == specs
    assert type(again) is Specs


def test_results_by_number_and_name() -> None:
    inputs, _ = answers(TWO)
    with Session(TWO) as session:
        found = session.run(inputs)
        assert_type(found, Outputs)
        first, second = session.outputs.names
        assert list(found) == [first, second]
        assert found[0] is found[first]
        assert found[1] is found[-1] is found[np.int64(1)] is found[second]
        one, other = found.values()
        assert (one is found[0], other is found[1]) == (True, True)
        plain = dict(found)
        assert found == plain == {**found}
        again = pickle.loads(pickle.dumps(found))
        assert type(again) is Outputs
        assert np.array_equal(again[1], found[1])
        assert json.loads(json.dumps(found, default=lambda array: array.tolist()))[first] == found[0].tolist()
        with pytest.raises(IndexError, match=f"there is no output 2; there are 2: {first}, {second}"):
            found[2]
        with pytest.raises(UnknownNameError, match=f"no output is called 'x'; there are {first}, {second}"):
            found["x"]
        assert found.get("x") is None


# ---------------------------------------------------------------- ONNX Runtime


def test_get_inputs_and_get_outputs() -> None:
    with Session(IMAGE) as session:
        assert_type(session.get_inputs(), list[NodeArg])
        (taken,), (given,) = session.get_inputs(), session.get_outputs()
        assert (taken.name, taken.type, taken.shape) == ("image", "tensor(uint8)", [1, 16, 16, 3])
        assert given.type == "tensor(float)"
        (made,) = session.run([given.name], {taken.name: np.zeros(taken.shape, np.uint8)})
        assert list(made.shape) == given.shape
        assert made.dtype == np.float32


def test_a_model_in_parts_tells_its_own_types() -> None:
    with Session(parted_bundle()) as session:
        assert {arg.type for arg in session.get_inputs()} == {"tensor(float)", "tensor(int64)"}
        for arg, spec in zip(session.get_inputs(), session.inputs, strict=True):
            assert arg.type == "tensor(" + {"float32": "float"}.get(spec.dtype, spec.dtype) + ")"


def test_a_pool_runs_as_a_session_does() -> None:
    inputs, _ = answers(TWO)
    with Session(TWO) as session, SessionPool(TWO, size=2) as pool:
        names = session.outputs.names
        feed = dict(zip(session.inputs.names, inputs, strict=True))
        want = session.run(feed)
        runners: list[Session | SessionPool] = [session, pool]
        for runner in runners:
            both = runner.run(None, feed)
            assert_type(both, list[Array])
            assert all(np.array_equal(a, b) for a, b in zip(both, want.values(), strict=True))
            later = runner.run_async([names[1]], feed)
            assert_type(later, RunFuture[list[Array]])
            assert np.array_equal(later.result()[0], want[1])
            assert_type(runner.run_async(feed), RunFuture[Outputs])
            stored = runner.run_async(feed, outputs="raw").result()
            assert np.array_equal(stored[0], session.run(feed, outputs="raw")[0])
            many = runner.map([feed] * 5)
            assert_type(many, Iterator[Outputs])
            assert [np.array_equal(found[0], want[0]) for found in many] == [True] * 5
            assert runner.get_outputs()[0].name == names[0]
            assert runner.device.name == "software:rk3588"
        assert repr(pool).startswith("<SessionPool of 2: <Session ")


# ---------------------------------------------------------------- asyncio


def test_async_with() -> None:
    async def several() -> tuple[Outputs, Outputs]:
        async with Session(IMAGE) as session, SessionPool(IMAGE, size=2) as pool:
            assert_type(session, Session)
            assert_type(await session.run_async(PICTURE), Outputs)
            first, second = await asyncio.gather(session.run_async(PICTURE), pool.run_async(PICTURE))
        with pytest.raises(openrknn.ClosedError):
            session.run(PICTURE)
        with pytest.raises(openrknn.ClosedError):
            pool.run_async(PICTURE)
        return first, second

    first, second = asyncio.run(several())
    assert np.array_equal(first[0], second[0])


# ---------------------------------------------------------------- mistakes


def test_unknown_options_are_refused_with_the_near_name() -> None:
    with pytest.raises(TypeError, match=r"Session takes no core=; did you mean 'cores'\?"):
        Session(IMAGE, core=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Session takes no providers=; device= says where a model runs"):
        Session(IMAGE, providers=["CPUExecutionProvider"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Session takes no max_mem=; did you mean 'max_memory'\?"):
        Session(parted_bundle(), max_mem=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"SessionPool takes no sizes=; did you mean 'size'\?"):
        SessionPool(IMAGE, sizes=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Decoder takes no beam=; did you mean 'beams'\?"):
        openrknn.Decoder(b"", beam=3)  # type: ignore[call-arg]
    with Session(IMAGE) as session, SessionPool(IMAGE, size=1) as pool:
        for runner in (session, pool):
            with pytest.raises(TypeError, match=r"run takes no output=; did you mean 'outputs'\?"):
                runner.run(PICTURE, output="raw")  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="run takes no input_feed=; it is the second argument"):
                runner.run(None, input_feed={"image": PICTURE})  # type: ignore[call-overload]
            with pytest.raises(TypeError, match=r"run_async takes no layouts=; did you mean 'layout'\?"):
                runner.run_async(PICTURE, layouts="nhwc")  # type: ignore[call-overload]


def test_a_class_of_ones_own_may_take_more() -> None:
    class Named(Session):
        def __init__(self, path: Any, *, title: str) -> None:
            super().__init__(path)
            self.title = title

    with Named(IMAGE, title="mine") as session:
        assert session.title == "mine"
        assert session.run(PICTURE)[0].size


# ---------------------------------------------------------------- notebooks and types


def test_tables_for_notebooks() -> None:
    model = openrknn.load(IMAGE)
    with Session(model) as session, SessionPool(model, size=1) as pool:
        for shown in (model, session, pool, model.inputs):
            text = shown._repr_html_()
            assert "<td>image</td><td>int8</td><td>1 × 16 × 16 × 3</td>" in text
        assert "&lt;Session" in session._repr_html_()


def the_types_of_a_decoder(decoder: openrknn.Decoder) -> None:
    """For mypy alone; tests/runtime/test_decoder.py runs them."""
    with decoder as opened:
        assert_type(opened, openrknn.Decoder)
        assert_type(opened.step(1), npt.NDArray[np.float32])
        assert_type(opened.step([1, 2]), npt.NDArray[np.float32])
        assert_type(opened.session.inputs, Specs)


def test_looking_at_pictures_costs_nothing_that_counts() -> None:
    """After the first one, a picture is not looked at: `asarray` would be called."""
    from openrknn.runtime.io import input_warnings

    with Session(IMAGE) as session:
        session.run(PICTURE)
        before = input_warnings.sample
        input_warnings.sample = None  # type: ignore[assignment]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                session.run(PICTURE)
        finally:
            input_warnings.sample = before
