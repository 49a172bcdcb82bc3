from collections.abc import Iterator
from pathlib import Path

import pytest

import openrknn
from tests.warm import WarmPython


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with WarmPython() as python:
        yield python


def test_a_program_has_its_words_folder_variables_and_streams(python: WarmPython, tmp_path: Path) -> None:
    text = "import os, sys; print(os.getcwd(), sys.argv, dict(os.environ)); print(2, file=sys.stderr); sys.exit(3)"
    done = python.run(["-c", text, "word"], tmp_path, {"A": "b"})
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{tmp_path} ['-c', 'word'] {{'A': 'b'}}\n", "2\n")


def test_one_program_leaves_nothing_to_the_next(python: WarmPython, tmp_path: Path) -> None:
    assert python.run(["-c", "import json; json.left = 1"], tmp_path, {}).returncode == 0
    assert python.run(["-c", "import json; print(hasattr(json, 'left'))"], tmp_path, {}).stdout == "False\n"


def test_warnings_and_errors_end_a_program(python: WarmPython, tmp_path: Path) -> None:
    done = python.run(["-c", "import warnings; warnings.warn('one')"], tmp_path, {})
    assert done.returncode == 1
    assert done.stderr.endswith("UserWarning: one\n")
    assert python.run(["-c", "import os; os.abort()"], tmp_path, {}).returncode == -6


def test_what_two_programs_imported_is_there(python: WarmPython, tmp_path: Path) -> None:
    for _ in range(2):
        assert python.run(["-m", "openrknn.cli", "--version"], tmp_path, {}).stdout.split()[-1] == openrknn.__version__
    text = "import sys; print('openrknn.cli.main' in sys.modules)"
    assert python.run(["-c", text], tmp_path, {}).stdout == "True\n"


def test_what_has_threads_is_not_imported_ahead(python: WarmPython, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for _ in range(3):
        text = "import sys; print('onnxruntime' in sys.modules); import openrknn.onnxruntime.plugin"
        done = python.run(["-c", text], tmp_path, {})
        assert (done.returncode, done.stdout) == (0, "False\n")


class Interrupted:
    def readline(self) -> str:
        raise KeyboardInterrupt

    def close(self) -> None:
        pass


def test_an_interrupted_wait_leaves_no_answer_behind(python: WarmPython, tmp_path: Path) -> None:
    vars(python)["_answers"] = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        python.run(["-c", "print('first')"], tmp_path, {})
    assert python.run(["-c", "print('second')"], tmp_path, {}).stdout == "second\n"
