"""Where ours is better than the vendor's wheel, on purpose. docs/rknnlite.md lists these for users."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from openrknn.errors import FormatError
from rknnlite.api import RKNNLite
from tests.compat.lab import Lab, listening, refuses

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)
MODEL = "image_rk3588_i8"

STATE_OF_LOGGING = """
import json, logging
def state():
    root = logging.getLogger()
    return [
        [logging.getLevelName(level) for level in (10, 20, 30, 40, 50)], root.level, len(root.handlers),
        logging.root.manager.disable, logging.raiseExceptions, logging.getLoggerClass().__name__,
        logging.getLevelName("INFO"), logging.lastResort is None,
    ]
before = state()
from rknnlite.api import RKNNLite
lite = RKNNLite()
lite.load_rknn("nothing")
after = state()
logging.getLogger("mine").setLevel("INFO")
print(json.dumps([before, after, len(lite.rknn_log.logger.handlers), lite.rknn_log.logger.propagate]))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(GOLDENS, tmp_path)


def test_import_leaves_the_logging_of_the_process_alone() -> None:
    result = subprocess.run([sys.executable, "-c", STATE_OF_LOGGING], capture_output=True, text=True, check=True)
    before, after, handlers, propagates = json.loads(result.stdout)
    assert before == after
    assert (handlers, propagates) == (0, True)
    assert "Invalid RKNN model path: nothing" in result.stderr  # Python's last resort: reasons are never lost


def test_a_quiet_logger_stays_quiet(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lite = lab.open(MODEL)
    planes = PICTURE.transpose(0, 3, 1, 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert lite.inference([planes], data_format="nchw") is not None
    assert caplog.records == []


def test_errors_come_out_when_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lite = lab.open(MODEL)
    monkeypatch.setenv("OPENRKNN_LITE_RAISE", "1")
    with pytest.raises(ValueError, match="need 4dims input"):
        lite.inference([PICTURE[0, 0]])
    with pytest.raises(FileNotFoundError):
        lite.load_rknn("not/there.rknn")
    with pytest.raises(RuntimeError, match="not loaded yet"):
        RKNNLite().init_runtime()
    (lab.folder / "garbage.rknn").write_bytes(b"\x89PNG" + bytes(100))
    other = RKNNLite()
    other.load_rknn(lab.folder / "garbage.rknn")
    with pytest.raises(FormatError, match="a PNG picture"):
        other.init_runtime()
    monkeypatch.setenv("OPENRKNN_LITE_RAISE", "0")
    assert lite.inference([PICTURE[0, 0]]) is None


def test_reasons_are_in_the_log(lab: Lab) -> None:
    (lab.folder / "page.rknn").write_bytes(b"<!DOCTYPE html>" + bytes(100))
    lite = RKNNLite()
    lite.load_rknn(lab.folder / "page.rknn")
    with listening(lite) as heard:
        assert lite.init_runtime() == -1
    assert "a web page: was the download a log-in page?" in heard.text()


@pytest.mark.parametrize("name", ["int16", "uint16", "uint32"])
def test_types_that_the_vendors_runtime_cannot_convert(lab: Lab, name: str) -> None:
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    assert (lite.inference([PICTURE.astype(name)])[0] == expected).all()


def test_too_many_elements_are_refused_not_cut_off(lab: Lab) -> None:
    refuses(lab.open(MODEL), "3072 elements > 768", [np.zeros((1, 32, 32, 3), np.uint8)])
    refuses(lab.open("image_rk3588_i8_batch2"), "768 elements < 1536", [PICTURE])


@pytest.mark.parametrize("data_format", ["nhwc", "nchw"])
def test_a_picture_without_its_batch_is_taken_with_one_warning(lab: Lab, data_format: str) -> None:
    """As wheels up to 1.4.0 did; those from 1.5 on refuse it."""
    picture = PICTURE if data_format == "nhwc" else PICTURE.transpose(0, 3, 1, 2)
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])
    assert expected is not None
    with listening(lite) as heard:
        for _ in range(3):
            found = lite.inference([picture[0]], data_format=data_format)
            assert found is not None
            assert np.array_equal(found[0], expected[0])
    assert heard.text(logging.WARNING).count("has 3 dimensions and is taken as one picture") == 1


def test_a_wrong_order_of_dimensions_is_pointed_out(lab: Lab) -> None:
    lite = lab.open(MODEL)
    with listening(lite) as heard:
        lite.inference([PICTURE.transpose(0, 3, 1, 2)])
    assert "Is data_format right?" in heard.text(logging.WARNING)


def test_what_an_input_means_does_not_depend_on_the_one_before(lab: Lab) -> None:
    stored = PICTURE.view(np.int8)
    expected = lab.open(MODEL).inference([stored], inputs_pass_through=[1])[0]
    lite = lab.open(MODEL)
    lite.inference([PICTURE])
    assert (lite.inference([stored], inputs_pass_through=[1])[0] == expected).all()
    assert (lite.inference([stored])[0] == expected).all()


