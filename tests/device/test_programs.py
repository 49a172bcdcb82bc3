"""Programs from the cache: the same results, notes and errors, whatever happens to the files."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn import Session
from openrknn.cachefiles import FileCache
from openrknn.chips import chip_named
from openrknn.compute import native
from openrknn.container.parts import Kind
from openrknn.device import programs
from openrknn.device.software import SoftwareDevice
from openrknn.errors import BudgetError
from openrknn.npu.machine import Machine
from tests.runtime.test_notes import IGNORED, with_bits

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL = GOLDENS / "image_rk3588_i8.rknn"
pytestmark = pytest.mark.skipif(native.choose() is None, reason="NumPy alone: nothing is kept")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are kept during a test."""
    monkeypatch.setattr(FileCache, "is_on", True)
    monkeypatch.setenv("OPENRKNN_CACHE", str(tmp_path))
    return tmp_path / "openrknn" / "programs"


def _feeds(session: Session) -> dict[str, np.ndarray[Any, Any]]:
    random_numbers = np.random.default_rng(5)
    return {spec.name: random_numbers.random(spec.shape, np.float32) for spec in session.inputs}


def _answer(path: Path, **options: Any) -> tuple[dict[str, bytes], tuple[str, ...]]:
    with Session(path, "software", **options) as session:
        outputs = session.run(_feeds(session), outputs="raw")
        return {name: value.tobytes() for name, value in outputs.items()}, session.notes


def _count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each job that is decoded."""
    decoded: list[int] = []
    prepare = Machine.prepare

    def counted(self: Machine, lists: Any) -> Any:
        decoded.append(len(lists))
        return prepare(self, lists)

    monkeypatch.setattr(Machine, "prepare", counted)
    return decoded


@pytest.mark.parametrize("family", ["conv", "image", "matmul", "[adg]", "[blno]", "[p-z]"])
def test_goldens_answer_the_same_from_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """The witness is the program that was decoded here, without a cache."""
    found = 0
    for path in sorted(GOLDENS.glob(f"{family}*.rknn")):
        monkeypatch.setattr(FileCache, "is_on", False)
        try:
            want = _answer(path)
        except openrknn.RknnError:
            continue  # operators and chips that have tests of their own
        monkeypatch.setattr(FileCache, "is_on", True)
        assert _answer(path) == want, path.name
        kept = len(programs.CACHE.stored())
        assert _answer(path) == want, path.name
        assert len(programs.CACHE.stored()) == kept, f"{path.name}: a second process finds other keys"
        found += 1
    assert found
    assert programs.CACHE.stored()


def test_the_second_process_decodes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = _count_decoded(monkeypatch)
    first = _answer(MODEL)
    assert len(decoded) == 1
    assert _answer(MODEL) == first
    assert len(decoded) == 1
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_nothing_is_kept_before_a_run(folder: Path) -> None:
    with Session(MODEL, "software"):
        pass
    assert not folder.exists()


def test_off_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileCache, "is_on", True)
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    monkeypatch.setenv("HOME", str(tmp_path))
    _answer(MODEL)
    assert not list(tmp_path.iterdir())


def test_mutations_are_refused_and_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any byte, any length: native code sees what was written or nothing."""
    want = _answer(MODEL)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    decoded = _count_decoded(monkeypatch)
    numbers = random.Random(7)
    changed = [bytes(whole[:cut]) for cut in (0, 1, 47, 48, 4096, len(whole) - 1)] + [whole + b"\0"]
    for place in (0, 8, 40, 47, 48, 60, *(numbers.randrange(len(whole)) for _ in range(12))):
        one = bytearray(whole)
        one[place] ^= 1 << numbers.randrange(8)
        changed.append(bytes(one))
    for count, data in enumerate(changed, 1):
        path.write_bytes(data)
        assert _answer(MODEL) == want
        assert len(decoded) == count
        assert path.read_bytes()[48:] == whole[48:]


