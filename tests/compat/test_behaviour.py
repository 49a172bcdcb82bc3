"""The behaviour of the vendor's wheel, asked of our package and, where it is set up, of the wheel itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.capi.programs import need_library
from tests.compat.checks import CHECKS
from tests.compat.lab import Lab, provider
from tests.compat.wheel import Report, Wheel, WheelMissingError
from tests.container.places import IS_WHOLE

ONLY_THEIRS = "half a minute, and of ours only the emulated kernel takes part; with ./test --all"
GOLDENS = Path(__file__).resolve().parents[1] / "goldens"


@pytest.fixture(scope="session")
def vendor() -> Report:
    """All checks on the vendor's wheel under `openrknn exec`, run once."""
    try:
        return Wheel.find().run_checks()
    except WheelMissingError as missing:
        pytest.skip(f"no vendor wheel: {missing}")


def test_these_tests_are_about_our_package() -> None:
    assert provider() == "openrknn"


@pytest.mark.parametrize("name", CHECKS)
def test_ours(name: str, tmp_path: Path) -> None:
    CHECKS[name](Lab(GOLDENS, tmp_path))


@pytest.mark.witness
@pytest.mark.xdist_group("vendor wheel")
@pytest.mark.skipif(not IS_WHOLE, reason=ONLY_THEIRS)
@pytest.mark.parametrize("name", CHECKS)
def test_the_vendors(name: str, vendor: Report) -> None:
    assert name in vendor.passed or name in vendor.failed, vendor.output[-4000:]
    assert name not in vendor.failed, vendor.failed[name]


@pytest.mark.witness
@pytest.mark.xdist_group("vendor wheel")
@pytest.mark.skipif(not IS_WHOLE, reason=ONLY_THEIRS)
def test_both_give_the_same_numbers(vendor: Report, tmp_path: Path) -> None:
    lab = Lab(GOLDENS, tmp_path)
    for check in CHECKS.values():
        check(lab)
    assert sorted(lab.saved) == sorted(vendor.outputs)
    # Not bit for bit: (q - zero) * scale here, q * scale - (zero * scale) with one rounding less there.
    different = [name for name, array in lab.saved.items() if not np.allclose(array, vendor.outputs[name], 1e-6, 1e-6)]
    assert different == []


@pytest.mark.witness
@pytest.mark.xdist_group("vendor wheel")
def test_the_vendors_wheel_on_openrknns_library(tmp_path: Path) -> None:
    """The unmodified wheel, and no other part of the vendor's: every check passes, with the numbers of our package."""
    need_library("aarch64")
    try:
        report = Wheel.find().run_checks(on_ours=True)
    except WheelMissingError as missing:
        pytest.skip(f"no vendor wheel: {missing}")
    assert report.failed == {}, report.output[-4000:]
    assert sorted(report.passed) == sorted(CHECKS)
    lab = Lab(GOLDENS, tmp_path)
    for check in CHECKS.values():
        check(lab)
    assert sorted(lab.saved) == sorted(report.outputs)
    assert [name for name, array in lab.saved.items() if not np.allclose(array, report.outputs[name], 1e-6, 1e-6)] == []
