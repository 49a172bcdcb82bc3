"""The page about the architecture is what the import contract, the docstrings and a recorded inference say."""

import subprocess
import sys

import pytest

from openrknn import nativelib
from tools import make_architecture_docs


@pytest.mark.skipif(sys.version_info < (3, 11), reason="qualified names of calls are recorded since Python 3.11")
@pytest.mark.skipif(nativelib.library() is None, reason="the recorded inference uses the native kernels")
def test_the_page_is_up_to_date() -> None:
    """In a process of its own: what this one has imported already would not be called again."""
    code = (
        "from tools.make_architecture_docs import files\n"
        "print([str(path.name) for path, text in files().items() if path.read_text(encoding='utf-8') != text])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=make_architecture_docs.ROOT
    )
    assert done.stdout.strip() == "[]", "run: python tools/make_architecture_docs.py"


def test_every_package_is_in_a_layer_and_has_a_docstring() -> None:
    for layer in make_architecture_docs.layers():
        for name in layer:
            assert make_architecture_docs.about(name).endswith((".", ")")), name
