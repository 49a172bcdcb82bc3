"""Turns, throttled work, limits of one client, tokens that change: the parts, without a server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from openrknn.serve.errors import BadRequestError, FullError, TooLargeError
from openrknn.serve.plane.budget import Budget
from openrknn.serve.plane.clients import Rates, client_key
from openrknn.serve.plane.pacer import Pacer
from openrknn.serve.plane.throttled_pool import ThrottledPool
from openrknn.serve.rpc.frames import PREFACE, FrameError, Frames, Sieve, goaway
from openrknn.serve.rpc.parse_memory import parse_memory
from openrknn.serve.rpc.streams import Streams
from openrknn.serve.tokens import Tokens
from tests.serve.asking import PATIENCE


def test_large_requests_leave_a_reserve_for_small_ones() -> None:
    budget = Budget(1000, reserve_bytes=100)
    with budget.open() as large, budget.open() as small, budget.open() as creeping:
        with pytest.raises(TooLargeError):
            large.grow(901)
        large.grow(900)
        for _ in range(5):
            creeping.grow(10)
        with pytest.raises(FullError):  # piece by piece is large all the same
            creeping.grow(10)
        small.grow(50)
    assert budget.used_bytes == 0


def test_heavy_work_is_done_cheapest_first_and_has_a_bound() -> None:
    gate, done = threading.Event(), []
    pool = ThrottledPool("test", threads=1, most_waiting=2, is_busy=lambda: False)
    try:
        began = threading.Event()

        def wait() -> bool:
            began.set()
            return gate.wait(PATIENCE)

        first = pool.submit(0, wait)
        assert began.wait(PATIENCE)
        dear = pool.submit(1 << 40, lambda: done.append("dear"))
        cheap = pool.submit(1 << 10, lambda: done.append("cheap"))
        with pytest.raises(FullError):
            pool.submit(1, lambda: None)
        gate.set()
        for one in (first, dear, cheap):
            one.result(PATIENCE)
        assert done == ["cheap", "dear"]
        failing = pool.submit(1, lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failing.result(PATIENCE)
    finally:
        pool.close()
    with pytest.raises(FullError):
        pool.submit(1, lambda: None)


def test_whoever_is_refused_stands_aside_while_others_are_served() -> None:
    async def main() -> list[str]:
        busy = [True]
        pacer, order = Pacer(lambda: busy[0]), []

        async def come(client: str) -> None:
            await pacer.turn(client)
            order.append(client)

        pacer.refused("bad", 1000.0)
        bad = asyncio.ensure_future(come("bad"))
        await asyncio.gather(*(come("good") for _ in range(20)))
        busy[0] = False  # nobody else is there: no reason to wait
        await asyncio.wait_for(bad, PATIENCE)
        return order

    assert asyncio.run(main()) == ["good"] * 20 + ["bad"]


def test_a_client_is_an_address_or_a_network_of_ipv6() -> None:
    assert client_key("192.0.2.7") == client_key("::ffff:192.0.2.7") == "192.0.2.7"
    assert client_key("2001:db8::1") == client_key("2001:db8::ffff:2%eth0") != client_key("2001:db8:0:1::1")
    assert client_key("") == ""
    assert client_key("no:address") == "no:address"
    rates = Rates(2.0)
    rates.check("one")
    rates.check("one")
    with pytest.raises(FullError, match="--client-rate"):
        rates.check("one")
    rates.check("two")
    for number in range(5000):
        rates.check(str(number))
    assert len(rates._buckets) <= 4096
    Rates(0.0).check("one")


def test_streams_of_one_client_are_bounded() -> None:
    async def main() -> None:
        streams = Streams(8, 1)
        with streams.place("one") as first:
            with streams.place("one"), streams.place("two"):
                assert first.is_displaced
            with streams.place("three") as busy:
                busy.touch(1)
                with pytest.raises(FullError, match="--client-streams"), streams.place("three"):
                    pass

    asyncio.run(main())


def test_a_token_file_that_changes(tmp_path: Path) -> None:
    file, now = tmp_path / "token", [0.0]
    file.write_text("old\n")
    tokens = Tokens("old", str(file), grace_seconds=60, clock=lambda: now[0])
    assert not tokens.refresh()
    assert tokens.is_right("Bearer old")
    assert not tokens.is_right("Bearer new")
    for broken in (b"", b"\xff\xfe"):
        file.write_bytes(broken)
        assert not tokens.refresh()
        assert tokens.is_right("bearer old")
    (tmp_path / "next").write_text("new")
    (tmp_path / "next").rename(file)
    assert tokens.refresh()
    assert tokens.is_right("Bearer old")
    assert tokens.is_right("Bearer new")
    assert not tokens.is_right("Bearer ")
    now[0] = 61.0
    assert not tokens.is_right("Bearer old")
    assert tokens.is_right("Bearer new")
    file.unlink()
    assert not tokens.refresh()
    assert tokens.is_right("Bearer new")
    assert Tokens(None).is_right(None)


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def test_after_goaway_later_calls_do_not_pass() -> None:
    assert goaway(5) == frame(7, 0, b"\0\0\0\5\0\0\0\0")
    known = frame(0, 5, b"abc") + frame(8, 0, bytes(4)) + frame(0, 3, b"")
    later = frame(1, 7, b"head") + frame(0, 7, b"data" * 10)
    data = known + later + known
    for size in (1, 2, 8, 9, 10, len(data)):
        sieve = Sieve(5)
        assert b"".join(sieve.feed(data[at : at + size]) for at in range(0, len(data), size)) == known * 2
    frames = Frames(is_client=True)
    states = [frames.is_between]
    for data in (PREFACE + frame(1, 5, b"head"), frame(0, 5, b"\0\0\0\0\2x")[:-1]):
        list(frames.feed(data))
        states += [frames.is_between, frames.silent_streams == 1]
    assert states == [False, True, True, False, False]
    assert frames.last_stream == 5


def test_headers_of_a_call_have_a_limit() -> None:
    frames = Frames(is_client=True)
    with pytest.raises(FrameError, match="headers"):
        list(frames.feed(PREFACE + frame(1, 1, bytes(16384)) + frame(9, 1, bytes(16384)) * 4))


def test_fields_of_a_message_are_counted_all_together() -> None:
    inner = b"\x22\x00" * 2000
    entry = b"\x2a" + bytes([len(inner) & 0x7F | 0x80, len(inner) >> 7]) + inner
    with pytest.raises(BadRequestError, match="fields"):
        parse_memory(entry * 100, has_tensors=True)
