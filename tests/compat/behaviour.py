"""Constants, methods and what they return: table A.1 and A.2 of the facts about the vendor's wheel."""

from __future__ import annotations

import logging

import numpy as np

from tests.compat.lab import Lab, listening

PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)


def check_constants(lab: Lab) -> None:
    from rknnlite.api import RKNNLite

    named = {name: value for name, value in vars(RKNNLite).items() if name.startswith("NPU_CORE")}
    assert named == {
        "NPU_CORE_AUTO": 0,
        "NPU_CORE_0": 1,
        "NPU_CORE_1": 2,
        "NPU_CORE_2": 4,
        "NPU_CORE_0_1": 3,
        "NPU_CORE_0_1_2": 7,
        "NPU_CORE_ALL": 0xFFFF,
    }


def check_load_returns_0_or_minus_1(lab: Lab) -> None:
    lite = lab.new()
    assert lite.load_rknn(lab.model("image_rk3588_i8")) == 0
    assert bytes(lite.rknn_data[:4]) == b"RKNN"
    with listening(lite) as heard:
        assert lite.load_rknn("not/there.rknn") == -1
        assert lite.load_rknn(str(lab.goldens)) == -1
    assert "Invalid RKNN model path: not/there.rknn" in heard.text()
    assert "Catch exception when loading RKNN model" in heard.text()


def check_load_of_none_raises(lab: Lab) -> None:
    try:
        lab.new().load_rknn(None)
    except TypeError:
        return
    raise AssertionError("no TypeError")


def check_garbage_loads_but_does_not_start(lab: Lab) -> None:
    lite = lab.new()
    path = lab.folder / "garbage.rknn"
    for content in (b"hello" * 100, b""):
        path.write_bytes(content)
        assert lite.load_rknn(str(path)) == 0
        with listening(lite) as heard:
            assert lite.init_runtime() == -1
        assert "Catch exception when init runtime!" in heard.text()


def check_before_loading(lab: Lab) -> None:
    lite = lab.new()
    with listening(lite) as heard:
        assert lite.init_runtime() == -1
    assert "Model is not loaded yet, this interface should be called after load_rknn!" in heard.text()


def check_before_init(lab: Lab) -> None:
    lite = lab.new()
    lite.load_rknn(lab.model("image_rk3588_i8"))
    with listening(lite) as heard:
        assert lite.inference([PICTURE]) is None
        assert lite.get_sdk_version() is None
    assert heard.text().count("Runtime environment is not inited, please call init_runtime") == 2


def check_core_masks(lab: Lab) -> None:
    lite = lab.new()
    lite.load_rknn(lab.model("image_rk3588_i8"))
    outputs = []
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        assert lite.init_runtime(core_mask=mask) == 0, mask
        outputs.append(lite.inference([PICTURE])[0])
    assert all((output == outputs[0]).all() for output in outputs)
    for wrong in (5, 6, 8, -1, None):
        with listening(lite) as heard:
            assert lite.init_runtime(core_mask=wrong) == -1, wrong
        assert f"The core mode {wrong} is not supported currently." in heard.text()


def check_single_core_model_takes_every_mask(lab: Lab) -> None:
    for mask in (1, 4, 7):
        lab.open("residual_rk3588_i8_single_core", core_mask=mask).release()


def check_target_is_refused(lab: Lab) -> None:
    lite = lab.new()
    lite.load_rknn(lab.model("image_rk3588_i8"))
    with listening(lite) as heard:
        assert lite.init_runtime(target="RK3588") == -1
    assert "Catch exception when init runtime!" in heard.text()


def check_a_model_without_weights_does_not_crash(lab: Lab) -> None:
    lite = lab.new()
    lite.load_rknn(lab.model("residual_rk3588_i8_no_weights"))
    assert lite.init_runtime() in (0, -1)


