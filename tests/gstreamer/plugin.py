"""Pipelines with the built plugin, run by the program probe.c."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from openrknn.fakekernel.preload import build, host_machine
from openrknn.gstreamer.build import _ANALYTICS, _has, _pkg_config, plugin

__all__ = ["FAKE", "Run", "environment", "gst", "has_elements", "probe", "run"]

FAKE = f"{sys.executable} {Path(__file__).with_name('fake_engine.py')}"
_PATIENCE = 300


@dataclass
class Run:
    """What a pipeline told."""

    text: str
    errors: str
    frames: list[list[str]] = field(default_factory=list)
    """For each frame that reached `out`, its lines about regions and analytics."""

    def line(self, word: str) -> str:
        """The only line that begins with this word."""
        (found,) = (line for line in self.text.splitlines() if line.split(" ", 1)[0] == word)
        return found

    def number(self, name: str) -> int:
        """Of the statistics."""
        found = re.search(rf"\b{name}=\([a-z0-9]+\)(\d+)", self.line("stats"))
        assert found is not None
        return int(found[1])


def gst(*words: str) -> list[str]:
    """Options of pkg-config as a list."""
    return _pkg_config(*words).split()


def probe() -> Path:
    """The program, built if it was not yet."""
    source = Path(__file__).with_name("probe.c")
    modules = ["gstreamer-video-1.0", "gstreamer-app-1.0", "gstreamer-allocators-1.0"]
    flags = ["-g", "-Wall", "-Wextra"]
    if _has(_ANALYTICS):
        modules.append("gstreamer-analytics-1.0")
        flags.append("-DHAVE_ANALYTICS")
    flags += gst("--cflags", "--libs", *modules)
    return build(host_machine(), "probe", [source], flags, source.read_bytes() + repr(flags).encode())


def environment(folder: Path) -> dict[str, str]:
    """Of programs that use the plugin; GStreamer's registry is in the folder."""
    root = Path(__file__).resolve().parents[2]
    return {
        **os.environ,
        "GST_PLUGIN_PATH": str(plugin().parent),
        "GST_REGISTRY": str(folder / "registry.bin"),
        "GST_TRACERS": "leaks",
        "GST_DEBUG": "GST_TRACER:7",
        "GST_DEBUG_NO_COLOR": "1",
        "PYTHONPATH": str(root),
        "OPENRKNN_GST_ENGINE": f"{sys.executable} -m openrknn.gstreamer.engine",
    }


def has_elements(folder: Path, *names: str) -> bool:
    """Whether the elements are installed."""
    done = [
        subprocess.run(["gst-inspect-1.0", name], env=environment(folder), capture_output=True, check=False)
        for name in names
    ]
    return all(one.returncode == 0 for one in done)


def run(folder: Path, pipeline: str, *actions: str) -> Run:
    """Run it in the folder to its end. Nothing may leak, and it must not crash."""
    done = subprocess.run(
        [str(probe()), pipeline, *actions],
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=_PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    leaks = [
        line for line in done.stderr.splitlines() if "object-alive, type-name" in line and "new format" not in line
    ]
    assert not leaks, leaks
    assert "CRITICAL" not in done.stderr, done.stderr
    result = Run(done.stdout, done.stderr)
    for line in done.stdout.splitlines():
        if line.startswith("frame "):
            result.frames.append([])
        elif line.startswith(("region ", "analytics ")):
            result.frames[-1].append(line)
    return result
