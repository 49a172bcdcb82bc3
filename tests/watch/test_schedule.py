from __future__ import annotations

from collections import Counter

from openrknn.watch.schedule import Schedule, Stream


def _run(schedule: Schedule, costs: dict[str, float], runs: int) -> Counter[str]:
    """Milliseconds that each stream got, when all always have a frame."""
    got: Counter[str] = Counter()
    for _ in range(runs):
        stream = schedule.choose(lambda _: True)
        assert stream is not None
        got[stream.name] += round(1000 * costs[stream.name])
        schedule.done(stream, costs[stream.name])
    return got


def _shares(got: Counter[str]) -> dict[str, float]:
    return {name: round(value / got.total(), 1) for name, value in got.items()}


def test_cameras_share_time_and_not_frames() -> None:
    schedule = Schedule(1)
    for name in ("slow", "fast"):
        schedule.add(Stream(name, name))
    got = _run(schedule, {"slow": 0.1, "fast": 0.01}, 400)
    assert _shares(got) == {"slow": 0.5, "fast": 0.5}


def test_a_weight_is_a_share() -> None:
    schedule = Schedule(1)
    for name, weight in (("a", 1.0), ("b", 4.0)):
        schedule.add(Stream(name, "model", weight))
    assert _shares(_run(schedule, {"a": 0.01, "b": 0.01}, 500)) == {"a": 0.2, "b": 0.8}


def test_who_slept_gets_no_credit() -> None:
    schedule = Schedule(1)
    busy, late = Stream("busy", "model"), Stream("late", "model")
    schedule.add(busy)
    schedule.add(late)
    for _ in range(100):
        stream = schedule.choose(lambda one: one is busy)
        assert stream is busy
        schedule.done(stream, 0.01)
    got = _run(schedule, {"busy": 0.01, "late": 0.01}, 20)
    assert got["busy"] >= 90  # and not: late for a hundred turns


def test_cores_and_instances_are_limits() -> None:
    schedule = Schedule(3, {"big": 1, "small": 3})
    big, other = Stream("big", "big", cores=2), Stream("big2", "big", cores=2)
    small = [Stream(f"small{number}", "small") for number in range(3)]
    for stream in (big, other, *small):
        schedule.add(stream)
    first = [schedule.choose(lambda _: True) for _ in range(3)]
    assert [one.name for one in first if one] == ["big", "small0"]  # one core for a second `big` is not enough
    schedule.done(big, 0.01)
    running = [schedule.choose(lambda _: True) for _ in range(4)]
    assert sum(one.cores for one in running if one) <= 2


def test_a_run_that_wants_all_cores_is_not_overtaken_for_ever() -> None:
    schedule = Schedule(2)
    wide, narrow = Stream("wide", "a", cores=2), [Stream(f"narrow{number}", "b") for number in range(2)]
    for stream in (*narrow, wide):
        schedule.add(stream)
    running, runs = [], Counter[str]()
    for _ in range(60):
        while (chosen := schedule.choose(lambda _: True)) is not None:
            running.append(chosen)
        done = running.pop(0)
        runs[done.name] += 1
        schedule.done(done, 0.01)
    assert runs["wide"] >= 8


def test_a_stream_is_never_twice_under_way() -> None:
    schedule = Schedule(4)
    schedule.add(Stream("one", "model"))
    assert schedule.choose(lambda _: True) is not None
    assert schedule.choose(lambda _: True) is None
