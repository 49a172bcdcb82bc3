"""Our execution provider inside the unmodified onnxruntime (1.23.1 and newer): its plug-in interface.

    import onnxruntime as ort
    from openrknn.onnxruntime import plugin

    plugin.register()
    options = ort.SessionOptions()
    options.add_provider_for_devices(plugin.devices(), {"target": "rk3588"})
    session = ort.InferenceSession("model.onnx", options)

ONNX Runtime splits the graph then, and runs what the NPU leaves. Options are those of `openrknn.onnxruntime`.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.onnxruntime import plugin_host
from openrknn.onnxruntime.real import RKNN, onnxruntime

PROVIDER = RKNN
"""What sessions call it."""
LIBRARY_NAME = "libopenrknn_ort.so"
OLDEST = (1, 23, 1)
"""1.22 has the plug-in interface without what a compiling provider needs; 1.23.0 asks for copies between its
memory and the processor's, which is the same."""
_WITH_NPU = (1, 24, 0)
"""Since then a library may bring a device of its own, where its registration is called so:"""
_VIRTUAL = ".virtual"
_LOCK = threading.Lock()
_REGISTERED: list[str] = []
"""The name under which ONNX Runtime knows it, if it does."""


def library() -> Path:
    """The library that ONNX Runtime loads; C and C++ programs give its path to RegisterExecutionProviderLibrary."""
    folders = sys.modules["openrknn"].__path__  # an editable install has two: the sources and the built files
    for folder in folders:
        found = Path(folder, "_native", LIBRARY_NAME)
        if found.is_file():
            return found
    raise UnsupportedError(
        f"{LIBRARY_NAME} is not in this installation: install openrknn on Linux with a C compiler and CMake"
    )


def register(name: str = "openrknn") -> None:
    """Make the provider known to ONNX Runtime. Calling it again does nothing.

    From ONNX Runtime 1.24 on its device is an NPU, so `set_provider_selection_policy(PREFER_NPU)` takes it too.
    """
    with _LOCK:
        if _REGISTERED:
            return
        runtime = _runtime()
        if _version() >= _WITH_NPU and not name.endswith(_VIRTUAL):
            name += _VIRTUAL
        path = library()
        plugin_host.attach(path)
        runtime.register_execution_provider_library(name, str(path))
        _REGISTERED.append(name)


def unregister() -> None:
    """Take it back. Sessions that use it have to be gone."""
    with _LOCK:
        if _REGISTERED:
            _runtime().unregister_execution_provider_library(_REGISTERED[0])
            _REGISTERED.clear()


def is_registered() -> bool:
    """Whether `register` was called."""
    return bool(_REGISTERED)


def devices() -> list[Any]:
    """For `SessionOptions.add_provider_for_devices`: the one device, whatever it is that runs the parts."""
    register()
    found = [device for device in _runtime().get_ep_devices() if device.ep_name == PROVIDER]
    return found[:1]


def _runtime() -> Any:
    if _version() < OLDEST or not hasattr(onnxruntime, "register_execution_provider_library"):
        raise UnsupportedError(
            f"onnxruntime {onnxruntime.__version__} cannot load execution providers that compile; it needs "
            f"{'.'.join(map(str, OLDEST))} or newer. openrknn.onnxruntime.InferenceSession works with any version"
        )
    return onnxruntime


def _version() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(onnxruntime.__version__))[:3])
