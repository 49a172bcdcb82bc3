"""DTLN for noise suppression: two nets, a `.rknn` of a step each."""

from __future__ import annotations

from pathlib import Path

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net, find_file, states_of
from openrknn.voice.sets import VoiceSet, write_set

_SPECTRUM = ("dtln_1.onnx", "model_1.onnx", "model_1.tflite")
_WAVE = ("dtln_2.onnx", "model_2.onnx", "model_2.tflite")
"""As they are called here, and in the authors' repository."""


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "dtln", origin: str = "") -> VoiceSet:
    """From a folder with `model_1.onnx` and `model_2.onnx` of the authors."""
    if not source.is_dir():
        raise VoiceSetError(f"{source}: DTLN is two models; give the folder that has {_SPECTRUM[1]} and {_WAVE[1]}")
    files, states = {}, {}
    for role, names in {"spectrum": _SPECTRUM, "wave": _WAVE}.items():
        net = compile_net(find_file(source, *names), folder / f"{role}.rknn", target)
        files[role], states[role] = net.name, states_of(net)
    made = VoiceSet(
        folder, name, "dtln", "denoiser", 16_000, target=target, licence="MIT", source=origin or "DTLN", files=files,
        options={"states": states},
    )  # fmt: skip
    write_set(made)
    return made
