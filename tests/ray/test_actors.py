"""The same with the real Ray, where it is installed: a process of its own for each driver, killed or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray.data", reason="Ray is not installed: pip install 'openrknn[ray]'")
ROOT = Path(__file__).parents[2]

_DATASETS = """
import json, sys
import numpy as np, ray
import openrknn.ray
ray.init(num_cpus=2, resources={"npu": 2}, include_dashboard=False, log_to_driver=False)
scene, tones, folder, *pictures = sys.argv[1:]
rows = openrknn.ray.predict(pictures, scene, workers=2, batch_size=1).take_all()
listed = ray.data.from_items([{"path": path} for path in pictures])
own = listed.map_batches(
    openrknn.ray.Predictor, fn_constructor_args=(scene,), batch_size=2,
    compute=ray.data.ActorPoolStrategy(size=1), num_cpus=0, resources={"npu": 1},
).take_all()
report = openrknn.ray.run(listed, scene, folder, part_size=1, ship=True)
print(json.dumps({
    "predicted": sorted(row["label"] for row in rows), "mapped": sorted(row["label"] for row in own),
    "workers": report.workers, "table": [row["label"] for row in report.rows()],
    "pandas": report.to_pandas()["label"].tolist(), "dataset": report.dataset().count(),
}))
"""


def test_a_worker_and_a_driver_are_killed() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/ray_pool.py"), "--items", "96", "--workers", "2", "--part", "4"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["worker killed"]["is right"]
    assert found["driver killed"]["is right"]
    assert 0 < found["driver killed"]["resumed"] < 96


def test_datasets(tmp_path: Path) -> None:
    examples = ROOT / "examples"
    pictures = [str(examples / "images/cat.jpg"), str(examples / "images/coffee.jpg")]
    models = [str(examples / f"models/{name}.rknn") for name in ("efficientnet_lite0_rk3588_i8", "tones_rk3588_fp")]
    command = [sys.executable, "-c", _DATASETS, *models, str(tmp_path), *pictures]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"predicted"')))
    labels = ["Egyptian cat", "espresso"]
    assert found == {
        "predicted": labels, "mapped": labels, "workers": 2, "table": labels, "pandas": labels, "dataset": 2,
    }  # fmt: skip
