"""Error codes become exceptions that say what, why and what to do."""

from __future__ import annotations

import pytest

from openrknn.errors import RknnError, UnsupportedError, VendorError
from openrknn.vendor import CallError, CallMemoryError, CallTimeoutError, ClosedError, Context, LibraryNotFoundError
from openrknn.vendor.errors import call_error
from openrknn.vendor.tables.codes import CODES, explain
from openrknn.vendor.tables.versions import Version
from tests.vendor.recording import Recorder

V232, V250 = Version(2, 3, 2), Version(2, 5)


@pytest.mark.parametrize("entry", [entry for entry in CODES.values() if entry.code], ids=lambda entry: entry.name)
def test_every_code_is_explained(entry: object) -> None:
    from openrknn.vendor.tables.codes import ErrorCode

    assert isinstance(entry, ErrorCode)
    for text in (entry.meaning, entry.cause, entry.remedy):
        assert len(text) > 10
        assert not text.endswith(".")
    version = V250 if entry.name.startswith(("RKNN_ERR_KEY", "RKNN_ERR_DEC", "RKNN_ERR_SOC")) else V232
    error = call_error("rknn_init", entry.code, version, "model.rknn")
    assert (error.code, error.name, error.call) == (entry.code, entry.name, "rknn_init")
    assert (error.meaning, error.cause, error.remedy) == (entry.meaning, entry.cause, entry.remedy)
    start = f"rknn_init returned {entry.code} {entry.name} (model.rknn): {entry.meaning}; likely {entry.cause}"
    assert str(error).startswith(start)
    assert str(error).endswith(entry.remedy)
    assert isinstance(error, VendorError)


def test_the_codes_of_the_reference_are_all_there() -> None:
    assert {entry.code for entry in CODES.values()} == set(range(-16, 1))
    assert len(CODES) == 18


def test_minus_14_means_two_things() -> None:
    assert explain(-14, "rknn_init", V250).name == "RKNN_ERR_KEY_INVALID"
    assert explain(-14, "rknn_run", V250).name == "RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE"
    assert explain(-14, "rknn_init", V232).name == "RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE"


def test_an_unknown_code_is_still_an_error() -> None:
    error = call_error("rknn_run", -99, V232)
    assert (error.code, error.name) == (-99, "RKNN_ERR_99")
    assert "no known header names" in str(error)


def test_python_knows_timeouts_and_full_memories() -> None:
    assert isinstance(call_error("rknn_run", -2, V232), TimeoutError)
    assert isinstance(call_error("rknn_run", -2, V232), CallTimeoutError)
    assert isinstance(call_error("rknn_init", -4, V232), MemoryError)
    assert isinstance(call_error("rknn_init", -4, V232), CallMemoryError)


def test_the_tree() -> None:
    assert issubclass(CallError, VendorError)
    assert issubclass(ClosedError, RknnError)
    assert issubclass(ClosedError, ValueError)
    assert issubclass(LibraryNotFoundError, UnsupportedError)


@pytest.mark.parametrize("code", range(-16, 0))
def test_codes_of_a_run(recorder: Recorder, context: Context, code: int) -> None:
    recorder.fail("rknn_run", code)
    with pytest.raises(CallError, match=rf"rknn_run returned {code} RKNN_") as caught:
        context.run()
    assert caught.value.code == code
    context.run()  # the context is as good as before
