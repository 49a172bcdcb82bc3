"""`openrknn serve` under siege, inside a real limit of memory: does it live, does it answer, are good clients served?

    python benchmarks/siege.py                    60 s with the token and 60 s without, 64 bad clients at once, 1 GiB
    python benchmarks/siege.py --seconds 10       a short look
    python benchmarks/siege.py --addresses 1      all bad clients have one address
    python benchmarks/siege.py --only gzip --json siege.json

The server has the settings of deploy/kubernetes/serve (beside its drain times) and a token. The limit is a memory
cgroup (version 1 or 2; needs root), else `systemd-run`, else RLIMIT_AS per process; the table says which. Good clients
(two REST, two gRPC, one request after the other, every answer compared) are measured before and during. Bad clients
come from addresses of their own (127.0.1.x), as they would on a network. They share this machine's processors with the
server, which they would not: `--nice` (default: 19) leaves them what is left over.

Exit code 1: the server or a worker was killed, health took longer than 1 s, an answer was wrong, or a good client had
less than half of its rate.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.besieged import clients
from benchmarks.besieged.cage import Cage
from benchmarks.besieged.server import EFFICIENT, SMALL, Served

TOKEN = "b6f1a2-siege"
HEALTH_SECONDS, LEAST_SHARE = 1.0, 0.5
SPAWN = multiprocessing.get_context("spawn")


def main() -> int:
    """Both phases and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each siege (default: 60)")
    parser.add_argument("--before", type=float, default=10.0, help="seconds of peace before it (default: 10)")
    parser.add_argument("--bad", type=int, default=64, help="bad clients at once (default: 64)")
    parser.add_argument("--addresses", type=int, default=64, help="that they come from (default: 64)")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of the cage (default: 1024)")
    parser.add_argument("--only", action="append", default=[], help="one bomb by its name; repeat for more")
    parser.add_argument("--token", choices=("both", "with", "without"), default="both")
    parser.add_argument("--nice", type=int, default=19, help="of the bad clients (default: 19)")
    parser.add_argument("--serve", action="append", default=[], help="another option for the server, such as --no-page")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured")
    arguments = parser.parse_args()
    phases = {"with": [True], "without": [False], "both": [True, False]}[arguments.token]
    found = [siege(arguments, has_token=has_token) for has_token in phases]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 0 if all(not one["broken"] for one in found) else 1


def siege(arguments: argparse.Namespace, *, has_token: bool) -> dict[str, Any]:
    """One server, one siege."""
    cage = Cage(arguments.memory)
    server = Served(cage.start, [EFFICIENT, SMALL], *arguments.serve, token=TOKEN)
    workers = cage.pids() - {server.process.pid}
    goods, probes, bads = SPAWN.Queue(), SPAWN.Queue(), SPAWN.Queue()
    ready, go = SPAWN.Event(), SPAWN.Event()
    plan = clients.Plan(arguments.bad, arguments.addresses, arguments.seconds, arguments.nice, arguments.only)
    bad = SPAWN.Process(
        target=clients.attack,
        args=((server.http, server.grpc), TOKEN if has_token else None, plan, (ready, go), bads),
    )
    bad.start()
    ready.wait()  # its bombs are made: that takes processor time which is not part of it
    settle, begun = 3.0, time.time()
    first = begun + settle
    start = first + arguments.before
    end = start + arguments.seconds
    helpers = [
        SPAWN.Process(target=clients.good, args=(server.http, server.grpc, TOKEN, end, goods)),
        SPAWN.Process(target=clients.probe, args=(server.http, server.grpc, end, probes)),
    ]
    for one in helpers:
        one.start()
    time.sleep(max(0.0, start - time.time()))
    before_mib = cage.anonymous_bytes() >> 20
    go.set()
    highest = 0
    while time.time() < end and server.process.poll() is None:
        highest = max(highest, cage.anonymous_bytes() >> 20)
        time.sleep(0.05)
    load = os.getloadavg()[0]
    good = [goods.get(timeout=120) for _ in clients.CLIENTS]
    health = [probes.get(timeout=60) for _ in range(2)]
    outcomes, spent = bads.get(timeout=60)
    for one in (*helpers, bad):
        one.join(30)
    is_alive = server.process.poll() is None
    lost_workers = len(workers - cage.pids())
    report = cage.report()
    code = server.stop() if is_alive else server.process.returncode
    cage.close()
    rows = [_row(one, first, start, end) for one in sorted(good)]
    found: dict[str, Any] = {
        "bad clients": f"{arguments.bad} from {arguments.addresses} addresses, nice {arguments.nice}, "
        + ("with the token" if has_token else "without the token"),
        "seconds": arguments.seconds,
        "memory": {**report, "limit_mib": arguments.memory, "before_mib": before_mib, "highest_mib": highest},
        "alive": is_alive, "exit_code": code, "workers_lost": lost_workers,
        "good": rows,
        "health": [
            {"kind": name, "probes": len(seconds), "slowest_ms": round(1000 * max(seconds)), "problems": problems}
            for name, seconds, problems in sorted(health)
        ],
        "bombs": sum(outcomes.values()),
        "outcomes": {f"{name}: {outcome}": count for (name, outcome), count in sorted(outcomes.items())},
        "bad_cpu_seconds": round(spent, 1),
        "load_average": round(load, 2),
        "complaints": server.complaints[:20],
    }  # fmt: skip
    found["broken"] = _broken(found)
    _table(found)
    return found


