"""GStreamer's C libraries through ctypes: no PyGObject, which few virtual environments have.

The functions and the two structures here are part of GStreamer's stable ABI of version 1.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from openrknn.video.errors import SourceError

__all__ = ["ERROR", "MapInfo", "VideoMeta", "launch", "library", "message_text"]

ERROR = 1 << 1
"""A type of messages."""


class MapInfo(Structure):
    """GstMapInfo"""

    _fields_ = (
        ("memory", c_void_p), ("flags", c_int), ("data", c_void_p), ("size", c_size_t), ("maxsize", c_size_t),
        ("user_data", c_void_p * 4), ("reserved", c_void_p * 4),
    )  # fmt: skip


class VideoMeta(Structure):
    """GstVideoMeta, as far as it is needed."""

    _fields_ = (
        ("meta_flags", c_int), ("info", c_void_p), ("buffer", c_void_p), ("flags", c_int), ("format", c_int),
        ("id", c_int), ("width", c_uint), ("height", c_uint), ("n_planes", c_uint), ("offset", c_size_t * 4),
        ("stride", c_int * 4),
    )  # fmt: skip


class _Error(Structure):
    """GError"""

    _fields_ = (("domain", c_uint), ("code", c_int), ("message", c_char_p))


_LIBRARIES = ("libgstreamer-1.0.so.0", "libgstapp-1.0.so.0", "libgstvideo-1.0.so.0", "libgstallocators-1.0.so.0",
              "libglib-2.0.so.0", "libgobject-2.0.so.0")  # fmt: skip
_POINTER, _ERRORS = c_void_p, POINTER(POINTER(_Error))
_FUNCTIONS: tuple[tuple[int, str, Any, tuple[Any, ...]], ...] = (
    (0, "gst_init_check", c_int, (_POINTER, _POINTER, _ERRORS)),
    (0, "gst_parse_launch", _POINTER, (c_char_p, _ERRORS)),
    (0, "gst_bin_get_by_name", _POINTER, (_POINTER, c_char_p)),
    (0, "gst_element_factory_find", _POINTER, (c_char_p,)),
    (0, "gst_element_set_state", c_int, (_POINTER, c_int)),
    (0, "gst_element_get_state", c_int, (_POINTER, POINTER(c_int), POINTER(c_int), c_uint64)),
    (0, "gst_element_get_bus", _POINTER, (_POINTER,)),
    (0, "gst_element_get_factory", _POINTER, (_POINTER,)),
    (0, "gst_element_factory_get_metadata", c_char_p, (_POINTER, c_char_p)),
    (0, "gst_bus_timed_pop_filtered", _POINTER, (_POINTER, c_uint64, c_int)),
    (0, "gst_message_parse_error", None, (_POINTER, _ERRORS, POINTER(c_char_p))),
    (0, "gst_mini_object_unref", None, (_POINTER,)),
    (0, "gst_object_unref", None, (_POINTER,)),
    (0, "gst_object_get_name", _POINTER, (_POINTER,)),
    (0, "gst_sample_get_buffer", _POINTER, (_POINTER,)),
    (0, "gst_sample_get_caps", _POINTER, (_POINTER,)),
    (0, "gst_caps_get_structure", _POINTER, (_POINTER, c_uint)),
    (0, "gst_structure_get_string", c_char_p, (_POINTER, c_char_p)),
    (0, "gst_structure_get_int", c_int, (_POINTER, c_char_p, POINTER(c_int))),
    (0, "gst_buffer_n_memory", c_uint, (_POINTER,)),
    (0, "gst_buffer_peek_memory", _POINTER, (_POINTER, c_uint)),
    (0, "gst_buffer_get_size", c_size_t, (_POINTER,)),
    (0, "gst_buffer_find_memory", c_int,
        (_POINTER, c_size_t, c_size_t, POINTER(c_uint), POINTER(c_uint), POINTER(c_size_t))),
    (0, "gst_memory_map", c_int, (_POINTER, POINTER(MapInfo), c_int)),
    (0, "gst_memory_unmap", None, (_POINTER, POINTER(MapInfo))),
    (0, "gst_memory_get_sizes", c_size_t, (_POINTER, POINTER(c_size_t), POINTER(c_size_t))),
    (0, "gst_bin_iterate_recurse", _POINTER, (_POINTER,)),
    (0, "gst_iterator_next", c_int, (_POINTER, _POINTER)),
    (0, "gst_iterator_free", None, (_POINTER,)),
    (1, "gst_app_sink_try_pull_sample", _POINTER, (_POINTER, c_uint64)),
    (1, "gst_app_sink_is_eos", c_int, (_POINTER,)),
    (2, "gst_buffer_get_video_meta", POINTER(VideoMeta), (_POINTER,)),
    (3, "gst_is_dmabuf_memory", c_int, (_POINTER,)),
    (3, "gst_dmabuf_memory_get_fd", c_int, (_POINTER,)),
    (4, "g_error_free", None, (POINTER(_Error),)),
    (4, "g_free", None, (_POINTER,)),
    (5, "g_value_get_object", _POINTER, (_POINTER,)),
    (5, "g_value_reset", _POINTER, (_POINTER,)),
)  # fmt: skip


class _Library:
    """The functions as attributes."""

    def __init__(self) -> None:
        loaded = [ctypes.CDLL(name) for name in _LIBRARIES]
        for place, name, result, arguments in _FUNCTIONS:
            function = getattr(loaded[place], name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@functools.cache
def library() -> _Library:
    """GStreamer, ready to use; `SourceError` where it is not installed."""
    try:
        found = _Library()
    except (OSError, AttributeError) as error:
        raise SourceError(
            f"GStreamer's libraries are not here ({error}); Debian: apt install libgstreamer-plugins-base1.0-0 "
            "gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
        ) from None
    problem = POINTER(_Error)()
    if not found.gst_init_check(None, None, ctypes.byref(problem)):
        raise SourceError(f"GStreamer does not start: {_error_text(problem)}")
    return found


def _error_text(problem: Any) -> str:
    """The message of a GError, which is freed."""
    if not problem:
        return "no reason given"
    text = (problem.contents.message or b"").decode(errors="replace")
    library().g_error_free(problem)
    return text


def message_text(message: int) -> str:
    """The words of a message of the type error, which is released."""
    lib = library()
    problem, details = POINTER(_Error)(), c_char_p()
    lib.gst_message_parse_error(message, ctypes.byref(problem), ctypes.byref(details))
    more = (details.value or b"").decode(errors="replace")
    lib.g_free(ctypes.cast(details, c_void_p))
    lib.gst_mini_object_unref(message)
    return f"{_error_text(problem)}\n{more}"


def launch(text: str) -> int:
    """A pipeline from its description."""
    problem = POINTER(_Error)()
    pipeline = library().gst_parse_launch(text.encode(), ctypes.byref(problem))
    if bool(problem) or not pipeline:  # a pointer: false where it is NULL
        if pipeline:
            library().gst_object_unref(pipeline)
        raise SourceError(f"gst: {_error_text(problem)}; `gst-inspect-1.0` lists the elements that are installed")
    return int(pipeline)