def test_sections_that_do_not_fit_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with a good checksum: pointers and structures are looked at once more."""
    want = _answer(MODEL)
    (path,) = folder.iterdir()
    key = path.name.partition(".")[0]
    entry = programs.CACHE.read(key)
    assert entry is not None
    decoded = _count_decoded(monkeypatch)
    whole = {name: bytes(section) for name, section in entry.sections.items()}
    numbers = random.Random(3)
    for name in ("steps", "pointers", "regions"):
        for _ in range(8):
            data = bytearray(whole[name])
            place = numbers.randrange(len(data) // 8) * 8 + 7  # the upper bytes: far away
            data[place] ^= 0x70
            assert programs.CACHE.write(key, entry.meta, {**whole, name: bytes(data)})
            assert _answer(MODEL) == want
    for name in whole:
        assert programs.CACHE.write(key, entry.meta, {**whole, name: whole[name][:-3]})
        assert programs.CACHE.write(key, entry.meta, {other: whole[other] for other in whole if other != name})
        assert _answer(MODEL) == want
    before = len(decoded)
    assert before > 10  # the others changed what does not matter
    for changed in ({"operations": "many"}, {"operations": None}, {"findings": [1]}, {"memory": None}):
        assert programs.CACHE.write(key, {**entry.meta, **changed}, whole)
        assert _answer(MODEL) == want
    assert len(decoded) == before + 4


def test_budgets_say_the_same(folder: Path) -> None:
    def refusal(**options: Any) -> str:
        with pytest.raises(BudgetError) as caught:
            _answer(MODEL, **options)
        return str(caught.value)

    fresh = [refusal(max_work=1000), refusal(max_memory=20_000)]
    want = _answer(MODEL)
    assert [refusal(max_work=1000), refusal(max_memory=20_000)] == fresh
    assert _answer(MODEL) == want


def test_notes_and_strict(folder: Path) -> None:
    data = with_bits(IGNORED)
    found = []
    for _ in range(2):
        with Session(data, "software") as session:
            session.run(np.zeros(session.inputs[0].shape, np.float32))
            found.append(session.notes)
    assert len(found[0]) == 1
    assert found[0] == found[1]
    assert len(list(folder.iterdir())) == 1
    with pytest.raises(openrknn.RknnError), Session(data, "software", strict=True) as session:
        session.run(np.zeros(session.inputs[0].shape, np.float32))


def test_the_state_of_the_cores_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers outlive jobs: what is decoded after a job from the cache starts where that would have left them."""
    decoded = _count_decoded(monkeypatch)

    def state(*paths: Path) -> bytes:
        with SoftwareDevice(chip_named("rk3588")) as device:
            for path in paths:
                with Session(path, device) as session:
                    session.run(_feeds(session))
            return device._programs.state()

    other = GOLDENS / "conv_rk3588_i8.rknn"
    monkeypatch.setattr(FileCache, "is_on", False)
    want = state(MODEL, other)
    assert want != state(other)
    monkeypatch.setattr(FileCache, "is_on", True)
    state(MODEL)
    before = len(decoded)
    assert state(MODEL, other) == want
    assert len(decoded) == before + 1
    assert state(MODEL, other) == want
    assert len(decoded) == before + 1


def test_other_kernels_have_other_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want, sets = _answer(MODEL), native.available()
    for kernels in sets:
        monkeypatch.setenv("OPENRKNN_KERNELS", kernels.name.lower())
        assert _answer(MODEL) == want
    assert len(list(folder.iterdir())) == len(sets)
    monkeypatch.setenv("OPENRKNN_KERNELS", "numpy")
    assert _answer(MODEL) == want
    assert len(list(folder.iterdir())) == len(sets)


def test_other_weights_have_other_programs(folder: Path) -> None:
    """One bit of a constant, in a file of the same shape."""
    model = openrknn.load(MODEL)
    weights = next(one for one in model.graphs[0].tensors if one.kind is Kind.WEIGHT and len(one.data or b"") > 64)
    data = bytearray(MODEL.read_bytes())
    place = data.find(bytes(weights.data or b""))
    data[place] ^= 0x40
    first = _answer(MODEL)[0]
    with Session(bytes(data), "software") as session:
        other = {name: value.tobytes() for name, value in session.run(_feeds(session), outputs="raw").items()}
    assert other != first
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("kind", ["file", "read-only", "link", "open to others", "full"])
def test_folders_that_cannot_be_used(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(FileCache, "is_on", False)
    want = _answer(MODEL)
    monkeypatch.setattr(FileCache, "is_on", True)
    folder.parent.mkdir(mode=0o700)
    if kind == "file":
        folder.write_text("")
    elif kind == "link":
        folder.symlink_to("/tmp")
    elif kind == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "full":

        def fails(*_: object, **__: object) -> Any:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tempfile.mkstemp", fails)
    else:

        def refuses(*_: object, **__: object) -> Any:
            raise PermissionError(30, "Read-only file system")

        monkeypatch.setattr(Path, "mkdir", refuses)
    assert _answer(MODEL) == want
    assert _answer(MODEL) == want


def test_processes_that_start_together(folder: Path) -> None:
    """Each writes the same file; whoever reads one sees a whole one."""
    program = (
        "import sys, hashlib, numpy as np\n"
        "from openrknn import Session\n"
        "with Session(sys.argv[1], 'software') as session:\n"
        "    feeds = {one.name: np.full(one.shape, 0.25, np.float32) for one in session.inputs}\n"
        "    for _ in range(2):\n"
        "        outputs = session.run(feeds)\n"
        "print(hashlib.sha256(b''.join(outputs[name].tobytes() for name in sorted(outputs))).hexdigest())\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(MODEL)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate()[0] for process in started}
    assert len(answers) == 1
    assert len(answers.pop()) == 65
    assert [path.suffix for path in folder.iterdir()] == [".kept"]


def test_threads_and_forks(folder: Path) -> None:
    want = _answer(MODEL)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(_answer(MODEL))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 3
    with Session(MODEL, "software") as session:
        session.run(_feeds(session))
        outputs = session.run(_feeds(session), outputs="raw")
        digest = hashlib.sha256(b"".join(value.tobytes() for value in outputs.values())).digest()
        child = os.fork()
        if not child:
            same = False
            try:
                again = session.run(_feeds(session), outputs="raw")
                same = hashlib.sha256(b"".join(value.tobytes() for value in again.values())).digest() == digest
            finally:
                os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
