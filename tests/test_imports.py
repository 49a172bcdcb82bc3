"""What `import openrknn` costs and what it gives."""

import importlib.metadata
import subprocess
import sys

import openrknn

LIMIT_MS = 100
RUNS = 5

# The public face. A name is added here on purpose, together with its documentation.
EXPORTED = ["__version__"]


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_import_leaves_the_heavy_packages_alone() -> None:
    program = "import sys, openrknn; print(*sorted({'numpy', 'rich', 'ctypes', 'asyncio'} & set(sys.modules)))"
    assert run(program) == ""


def test_import_is_fast() -> None:
    program = "import time; t = time.perf_counter(); import openrknn; print(1000 * (time.perf_counter() - t))"
    best = min(float(run(program)) for _ in range(RUNS))
    assert best < LIMIT_MS


def test_exported_names() -> None:
    assert sorted(EXPORTED) == EXPORTED
    assert list(openrknn.__all__) == EXPORTED
    for name in EXPORTED:
        assert hasattr(openrknn, name)


def test_version_is_that_of_the_package() -> None:
    assert openrknn.__version__ == importlib.metadata.version("openrknn")
