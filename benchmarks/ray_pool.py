"""Many pictures over several workers of Ray, a worker and the driver killed on the way: is every picture there once?

    pip install "openrknn[ray]"
    python benchmarks/ray_pool.py                                # 10,000 pictures, 4 workers: half an hour on 2 cores
    python benchmarks/ray_pool.py --items 200 --workers 2 --json

1. one Session in a process, with and without reading ahead: what one worker could do
2. a job in a process of its own; after a third of the pictures one worker gets SIGKILL
3. a second job; after half of the pictures the driver gets SIGKILL, and the same call goes on

All of it in one run on one machine, each worker with one thread. A table is right if it has each picture once, in
order, with the class that a single Session gives.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import openrknn
import openrknn.ray

MODEL = Path(__file__).parents[1] / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
_SAMPLE = 400


def main() -> int:
    """Measure, kill, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--model", type=Path, default=MODEL, help="default: EfficientNet-Lite0")
    parser.add_argument("--size", type=int, default=96, help="width and height of the pictures")
    parser.add_argument("--part", type=int, default=32, help="pictures in a part")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--drive", nargs=2, metavar=("PICTURES", "OUTPUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENRKNN_THREADS", "1")
    if arguments.drive:
        return drive(arguments)
    with tempfile.TemporaryDirectory(prefix="openrknn-ray-") as name:
        results = measure(arguments, Path(name))
    show(results, as_json=arguments.json)
    return 0 if results["worker killed"]["is right"] and results["driver killed"]["is right"] else 1


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, Any]]:
    """All three."""
    pictures = folder / "pictures"
    generate(pictures, arguments.items, arguments.size)
    results = {"one Session": single(arguments.model, pictures, min(_SAMPLE, arguments.items))}
    started = time.perf_counter()
    driver = start(arguments, pictures, folder / "first")
    wait_for(folder / "first", arguments.items // arguments.part // 3, driver)
    victim = workers_of(driver.pid)[0]
    os.kill(victim, signal.SIGKILL)
    report = finish(driver)
    results["worker killed"] = {
        **report,
        "seconds with the start of Ray": round(time.perf_counter() - started, 1),
        "is right": is_right(folder / "first", pictures, arguments),
    }
    driver = start(arguments, pictures, folder / "second")
    wait_for(folder / "second", arguments.items // arguments.part // 2, driver)
    below = descendants(driver.pid)
    driver.kill()
    driver.wait()
    for pid in below:  # Ray's processes end with their driver; those that do not are ours to end
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    report = finish(start(arguments, pictures, folder / "second"))
    results["driver killed"] = {**report, "is right": is_right(folder / "second", pictures, arguments)}
    return results


def generate(folder: Path, count: int, size: int) -> None:
    """Small JPEGs, each its own: a gradient, a few rectangles, some noise."""
    from PIL import Image

    folder.mkdir()
    random = np.random.default_rng(20)
    ramp = np.linspace(0, 255, size)
    for number in range(count):
        pixels = np.empty((size, size, 3))
        pixels[...] = np.stack(
            [ramp[None].repeat(size, 0), ramp[:, None].repeat(size, 1), ramp[None] + 0 * ramp[:, None]], 2
        )
        for _ in range(3):
            top, left = random.integers(0, size - 8, 2)
            pixels[top : top + random.integers(8, size), left : left + random.integers(8, size)] = random.integers(
                0, 255, 3
            )
        noisy = np.clip(pixels + random.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{number:06}.jpg", quality=85)


def single(model: Path, pictures: Path, count: int) -> dict[str, Any]:
    """One process, one Session: pictures a second, without and with reading ahead."""
    from openrknn.vision import Pipeline

    paths = sorted(pictures.iterdir())[:count]
    with Pipeline(model) as pipeline:
        pipeline(paths[0])
        started = time.perf_counter()
        for path in paths:
            pipeline(path)
        plain = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        openrknn.ray.run(paths, model, folder, local=True, format="jsonl")
        ahead = time.perf_counter() - started
    return {"pictures": count, "a second": round(count / plain, 1), "a second, as a job": round(count / ahead, 1)}


def start(arguments: argparse.Namespace, pictures: Path, output: Path) -> subprocess.Popen[str]:
    """A driver in a process of its own."""
    words = [
        "--model",
        str(arguments.model),
        "--workers",
        str(arguments.workers),
        "--part",
        str(arguments.part),
        "--drive",
        str(pictures),
        str(output),
    ]
    return subprocess.Popen(
        [sys.executable, __file__, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def drive(arguments: argparse.Namespace) -> int:
    """What runs there."""
    pictures, output = arguments.drive
    report = openrknn.ray.run(
        pictures,
        arguments.model,
        output,
        workers=arguments.workers,
        part_size=arguments.part,
        format="parquet",
        progress=False,
    )
    print(
        json.dumps(
            {
                "pictures": report.items,
                "resumed": report.resumed,
                "errors": report.errors,
                "workers": report.workers,
                "rounds": report.rounds,
                "duplicates": report.duplicates,
                "a second": round(report.rate, 1),
            }
        )
    )
    return 0


def finish(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """Its report."""
    out, err = driver.communicate()
    if driver.returncode:
        raise SystemExit(f"the driver failed:\n{err[-4000:]}")
    # Ray's daemons write there too.
    report: dict[str, Any] = json.loads(next(line for line in out.splitlines() if line.startswith('{"pictures"')))
    return report


def wait_for(output: Path, parts: int, driver: subprocess.Popen[str]) -> None:
    """Until so many parts are committed."""
    while len(list(output.glob("parts/*.jsonl"))) < max(1, parts):
        if driver.poll() is not None:
            raise SystemExit(f"the driver ended too early: {driver.communicate()[1][-4000:]}")
        time.sleep(0.02)


def descendants(root: int) -> list[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def workers_of(driver: int) -> list[int]:
    """The actors that run the model."""
    found = []
    for pid in descendants(driver):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"ray::") and b"MapWorker" in words:
            found.append(pid)
    if not found:
        raise SystemExit("no worker was found to kill")
    return found


def is_right(output: Path, pictures: Path, arguments: argparse.Namespace) -> bool:
    """Each picture once, in order, with the answer that one Session gives (compared for a sample)."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(output / "table.parquet").to_pylist()
    names = sorted(str(path) for path in pictures.iterdir())
    if [row["item"] for row in rows] != names or len(rows) != arguments.items or any(row["error"] for row in rows):
        return False
    from openrknn.vision import Pipeline

    with Pipeline(arguments.model) as pipeline:
        answers = [(list(pipeline(row["item"]).rows()), row) for row in rows[:: max(1, len(rows) // 50)]]
        return all(
            found == row["found"] if "found" in row else found[0]["class"] == row["class"] for found, row in answers
        )


def show(results: dict[str, dict[str, Any]], *, as_json: bool) -> None:
    """As a table, or for programs."""
    if as_json:
        print(json.dumps(results))
        return
    for title, values in results.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:32} {value}")


if __name__ == "__main__":
    sys.exit(main())