def test_core_masks_of_other_chips(lab: Lab) -> None:
    lite = lab.open("image_rk3566_i8")
    with listening(lite) as heard:
        assert lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0) == -1
    assert "only supported by ['RK3588', 'RK3576']" in heard.text()
    assert "RK3566, which has one core" in heard.text()
    lite = lab.open("conv_rk3576_i8", core_mask=RKNNLite.NPU_CORE_0_1)
    assert lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1_2) == -1
    assert lite.init_runtime(core_mask=RKNNLite.NPU_CORE_ALL) == 0


def test_platforms_of_files_that_the_vendor_stumbles_over(lab: Lab) -> None:
    lite = RKNNLite()
    found = lite.list_support_target_platform(lab.model("residual_rv1106_i8"))
    assert found is not None
    assert found["support_target_platform"] == ["RV1106", "RV1103"]
    assert lite.list_support_target_platform("not/there.rknn") is None
    (lab.folder / "garbage.rknn").write_bytes(b"hello")
    assert lite.list_support_target_platform(lab.folder / "garbage.rknn") is None


def test_other_chips_run_too(lab: Lab) -> None:
    golden = lab.golden("image_rk3566_i8")
    outputs = lab.open("image_rk3566_i8").inference([golden["x0"]])
    assert np.abs(outputs[0] - golden["o0"]).max() < 0.04


def test_the_environment_chooses_the_device(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another session of the same file is open, whose weights would be shared."""
    other = lab.open(MODEL)
    monkeypatch.setenv("OPENRKNN_DEVICE", "software:rk3588")
    lite = lab.open(MODEL)
    assert "DRV: software:rk3588" in lite.get_sdk_version()
    monkeypatch.setenv("OPENRKNN_DEVICE", "toaster")
    with listening(lite) as heard:
        assert lite.init_runtime() == -1
    assert "no device is called 'toaster'" in heard.text()
    monkeypatch.setenv("OPENRKNN_DEVICE", "/run/folder-of-openrknn-exec")
    assert lite.init_runtime() == 0
    other.release()


def test_runtimes_of_one_file_share_its_weights(lab: Lab) -> None:
    path = lab.folder / "model.rknn"  # a file of its own: others may still use the golden
    path.write_bytes(Path(lab.model(MODEL)).read_bytes())
    lab = Lab(lab.folder, lab.folder)
    pool = [lab.open("model", core_mask=mask) for mask in (1, 2, 4)]
    sessions = [lite.rknn_runtime.session for lite in pool]
    assert [session.memory().weight_users for session in sessions] == [3, 3, 3]
    assert pool[0].rknn_data is pool[2].rknn_data
    expected = pool[0].inference([PICTURE])[0]
    pool[0].release()
    assert all((lite.inference([PICTURE])[0] == expected).all() for lite in pool[1:])
    assert sessions[1].memory().weight_users == 2


def test_a_changed_file_is_another_model(lab: Lab) -> None:
    path = lab.folder / "model.rknn"
    path.write_bytes(Path(lab.model(MODEL)).read_bytes())
    lites = [RKNNLite(), RKNNLite()]
    assert lites[0].load_rknn(path) == 0
    path.write_bytes(Path(lab.model("image_rk3588_i8_layer")).read_bytes())
    assert lites[1].load_rknn(path) == 0
    assert lites[0].rknn_data != lites[1].rknn_data


def test_a_runtime_that_is_dropped_gives_its_memory_back(lab: Lab) -> None:
    lite = lab.open(MODEL)
    session = weakref.ref(lite.rknn_runtime.session)
    del lite
    gc.collect()
    assert session() is None


def test_runtimes_work_in_several_threads_at_once(lab: Lab) -> None:
    pictures = [np.roll(PICTURE, shift) for shift in range(6)]
    expected = [lab.open(MODEL).inference([picture])[0] for picture in pictures]
    one = lab.open(MODEL)  # one runtime for several threads is allowed as well
    wrong: list[int] = []

    def work(lite: RKNNLite, index: int) -> None:
        for _ in range(10):
            outputs = lite.inference([pictures[index]])
            if outputs is None or not (outputs[0] == expected[index]).all():
                wrong.append(index)

    lites = [lab.open(MODEL, core_mask=mask) for mask in (1, 2, 4)] + [one] * 3
    threads = [threading.Thread(target=work, args=(lite, index)) for index, lite in enumerate(lites)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_encrypted_models_say_who_can_open_them(lab: Lab) -> None:
    lite = RKNNLite()
    with listening(lite) as heard:
        assert lite.load_rknn(lab.model(MODEL), key_path="key") == -1
    assert "only the vendor's runtime can open encrypted models" in heard.text()