def check_inference_returns_float32_in_the_original_shape(lab: Lab) -> None:
    for name in ("image_rk3588_i8", "image_rk3588_fp"):
        golden, lite = lab.golden(name), lab.open(name)
        outputs = lite.inference(inputs=[golden["x0"]])
        assert isinstance(outputs, list)
        assert [(output.dtype, output.shape) for output in outputs] == [(np.dtype(np.float32), (1, 16, 16, 16))]
        assert outputs[0].flags.c_contiguous
        assert outputs[0].flags.writeable
        assert np.abs(outputs[0] - golden["o0"]).max() < 0.04  # the simulator is not the NPU: two steps of int8
        lab.save(name, outputs)


def check_outputs_belong_to_the_caller(lab: Lab) -> None:
    lite = lab.open("image_rk3588_i8")
    first = lite.inference([PICTURE])[0]
    kept = first.copy()
    second = lite.inference([255 - PICTURE])[0]
    assert (first == kept).all()
    assert not (first == second).all()
    assert not np.shares_memory(first, second)


def check_reuse_outputs_gives_views_of_the_same_memory(lab: Lab) -> None:
    lite = lab.open("image_rk3588_i8")
    first, second = (lite.inference([picture], reuse_outputs=True)[0] for picture in (PICTURE, 255 - PICTURE))
    assert np.shares_memory(first, second)
    assert not first.flags.owndata
    assert (second == lite.inference([255 - PICTURE])[0]).all()


def check_frame_ids_follow_the_outputs(lab: Lab) -> None:
    lite = lab.open("two_outputs_rk3588_i8")
    x = lab.golden("two_outputs_rk3588_i8")["x0"]
    results = lite.inference([x], data_format="nchw", get_frame_id=True)
    assert len(results) == 4
    assert all(isinstance(number, int) for number in results[2:])


def check_sdk_version_is_five_lines(lab: Lab) -> None:
    text = lab.open("image_rk3588_i8").get_sdk_version()
    lines = text.split("\n")
    assert lines[0] == lines[4] == "=" * 46
    assert lines[1] == "RKNN VERSION:"
    assert lines[2].startswith("  API: ")
    assert lines[3].startswith("  DRV: ")
    # As a program takes it apart.
    number = lines[2].split(": ")[1].split(" ")[0]
    assert all(part.isdigit() for part in number.split("."))
    assert lines[3].split(": ")[1]


def check_supported_platforms(lab: Lab) -> None:
    lite = lab.new()
    found = lite.list_support_target_platform(rknn_model=lab.model("image_rk3566_i8"))
    assert list(found) == ["filled_target_platform", "support_target_platform"]
    assert dict(found) == {"filled_target_platform": ["rk3566"], "support_target_platform": ["RK3566", "RK3568"]}
    assert lite.list_support_target_platform(lab.model("image_rk3588_i8"))["support_target_platform"] == ["RK3588"]
    assert lite.list_support_target_platform() is None


def check_release_can_be_repeated(lab: Lab) -> None:
    lite = lab.open("image_rk3588_i8")
    assert lite.release() is None
    assert lite.release() is None
    assert lite.rknn_runtime is None
    assert lite.inference([PICTURE]) is None
    assert lite.init_runtime() == 0
    assert lite.inference([PICTURE]) is not None


def check_verbose_wants_a_file(lab: Lab) -> None:
    path = lab.folder / "verbose.log"
    level = lab.new().rknn_log.logger.level
    lite = lab.new(verbose=True, verbose_file=str(path))
    lite.release()
    lite.rknn_log.logger.setLevel(level)
    assert "Save log info to" in path.read_text()


def check_attributes_in_use_elsewhere(lab: Lab) -> None:
    lite = lab.open("image_rk3588_i8")
    assert isinstance(lite.rknn_log.logger, logging.Logger)
    assert lite.rknn_log.logger.name == "acuityLogger"
    assert isinstance(lite.target, str)
    assert lite.verbose is False
    assert isinstance(lite.root_dir, str)
    assert type(lite.rknn_runtime).__name__ == "RKNNRuntime"
