"""Makes wheels of openrknn with and without native libraries, its sdist, and wheels of the two faces."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from packing import archives, environment, native, sources
from packing.errors import PackingError
from packing.faces import FACES, stand_in

__all__ = ["Maker", "build_face", "build_native", "build_pure", "build_sdist"]

Maker = Callable[[Path, Path], Path]
"""Makes one package of a project in a folder."""
_STANDS_FOR = "compat/rknn/src/rknn/VERSION"
"""The version of the vendor's API that the faces follow."""
_HOOK = """
import json, sys
from scikit_build_core import build
print(getattr(build, sys.argv[1])(sys.argv[2], json.loads(sys.argv[3])))
"""


def build_pure(root: Path, out: Path) -> Path:
    """openrknn for every machine that has NumPy: no native library."""
    return _wheel(root, out, "py3-none-any", {"wheel.cmake": "false"}, {})


def build_native(root: Path, out: Path, machine: str) -> Path:
    """openrknn with its native libraries, compiled by zig for that machine."""
    with tempfile.TemporaryDirectory() as cache:
        flags = native.variables(machine, Path(cache))
        made = _wheel(root, out, native.tag(machine), native.settings(root, machine), flags)
    try:
        native.check(made, machine, [tempfile.gettempdir() + "/tmp", str(root), str(Path.home()) + "/"])
    except PackingError:
        made.unlink()
        raise
    return made


def build_sdist(root: Path, out: Path) -> Path:
    """The sources that pip compiles itself where no wheel fits."""
    with tempfile.TemporaryDirectory() as work:
        source = sources.stage(root, Path(work) / "openrknn")
        return out / _run("build_sdist", source, out, {}, _clean(root, source, {}))


def build_face(root: Path, out: Path, folder: str) -> Path:
    """A face of the vendor's on openrknn: the package of compat/FOLDER, which also answers to the vendor's name."""
    face = FACES[folder]
    with tempfile.TemporaryDirectory() as work:
        source = sources.stage(root, Path(work) / "openrknn")
        project = source / "compat" / folder
        shutil.copyfile(source / "LICENSE", project / "LICENSE")
        made = Path(work) / _run("build_wheel", project, Path(work), {}, _clean(root, source, {}))
        files = archives.read_wheel(made)
    version = sources.version(root)
    files |= stand_in(face, version, (root / _STANDS_FOR).read_text("utf-8").strip())
    name = face.name.replace("-", "_")
    return archives.write_wheel(out, name, version, "py3-none-any", files, epoch=sources.epoch(root))


def _wheel(root: Path, out: Path, tag: str, settings: Mapping[str, str], flags: Mapping[str, str]) -> Path:
    with tempfile.TemporaryDirectory() as work:
        source = sources.stage(root, Path(work) / "openrknn")
        made = Path(work) / "wheel"
        made.mkdir()
        made /= _run("build_wheel", source, made, settings, _clean(root, source, flags))
        files = archives.read_wheel(made)
    return archives.write_wheel(out, "openrknn", sources.version(root), tag, files, epoch=sources.epoch(root))


def _clean(root: Path, source: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a build: nobody's compiler flags, one time, no path of this machine."""
    kept = {key: value for key, value in environment.tools().items() if key not in {"CFLAGS", "CMAKE_ARGS", "LDFLAGS"}}
    own = {
        "SOURCE_DATE_EPOCH": str(sources.epoch(root)),
        "CFLAGS": f"-ffile-prefix-map={source}=.",
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }
    return {key: value for key, value in {**kept, **own}.items() if value}


def _run(hook: str, source: Path, target: Path, settings: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Run a hook of the build backend, and return the name of what it made."""
    command = [sys.executable, "-c", _HOOK, hook, str(target), json.dumps(dict(settings))]
    done = subprocess.run(command, cwd=source, env=dict(variables), capture_output=True, text=True, check=False)
    if done.returncode or os.environ.get("OPENRKNN_PACKAGING_VERBOSE"):
        sys.stderr.write(done.stdout + done.stderr)
    if done.returncode:
        raise PackingError(f"{hook} failed; what it said is above")
    return done.stdout.splitlines()[-1]
