"""What `import openrknn` costs and what it gives."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import openrknn

GOLDEN = Path(__file__).parent / "goldens" / "residual_rv1106_i8.rknn"
LIMIT_MS = 100
RUNS = 5

# The public face. A name is added here on purpose, together with its documentation.
EXPORTED = [
    "Binding",
    "CHIPS",
    "CacheFullError",
    "Carried",
    "Chip",
    "ClosedError",
    "Decoder",
    "DeviceError",
    "DmaBuf",
    "FormatError",
    "InputWarning",
    "Matmul",
    "MemoryReport",
    "Model",
    "NodeArg",
    "Operator",
    "Outputs",
    "PartedSession",
    "PartsError",
    "Profile",
    "Quantization",
    "RknnError",
    "RunFuture",
    "RunTimes",
    "Session",
    "SessionPool",
    "Specs",
    "TensorSpec",
    "UnknownNameError",
    "UnsupportedError",
    "VendorError",
    "__version__",
    "compile",
    "lint",
    "load",
    "save",
]


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_import_leaves_the_heavy_packages_alone() -> None:
    program = "import sys, openrknn; print(*sorted({'numpy', 'rich', 'ctypes', 'asyncio'} & set(sys.modules)))"
    assert run(program) == ""


def test_import_is_fast() -> None:
    program = "import time; t = time.process_time(); import openrknn; print(1000 * (time.process_time() - t))"
    best = min(float(run(program)) for _ in range(RUNS))
    assert best < LIMIT_MS


def test_parsing_needs_no_numpy_and_no_native_code() -> None:
    program = f"""
import sys
sys.modules["numpy"] = sys.modules["ctypes"] = None  # an import of these fails now
import openrknn
model = openrknn.load({str(GOLDEN)!r})
print(len(model.inputs), len(model.outputs), len(model.operators) > 0)
"""
    assert run(program) == "1 1 True"


def test_exported_names() -> None:
    assert sorted(EXPORTED) == EXPORTED
    assert sorted(openrknn.__all__) == EXPORTED
    assert dir(openrknn) == EXPORTED
    for name in EXPORTED:
        assert hasattr(openrknn, name)


def test_the_package_is_a_command() -> None:
    command = [sys.executable, "-m", "openrknn", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert openrknn.__version__ in found


def test_version_is_that_of_the_package() -> None:
    assert openrknn.__version__ == importlib.metadata.version("openrknn")
