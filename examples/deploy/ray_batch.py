"""Ray: a model over a folder of pictures, on every NPU of the cluster; call it again after a crash, and it goes on.

    pip install "openrknn[ray] @ git+https://github.com/openrknn/openrknn"
    python examples/deploy/ray_batch.py pictures/ answers/ --workers 4          # on this machine
    ray start --head --resources '{"npu": 3}'                                   # or on boards: each says what it has
    RAY_ADDRESS=auto python examples/deploy/ray_batch.py /mnt/pictures answers/
"""

from __future__ import annotations

import argparse
from pathlib import Path

import openrknn.ray

MODEL = Path(__file__).parents[1] / "models/efficientnet_lite0_rk3588_i8.rknn"


def main() -> None:
    """Pictures in, a table out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures")
    parser.add_argument("output")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--workers", type=int, help="default: as many as the cluster has NPUs")
    parser.add_argument("--local", action="store_true", help="in this process, without Ray")
    arguments = parser.parse_args()
    report = openrknn.ray.run(
        arguments.pictures,
        arguments.model,
        arguments.output,
        workers=arguments.workers,
        local=arguments.local,
        format="csv",
        progress=True,
    )
    print(f"{report.items} pictures, {report.errors} failed, {report.resumed} were done before: {report.table}")


if __name__ == "__main__":
    main()
