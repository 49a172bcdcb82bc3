"""The loop closes: openrknn's code for the vendor's library runs on openrknn's library.

The oracle is `Session` on the software NPU, which stands on the ladder of oracles in tests/runtime.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.capi.programs import MODEL, PICTURE, done, need_library, own_engine, run
from tests.compat.checks import CHECKS
from tests.compat.lab import Lab
from tests.compat.wheel import read_report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDENS = ROOT / "tests/goldens"


def test_sessions_on_every_golden() -> None:
    """Floats and stored bytes of all files that openrknn runs, in one process: a context after the other."""
    library = need_library()
    with own_engine() as variables:
        report = json.loads(done(sys.executable, HERE / "loop.py", library, GOLDENS, **variables))
    assert report["different"] == {}
    assert len(report["same"]) > 90


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checks of the drop-in `rknnlite`, with the device that is the library."""
    library = need_library()
    folder = tmp_path_factory.mktemp("lite")
    words = [sys.executable, ROOT / "tests/compat/inside.py", ROOT, folder / "report", folder / "outputs.npz"]
    with own_engine() as variables:
        names = {**variables, "OPENRKNN_DEVICE": "vendor", "OPENRKNN_LIBRARY": str(library)}
        result = run(*words, ROOT / "compat/rknnlite/src", **names)
    (folder / "output").write_text(result.stdout + result.stderr)
    return folder


def test_the_drop_in_rknnlite_behaves_as_on_the_software_npu(lite: Path, tmp_path: Path) -> None:
    report = read_report(lite / "report", lite / "outputs.npz", (lite / "output").read_text())
    assert report.failed == {}
    assert sorted(report.passed) == sorted(CHECKS)
    lab = Lab(GOLDENS, tmp_path)
    for check in CHECKS.values():
        check(lab)
    assert sorted(lab.saved) == sorted(report.outputs)
    assert [name for name, array in lab.saved.items() if not np.array_equal(array, report.outputs[name])] == []


def test_it_was_the_library_that_ran() -> None:
    """Otherwise these tests would compare the software NPU with itself."""
    library = need_library()
    script = (
        "import openrknn\n"
        f"with openrknn.Session({str(GOLDENS / 'conv_rk3588_i8.rknn')!r}) as session:\n"
        "    print(session.device.name, session.context.sdk_version.api)\n"
    )
    with own_engine() as variables:
        names = {**variables, "OPENRKNN_DEVICE": "vendor", "OPENRKNN_LIBRARY": str(library)}
        words = done(sys.executable, "-c", script, **names).split(maxsplit=1)
    assert words[0] == f"vendor:{library}"
    assert words[1].startswith("2.5.0 (openrknn ")


MORE = """
import os, sys
import numpy as np
import openrknn

device, model, picture = sys.argv[1], sys.argv[2], np.load(sys.argv[3])["x0"]
with openrknn.Session(model, device="software") as software, openrknn.Session(model, device=device) as session:
    wanted = software.run(picture, outputs="raw")["logits"]

    bound = session.bind()                                  # memory that the library made
    bound.inputs["image"][...] = picture
    bound.run()
    assert np.array_equal(bound.outputs["logits"].reshape(-1)[: wanted.size], wanted.reshape(-1))

    fd = os.memfd_create("camera")                          # memory that somebody else made
    os.pwrite(fd, picture.tobytes(), 0)
    other = session.bind(inputs={"image": openrknn.DmaBuf(fd)})
    other.run()
    assert np.array_equal(other.outputs["logits"].reshape(-1)[: wanted.size], wanted.reshape(-1))

    profile = session.profile(picture)
    assert len(profile.operators) > 20 and profile.operators[5].seconds > 0
    assert session.memory().weights > 1_000_000

with openrknn.SessionPool(model, size=3, device=device) as pool:    # duplicated contexts, at the same time
    for future in [pool.run_async(picture, outputs="raw") for _ in range(9)]:
        assert np.array_equal(future.result()["logits"], wanted)

random = np.random.default_rng(0)
a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((17, 256), (256, 96)))
with openrknn.Matmul(17, 256, 96, "int8", device=device) as matmul:
    assert np.array_equal(matmul(a, b), a.astype(np.int32) @ b.astype(np.int32))
print("all")
"""


def test_bound_memory_pools_profiles_and_products() -> None:
    library = need_library()
    with own_engine() as variables:
        said = done(sys.executable, "-c", MORE, f"vendor:{library}", MODEL, PICTURE, **variables)
    assert said == "all\n"
