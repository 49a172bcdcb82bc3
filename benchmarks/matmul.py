"""What a matrix product costs a C program: `rknn_matmul_run` of our library, beside the multiplication alone.

    python benchmarks/matmul.py [--seconds 1] [--json]

Shapes are those of language models: M is 1 while it writes, and many while it reads. B lies in the NPU's layout and is
bound once. `alone` is the same multiplication in this process (`openrknn.runtime.matmul.direct`), without the library.

Bar: a small product at most 150 us above the multiplication. Exit status 1: it is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from openrknn.capi.parts import header_folder, library_for
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles
from openrknn.vendor.tables.enums import MatmulType

SOURCE = Path(__file__).with_name("matmul_loop.c")
KINDS = {
    "int8": MatmulType.INT8_MM_INT8_TO_INT32,
    "fp16": MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,
    "int4": MatmulType.INT8_MM_INT4_TO_INT32,
}
SHAPES = [(1, 64, 64), (1, 2048, 2048), (1, 4096, 4096), (1, 4096, 11008), (32, 4096, 4096), (128, 4096, 4096)]
BAR_US = 150.0


def alone(kind: MatmulType, shape: tuple[int, int, int], seconds: float) -> float:
    """Microseconds of the best multiplication."""
    m, k, n = shape
    a, b, _ = kind.types
    product = DirectProduct(m, k, n, a_bits=a.bits, b_bits=b.bits)
    product.set_a(Rows.plain(np.full(m * k * a.bits // 8, 0x3C, np.uint8), k, a.bits))
    product.set_b(Tiles(np.full(k * n * b.bits // 8, 0x3C, np.uint8), 16 if a.bits == 16 else 32, 32, 8192))
    product.set_c(Rows.plain(np.zeros(4 * m * n, np.uint8), n, 32))
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        product.run()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each number")
    parser.add_argument("--json", action="store_true", help="numbers for programs")
    given = parser.parse_args()
    library = library_for()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "matmul_loop")
        words = ["cc", "-O2", f"-I{header_folder()}", "-o", str(program), str(SOURCE), str(library)]
        subprocess.run([*words, f"-Wl,-rpath,{library.parent}"], check=True)
        for name, kind in KINDS.items():
            for shape in SHAPES:
                numbers = [str(program), str(int(kind)), *map(str, shape), str(given.seconds)]
                answer = subprocess.run(numbers, check=True, capture_output=True, text=True).stdout.split()
                best, median = (float(word) / 1000 for word in answer)
                rows.append({
                    "type": name, "shape": "x".join(map(str, shape)), "best_us": best, "median_us": median,
                    "alone_us": alone(kind, shape, given.seconds), "gmacs": np.prod(shape) / best / 1000,
                })  # fmt: skip
    small = [row for row in rows if row["shape"] == "1x64x64"]
    is_good = all(float(str(row["best_us"])) - float(str(row["alone_us"])) <= BAR_US for row in small)
    if given.json:
        sys.stdout.write(json.dumps({"rows": rows, "is_good": is_good}, default=float) + "\n")
        return not is_good
    table = Table("type", "M x K x N", *("best us", "median us", "alone us", "GMAC/s"))
    for row in rows:
        table.add_row(*(f"{value:.1f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)
    return not is_good


if __name__ == "__main__":
    raise SystemExit(main())
