"""An arm64 system for the guest, made of packages that are only unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from openrknn.board import arm64_root
from openrknn.errors import DeviceError
from tests.cli.run import run

LIBRARIES = Path("usr/lib/aarch64-linux-gnu")


class Packages:
    """In the place of Debian's."""

    def __init__(self, folder: Path, mirror: str, architecture: str) -> None:
        assert (mirror, architecture) == ("http://mirror", "arm64")

    def update(self) -> None:
        pass

    def with_all_needed(self, *packages: str) -> list[str]:
        return [*packages, "libblas3"]

    def unpack(self, packages: Sequence[str], target: Path) -> None:
        assert {"python3", "libblas3"} < set(packages)
        (target / LIBRARIES / "blas").mkdir(parents=True)
        (target / LIBRARIES / "blas/libblas.so.3").write_text("a library")


def test_setup_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arm64_root, "Debian", Packages)
    root = tmp_path / "root"
    assert run(capsys, "board", "setup", "--root", str(root), "--mirror", "http://mirror").code == 0
    assert (root / LIBRARIES / "libblas.so.3").read_text() == "a library"
    assert not (root / LIBRARIES / "liblapack.so.3").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    with pytest.raises(DeviceError, match="is not empty; name a new folder"):
        arm64_root.make_root(root, "http://mirror", print)
