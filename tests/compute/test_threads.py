"""How many threads a step gets: rules, not times. The witness for the cores are files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.compute import native, processors
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles

needs_library = pytest.mark.skipif(native.find() is None, reason="the native library is not built")


def machine(root: Path, *, siblings: list[str], limit: str = "", group: str = "/") -> Path:
    """The files of a machine with these hardware threads."""
    for number, text in enumerate(siblings):
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
        (folder / "physical_package_id").write_text("0\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{group}\n")
    folder = root / "sys/fs/cgroup" / group.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    if limit:
        (folder / "cpu.max").write_text(limit + "\n")
    return root


HYPERTHREADS = ["0,2", "1,3", "0,2", "1,3"]


def test_hardware_threads_of_a_core_count_once(tmp_path: Path) -> None:
    root = machine(tmp_path, siblings=HYPERTHREADS)
    assert processors.cores(root, {0, 1, 2, 3}) == 2
    assert processors.cores(root, {0, 2}) == 1
    assert processors.cores(root, {0, 3}) == 2
    assert processors.cores(root, {7, 8, 9}) == 3  # nothing says what they are


LIMITS = [("max 100000", 4), ("150000 100000", 2), ("50000 100000", 1), ("junk", 4)]


@pytest.mark.parametrize(("limit", "count"), LIMITS)
def test_a_quota_is_a_limit(tmp_path: Path, limit: str, count: int) -> None:
    root = machine(tmp_path, siblings=["0", "1", "2", "3"], limit=limit, group="/system.slice/job")
    assert processors.cores(root, {0, 1, 2, 3}) == count


def test_the_smallest_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, siblings=["0", "1", "2", "3"], limit="400000 100000", group="/a/b")
    (root / "sys/fs/cgroup/a/cpu.max").write_text("200000 100000")
    assert processors.quota(root) == 2


def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    root = machine(tmp_path, siblings=["0", "1", "2"])
    (root / "sys/fs/cgroup/cpu").mkdir()
    (root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").write_text("100000")
    (root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").write_text("100000")
    assert processors.cores(root, {0, 1, 2}) == 1
    (root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").write_text("-1")
    assert processors.cores(root, {0, 1, 2}) == 3


@needs_library
def test_more_threads_are_never_slower_by_the_rule() -> None:
    """With n threads a step takes w / n + b n; whatever its work, a larger limit never makes that more."""
    price, before = 250, native.threads()
    try:
        with native.sharing(cores=64, nanoseconds=price) as library:
            for work in (0, 100, 1_000, 5_000, 20_000, 100_000, 1_000_000, 10_000_000):
                times = []
                for limit in (1, 2, 4, 8, 16, 32):
                    native.set_threads(limit)
                    count = library.openrknn_threads_for(work)
                    assert 1 <= count <= limit
                    times.append(work / count + price * count)
                assert times == sorted(times, reverse=True), work
    finally:
        native.set_threads(before)


@needs_library
def test_small_work_gets_few_threads_and_cores_are_a_limit() -> None:
    before = native.threads()
    try:
        native.set_threads(16)
        with native.sharing(cores=16, nanoseconds=250) as library:
            assert [library.openrknn_threads_for(work) for work in (0, 900, 4_000, 64_000, 10**9)] == [1, 1, 4, 16, 16]
        with native.sharing(cores=8, nanoseconds=250) as library:
            assert library.openrknn_threads_for(10**9) == 8
        with native.sharing(cores=0, nanoseconds=0) as library:
            assert library.openrknn_threads_for(1) == 16
        assert native.threads() == 16
    finally:
        native.set_threads(before)


@needs_library
@pytest.mark.parametrize(("rows", "cores", "parts"), [(8, 4, 1), (200, 4, 4), (200, 2, 2), (200, 1, 1)])
def test_a_product_gets_the_threads_that_it_is_worth(
    rows: int, cores: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "scalar")
    before, k, n = native.threads(), 64, 32 * (rows // 8)
    a, b = np.ones((rows, k), np.int8), np.ones((n, k), np.int8)
    result = np.zeros((rows, n), np.int32)
    product = DirectProduct(rows, k, n, a_bits=8, b_bits=8)
    product.set_a(Rows.plain(a.reshape(-1).view(np.uint8), k, 8))
    product.set_b(Tiles(b.reshape(-1).view(np.uint8), 32, 32))
    product.set_c(Rows.plain(result.reshape(-1).view(np.uint8), n, 32))
    try:
        native.set_threads(16)
        with native.sharing(cores=cores, nanoseconds=20_000) as library:
            product.run()
            assert library.openrknn_last_parts() == parts
    finally:
        native.set_threads(before)
    assert np.all(result == k)
