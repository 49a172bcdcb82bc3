"""Names of the package as documentation and messages write them: `import openrknn` is enough for each."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import openrknn

ROOT = Path(openrknn.__file__).parents[2]
_NAME = re.compile(r"(?<![\w/.@-])openrknn\.([a-z_]+|[A-Z]\w*)(?:\.([A-Za-z_]\w*))?(?![\w/:\\-])")
_FILES = frozenset({"json", "fish", "svc", "openrknn", "pc", "rknn", "service", "socket", "yaml", "zip", "log", "toml",
                    "example", "io", "org", "dev", "sh", "npu", "local", "trace", "whl",
                    "css", "overlays", "h"})  # fmt: skip
"""What follows a dot in names of files and hosts."""
_OPTIONAL = ("torch", "ray", "onnx", "onnxruntime", "grpc", "pyarrow", "kubernetes")


def _texts() -> list[tuple[str, str]]:
    """Documentation, examples, and what sources write in backticks: messages, comments and docstrings."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.py"))]
    found = [(str(path), path.read_text(encoding="utf-8").replace("\\_", "_")) for path in pages if path.is_file()]
    for path in sorted(Path(openrknn.__file__).parent.rglob("*.py")):
        quoted = re.findall(r"`openrknn\.[^`\n]*`", path.read_text(encoding="utf-8"))
        found.append((str(path), "\n".join(quoted)))
    return found


def _names() -> dict[tuple[str, str], str]:
    return {
        (match[1], match[2] or ""): place
        for place, text in _texts()
        for match in _NAME.finditer(text)
        if match[1] not in _FILES
    }


def test_every_name_that_is_written_is_there() -> None:
    """`openrknn.vision` and `openrknn.models` were AttributeErrors."""
    found = _names()
    assert {("vision", "Pipeline"), ("compile", "")} <= set(found)
    wrong = []
    for (first, second), place in found.items():
        try:
            value = getattr(openrknn, first)
            if second and not hasattr(value, second):
                importlib.import_module(f"openrknn.{first}.{second}")
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(_OPTIONAL):
                wrong.append(f"openrknn.{first}.{second} in {place}: {error}")
        except (AttributeError, ImportError) as error:
            wrong.append(f"openrknn.{first}.{second} in {place}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["vision", "models", "voice", "isa", "errors", "chips"])
def test_modules_are_names(name: str) -> None:
    text = f"import openrknn; print(openrknn.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == f"openrknn.{name}\n"


def test_the_package_alone_imports_little() -> None:
    text = "import sys, openrknn; print({'numpy', 'openrknn.vision', 'openrknn.chips'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = openrknn.nothing