def _row(
    one: tuple[str, list[float], list[float], int, dict[str, int]], first: float, start: float, end: float
) -> dict[str, Any]:
    name, times, seconds, wrong, problems = one
    before = sum(first <= when < start for when in times) / (start - first)
    during = sum(start <= when < end for when in times) / (end - start)
    slow = sorted(took for when, took in zip(times, seconds, strict=True) if when >= start)
    return {
        "client": name, "before": round(before, 1), "during": round(during, 1),
        "share": round(during / before, 3) if before else 0.0,
        "p50_ms": round(1000 * slow[len(slow) // 2]) if slow else None,
        "p99_ms": round(1000 * slow[len(slow) * 99 // 100]) if slow else None,
        "wrong": wrong, "problems": problems,
    }  # fmt: skip


def _broken(found: dict[str, Any]) -> list[str]:
    """Which promises were not kept."""
    lines = []
    if not found["alive"] or found["memory"].get("killed"):
        lines.append(f"the server was killed (exit code {found['exit_code']})")
    if found["workers_lost"]:
        lines.append(f"{found['workers_lost']} workers were lost")
    for one in found["health"]:
        if one["slowest_ms"] > 1000 * HEALTH_SECONDS or one["problems"]:
            lines.append(f"health over {one['kind']}: slowest {one['slowest_ms']} ms, {one['problems']}")
    for one in found["good"]:
        if one["wrong"]:
            lines.append(f"{one['client']}: {one['wrong']} wrong answers")
        if one["share"] < LEAST_SHARE:
            lines.append(f"{one['client']} has {one['share']:.0%} of its rate")
    return lines


def _table(found: dict[str, Any]) -> None:
    memory = found["memory"]
    print(f"\n{found['bad clients']}, {found['seconds']:g} s, {found['bombs']} bombs")
    print(f"  {memory['kind']} of {memory['limit_mib']} MiB: {memory}")
    print(f"  alive: {found['alive']}, workers lost: {found['workers_lost']}, load average {found['load_average']}, "
          f"bad clients' processor time {found['bad_cpu_seconds']} s")  # fmt: skip
    head = f"{'good client':22} {'before/s':>9} {'during/s':>9} {'share':>6} {'p50 ms':>7} {'p99 ms':>7} {'wrong':>6}"
    print(f"  {head}  problems")
    for one in found["good"]:
        print(f"  {one['client']:22} {one['before']:9} {one['during']:9} {one['share']:6.0%} {one['p50_ms'] or '-':>7} "
              f"{one['p99_ms'] or '-':>7} {one['wrong']:6}  {one['problems'] or ''}")  # fmt: skip
    for one in found["health"]:
        print(
            f"  health, {one['kind']}: {one['probes']} probes, slowest {one['slowest_ms']} ms {one['problems'] or ''}"
        )
    for line in found["complaints"][:5]:
        print(f"  log: {line[:160]}")
    print("  " + ("; ".join(found["broken"]) or "all promises kept"))


if __name__ == "__main__":
    sys.exit(main())
