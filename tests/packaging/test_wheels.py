"""Two builds are equal, wheels have what they promise, and one file has the version. Without network or compiler."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packing import archives, faces, native, sources, wheels
from packing.errors import PackingError

ROOT = Path(__file__).parents[2]
TIME = 1_700_000_000
FILES = ("pyproject.toml", "README.md", "LICENSE", "src/openrknn/__init__.py", "src/openrknn/py.typed",
         "src/openrknn/lazy.py", "examples/matmul.py", "packaging/build", "compat/rknn/src/rknn/VERSION")  # fmt: skip


def project(folder: Path, *, mode: int = 0o644, seconds: int = 0) -> Path:
    """The project with few modules: what differs between two copies must not matter."""
    for name in sorted(FILES, reverse=bool(seconds)):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(mode | (ROOT / name).stat().st_mode & stat.S_IXUSR)
        os.utime(target, (TIME + seconds, TIME + seconds))
    face, skipped = "compat/rknnlite", shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / face, folder / face, ignore=skipped)
    (folder / "build").mkdir()
    (folder / "build/left-over").write_text("of a former build")
    return folder


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(TIME))
    return project(tmp_path / "one"), project(tmp_path / "other/place", mode=0o600, seconds=1000)


def outcomes(pair: tuple[Path, Path], maker: wheels.Maker) -> Path:
    """What the maker makes of both, which has to be the same."""
    made = []
    for root in pair:
        (root / "dist").mkdir()
        made.append(maker(root, root / "dist"))
    assert made[0].name == made[1].name
    assert archives.sha256(made[0]) == archives.sha256(made[1])
    return made[0]


def test_two_pure_wheels_are_equal(pair: tuple[Path, Path]) -> None:
    path = outcomes(pair, wheels.build_pure)
    assert path.name == f"openrknn-{sources.version(ROOT)}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert {"openrknn/lazy.py", "openrknn/examples/matmul.py"} <= set(names)
        assert not [name for name in names if "left-over" in name or "_native" in name]
        assert {entry.date_time for entry in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        info = f"openrknn-{sources.version(ROOT)}.dist-info"
        assert "Root-Is-Purelib: true\nTag: py3-none-any\n" in wheel.read(f"{info}/WHEEL").decode()
        recorded = [line.split(",")[0] for line in wheel.read(f"{info}/RECORD").decode().splitlines()]
        assert sorted(recorded) == sorted(names)


def test_two_sdists_are_equal(pair: tuple[Path, Path]) -> None:
    path = outcomes(pair, wheels.build_sdist)
    with tarfile.open(path) as sdist:
        members = {member.name.partition("/")[2]: member for member in sdist}
    assert {"pyproject.toml", "PKG-INFO", "src/openrknn/__init__.py", "examples/matmul.py"} <= set(members)
    assert "build/left-over" not in members
    assert {member.mtime for member in members.values()} == {TIME}
    assert members["packaging/build"].mode & stat.S_IXUSR


def test_openrknn_lite_answers_to_the_vendors_name(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """pip is content, and what belongs to our package goes with it."""
    wheel = wheels.build_face(pair[0], tmp_path, "rknnlite")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "clean")], check=True)
    site = Path(next((tmp_path / "clean/lib").iterdir())) / "site-packages"

    def pip(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", "--python", str(tmp_path / "clean/bin/python"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert pip("install", "--no-index", "--no-deps", str(wheel)).returncode == 0
    (found,) = importlib.metadata.distributions(name="rknn-toolkit-lite2", path=[str(site)])
    assert found.version == "2.3.2+openrknn"
    assert found.requires == [f"openrknn-lite=={sources.version(ROOT)}"]
    wanted = pip("install", "--no-index", "--no-deps", "rknn-toolkit-lite2>=2.0,==2.3.2")
    assert (wanted.returncode, "already satisfied" in wanted.stdout) == (0, True), wanted.stderr
    refused = pip("uninstall", "--yes", "rknn-toolkit-lite2")
    assert refused.returncode != 0
    assert "installed by openrknn-lite" in refused.stderr
    assert pip("uninstall", "--yes", "openrknn-lite").returncode == 0
    assert not [path.name for path in site.iterdir() if "rknn" in path.name]


def test_the_other_face_has_the_other_name() -> None:
    files = faces.stand_in(faces.FACES["rknn"], "1.0", "2.3.2")
    folder = "openrknn_toolkit-1.0.data/purelib/rknn_toolkit2-2.3.2+openrknn.dist-info"
    assert set(files) == {f"{folder}/METADATA", f"{folder}/WHEEL", f"{folder}/INSTALLER"}


def test_the_version_is_said_once() -> None:
    version = sources.version(ROOT)
    places = [name for name in sources.tracked(ROOT) if name.startswith((".github/", "compat/", "deploy/", "native/"))]
    # Helm reads no other file; `packaging/release` writes the version there, and `packaging/build chart` checks it.
    places.remove("deploy/helm/openrknn/Chart.yaml")
    for name in ("pyproject.toml", *places):
        assert version not in (ROOT / name).read_text("utf-8", "replace"), f"{name} says the version"


def test_a_wheel_without_its_libraries_is_refused(tmp_path: Path) -> None:
    files = {"openrknn-1.dist-info/WHEEL": b"Wheel-Version: 1.0\n", "openrknn/__init__.py": b""}
    wheel = archives.write_wheel(tmp_path, "openrknn", "1", native.tag("x86_64"), files, epoch=0)
    with pytest.raises(PackingError, match=r"has no libopenrknn\.so"):
        native.check(wheel, "x86_64", [])
    for name in native.LIBRARIES:
        files[f"openrknn/_native/{name}"] = b"/home/me/project/run.c"
    wheel = archives.write_wheel(tmp_path, "openrknn", "1", native.tag("x86_64"), files, epoch=0)
    with pytest.raises(PackingError, match="names a path of this machine: /home/me"):
        native.check(wheel, "x86_64", ["/home/me"])


def test_old_and_young_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zip files begin with 1980; a word is no time."""
    files = {"openrknn-1.dist-info/WHEEL": b"Wheel-Version: 1.0\n"}
    path = archives.write_wheel(tmp_path, "openrknn", "1", "py3-none-any", files, epoch=0)
    with zipfile.ZipFile(path) as wheel:
        assert wheel.infolist()[0].date_time[0] == 1980
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(PackingError, match="'yesterday' is no number"):
        sources.epoch(ROOT)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell here")
@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("-O3 -march=armv8-a -fno-schedule-insns -c a.c", "-O3 -mcpu=generic+v8a -c a.c"),
        ("-march=armv8.2-a+dotprod+i8mm", "-mcpu=generic+v8_2a+dotprod+i8mm"),
        ("-mavx512vnni -c a.c", "-mavx512vnni -c a.c"),
        ("-shared a.o", f"-shared a.o {ROOT}/packaging/zig-unload.c"),
    ],
)
def test_zig_is_told_in_its_own_words(given: str, passed: str) -> None:
    variables = {**os.environ, "OPENRKNN_ZIG": "echo", "OPENRKNN_ZIG_TARGET": "TARGET"}
    command = [str(ROOT / "packaging/zig-cc"), *given.split()]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"cc -target TARGET {passed}"
