"""The native library with sanitizers and coverage, in a folder that stands in front of the installed one."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ROOT", "build", "environment"]

ROOT = Path(__file__).resolve().parents[2]
_FLAGS = (
    "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -fsanitize-coverage=trace-pc"
)


def build(folder: Path) -> Path | None:
    """Build it unless that is done; the folder that has `_native`, or None where gcc's sanitizers are missing."""
    runtime = _runtime()
    if runtime is None or shutil.which("gcc") is None:
        return None
    stamp, wanted = folder / "stamp", _sources()
    if not stamp.is_file() or stamp.read_text() != wanted:
        _make(folder)
        stamp.write_text(wanted)
    return folder


def environment(sanitized: bool) -> Mapping[str, str]:
    """What a worker is started with."""
    common = {**os.environ, "OPENRKNN_STATUS": "off", "OPENRKNN_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
              "OPENRKNN_MAX_WORK": "1G", "OPENRKNN_MAX_MEMORY": "500M",
              "PYTHONPATH": ":".join(filter(None, (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH"))))}
    if not sanitized:
        return common
    # Python keeps what it has until the end, and its memory is not ours to judge. gcc 13 puts variables on a stack
    # of the sanitizer that is not aligned for vectors of 64 bytes (gcc's bug 110027).
    asan = ("detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:quarantine_size_mb=16:"
            "malloc_context_size=3")  # fmt: skip
    return {**common, "LD_PRELOAD": _runtime() or "", "ASAN_OPTIONS": asan, "UBSAN_OPTIONS": "print_stacktrace=1"}


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    coverage = folder / "coverage.o"
    source = Path(__file__).with_name("coverage.c")
    subprocess.run(["gcc", "-O2", "-fPIC", "-c", str(source), "-o", str(coverage)], check=True)
    cmake = [str(Path(sys.executable).with_name("cmake"))]
    cmake = cmake if Path(cmake[0]).is_file() else ["cmake"]
    configure = [*cmake, "-S", str(ROOT / "native"), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
                 "-DOPENRKNN_LEVEL=-O1", f"-DCMAKE_C_FLAGS={_FLAGS}", f"-DCMAKE_SHARED_LINKER_FLAGS={coverage}",
                 f"-DCMAKE_EXE_LINKER_FLAGS={coverage}"]  # fmt: skip
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    make = [*cmake, "--build", str(folder), "--target", "openrknn", "--parallel", str(len(os.sched_getaffinity(0)))]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    (folder / "_native").mkdir(exist_ok=True)
    shutil.copy(folder / "libopenrknn.so", folder / "_native")


def _runtime() -> str | None:
    """gcc's libasan.so; gcc answers with the bare name where it has none."""
    if shutil.which("gcc") is None:
        return None
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = found.stdout.strip()
    return path if os.path.isabs(path) else None


def _sources() -> str:
    digest = hashlib.sha256(_FLAGS.encode())
    native = ROOT / "native"
    for path in sorted((*native.glob("*.[ch]"), native / "CMakeLists.txt", *Path(__file__).parent.glob("*.c"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
