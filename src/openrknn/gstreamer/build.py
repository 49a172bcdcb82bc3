"""Building libgstopenrknn.so: from the sources that the package brings, for the GStreamer of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import openrknn
from openrknn.errors import UnsupportedError
from openrknn.fakekernel.preload import build, host_machine, source_folder
from openrknn.gstreamer.wire import ENGINE_NAME

__all__ = ["PLUGIN", "engine_command", "install", "plugin", "problem"]

PLUGIN = "libgstopenrknn.so"
_MODULES = (
    "gstreamer-1.0 >= 1.20", "gstreamer-base-1.0", "gstreamer-video-1.0", "gstreamer-allocators-1.0", "pangocairo",
)  # fmt: skip
_ANALYTICS = "gstreamer-analytics-1.0 >= 1.24"
_DEBIAN = "apt install gcc pkg-config libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev libpango1.0-dev"
_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wl,-z,defs",
    "-Wl,-z,now",
)
"""As native/gstreamer/CMakeLists.txt has them."""


def problem() -> str:
    """Why the plugin cannot be built here; empty if it can."""
    if shutil.which("pkg-config") is None:
        return f"pkg-config is not installed (Debian: {_DEBIAN})"
    missing = [module for module in _MODULES if not _has(module)]
    return f"pkg-config does not find {missing[0]} (Debian: {_DEBIAN})" if missing else ""


def engine_command() -> tuple[str, ...]:
    """What starts the engine of this installation: the script of its environment, or Python itself."""
    script = Path(sys.executable).parent / ENGINE_NAME
    return (str(script),) if script.is_file() else (sys.executable, "-m", "openrknn.gstreamer.engine")


def plugin(extra: tuple[str, ...] = ()) -> Path:
    """The plugin, built if it was not yet. `extra`: more options for the compiler."""
    if why := problem():
        raise UnsupportedError(f"the GStreamer plugin cannot be built: {why}")
    found = source_folder("gstreamer/plugin.c")
    if found is None:
        raise UnsupportedError("the sources of the GStreamer plugin are not installed; install openrknn again")
    folder = found / "gstreamer"
    sources, headers = sorted(folder.glob("*.c")), sorted(folder.glob("*.h"))
    has_analytics = _has(_ANALYTICS)
    modules = (*_MODULES, _ANALYTICS) if has_analytics else _MODULES
    words = (
        *_FLAGS,
        f'-DOPENRKNN_VERSION="{openrknn.__version__}"',
        f'-DOPENRKNN_DEFAULT_ENGINE="{shlex.join(engine_command())}"',
        *(("-DHAVE_ANALYTICS",) if has_analytics else ()),
        *shlex.split(_pkg_config("--cflags", "--libs", *modules)),
        "-lm",
        *extra,
    )
    state = b"".join(path.read_bytes() for path in (*sources, *headers)) + repr(words).encode()
    state += _pkg_config("--modversion", *modules).encode()
    return build(host_machine(), PLUGIN, sources, words, state)


def install(folder: Path) -> Path:
    """Build the plugin and put it into a folder; GStreamer finds it by itself in `places.plugin_folder()`."""
    built = plugin()
    target = folder / PLUGIN
    folder.mkdir(parents=True, exist_ok=True)
    # A pipeline may have the old one open: the name gets another file.
    part = folder / f".{PLUGIN}.{os.getpid()}"
    shutil.copyfile(built, part)
    part.replace(target)
    return target


def _has(module: str) -> bool:
    return subprocess.run(["pkg-config", "--exists", module], check=False).returncode == 0


def _pkg_config(*words: str) -> str:
    return subprocess.run(["pkg-config", *words], capture_output=True, text=True, check=True).stdout
