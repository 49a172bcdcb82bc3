"""Pools: many inputs at the same time, one copy of the weights, the same bytes as one session."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import openrknn
from openrknn.errors import BudgetError, UnsupportedError
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.pool import SessionPool
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS, Array

MODEL = GOLDENS / "residual_rk3588_i8.rknn"
PICTURES = list(np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def want() -> list[Array]:
    with Session(MODEL) as session:
        return [session.run(picture, outputs="raw")["features"] for picture in PICTURES]


def equal(results: list[Array], wanted: list[Array]) -> bool:
    return len(results) == len(wanted) and all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))


def test_map_keeps_the_order(want: list[Array]) -> None:
    with openrknn.SessionPool(MODEL, size=3) as pool:
        assert equal([outputs["features"] for outputs in pool.map(PICTURES, outputs="raw")], want)


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="SessionPool takes no nonsense=; there are model, size, device"):
        SessionPool(MODEL, nonsense=1)  # type: ignore[call-arg]
    with SessionPool(MODEL, max_work=1) as pool, pytest.raises(BudgetError, match="max_work"):
        pool.run(PICTURES[0])


def test_the_options_are_those_of_a_session() -> None:
    session, pool = (inspect.signature(kind.__init__).parameters for kind in (Session, SessionPool))
    assert set(pool) - set(session) == {"size"}
    assert set(session) == set(pool) - {"size"}
    assert all(pool[name].default == session[name].default for name in session)


def test_map_takes_an_endless_stream() -> None:
    taken = 0

    def stream() -> Iterator[Array]:
        nonlocal taken
        while True:
            taken += 1
            yield PICTURES[0]

    with SessionPool(MODEL, size=2) as pool:
        results = pool.map(stream())
        next(results)
        next(results)
        results.close()  # type: ignore[attr-defined]
    assert taken <= 6


def test_threads_of_ones_own(want: list[Array]) -> None:
    with SessionPool(MODEL, size=2) as pool, ThreadPoolExecutor(5) as threads:
        results = list(threads.map(lambda picture: pool.run(picture, outputs="raw")["features"], PICTURES))
    assert equal(results, want)


def test_futures(want: list[Array]) -> None:
    with SessionPool(MODEL, size=2) as pool:
        futures = [pool.run_async(picture, outputs="raw") for picture in PICTURES]
        assert equal([future.result()["features"] for future in futures], want)


def test_an_error_gives_the_session_back() -> None:
    with SessionPool(MODEL, size=1) as pool:
        for _ in range(3):
            with pytest.raises(ValueError, match="was given"):
                pool.run(np.zeros(3))
        with pool.session() as session:
            assert session.run(PICTURES[0])


def test_weights_are_there_once() -> None:
    with SessionPool(MODEL, size=3, cores=2) as pool, pool.session() as session:
        assert session.memory().weight_users == 3
        assert session.cores == 2
        assert pool.model is session.model


def test_a_closed_pool_says_so() -> None:
    pool = SessionPool(MODEL)
    pool.close()
    pool.close()
    with pytest.raises(ClosedError, match="closed"):
        pool.run(PICTURES[0])
    with pytest.raises(ClosedError, match="closed"):
        pool.run_async(PICTURES[0])


def test_wrong_pools_are_named() -> None:
    with pytest.raises(ValueError, match="a pool of 0 sessions"):
        SessionPool(MODEL, size=0)
    with pytest.raises(UnsupportedError, match="no weights"):
        SessionPool(GOLDENS / "residual_rk3588_i8_no_weights.rknn")
