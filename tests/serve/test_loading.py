"""Loading: a model that takes long to load delays no other one, and folders of killed servers are removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session
from openrknn.serve.errors import ConflictError
from openrknn.serve.plane.process_folder import ProcessFolder, remove_leftovers
from openrknn.serve.plane.repository import Repository
from openrknn.serve.settings import Settings
from tests.serve.asking import PATIENCE
from tests.serve.parts import FILES


def test_a_model_that_takes_long_to_load_delays_no_other_one(tmp_path: Path) -> None:
    for name in ("slow", "quick", "other"):
        shutil.copy(FILES["picture"], tmp_path / f"{name}.rknn")
    began, may_go_on = threading.Event(), threading.Event()

    def open_session(model: Any, *arguments: Any, **options: Any) -> Session:
        if Path(model.path).stem == "slow":
            began.set()
            assert may_go_on.wait(PATIENCE)
            raise UnsupportedError("it was too slow")
        return Session(model, *arguments, **options)

    settings = Settings([tmp_path], instances=1, workers="in-process")
    repository = Repository(settings, open_session=open_session)
    problems: list[Exception] = []

    def load_slowly() -> None:
        try:
            repository.load("slow")
        except ConflictError as error:
            problems.append(error)

    thread = threading.Thread(target=load_slowly)
    thread.start()
    try:
        assert began.wait(PATIENCE)
        repository.load("quick")
        assert repository.find("quick").name == "quick"
        repository.load_given("given", "{}", {"file:1/model.rknn": FILES["picture"].read_bytes()})
        repository.poll()  # finds the third one, and does not wait for the first
        assert repository.find("other").name == "other"
        assert repository.find("given").name == "given"
        repository.unload("quick")
    finally:
        may_go_on.set()
        thread.join()
    assert "too slow" in str(problems[0])
    assert not repository._names
    repository.close()


def test_folders_of_killed_servers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    program = (
        "import sys; from openrknn.serve.plane.process_folder import ProcessFolder; a = ProcessFolder(); "
        "print(a.path, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        ours = ProcessFolder()
        assert remove_leftovers() == []  # both live
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left / "model").mkdir()
    young, old = tmp_path / "openrknn-load-young", tmp_path / "openrknn-load-old"
    for path in (young, old):
        path.mkdir()
    os.utime(old, (time.time() - 10**6,) * 2)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "openrknn-load-link").symlink_to(tmp_path / "elsewhere")
    assert set(remove_leftovers()) == {left, old}
    assert ours.path.exists()
    assert young.exists()
    assert (tmp_path / "elsewhere").exists()
    ours.close()
    ours.close()
    assert not ours.path.exists()
