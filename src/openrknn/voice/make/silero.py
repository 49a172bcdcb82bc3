"""Silero's net for voice activity: one `.rknn` of a step."""

from __future__ import annotations

from pathlib import Path

from openrknn.voice.make.nets import compile_net, find_file
from openrknn.voice.sets import VoiceSet, write_set

_FRAME = 576


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "silero-vad", origin: str = "") -> VoiceSet:
    """From `silero_vad_16k_op15.onnx` of the package silero-vad, or a folder that has it."""
    path = find_file(source, "silero_vad_16k_op15.onnx")
    compile_net(path, folder / "vad.rknn", target, constants={"sr": 16_000},
                shapes={"input": (1, _FRAME), "state": (2, 1, 128)})  # fmt: skip
    made = VoiceSet(
        folder, name, "silero", "activity", 16_000, target=target, licence="MIT", source=origin or str(path.name),
        files={"net": "vad.rknn"}, options={"states": {"net": {"stateN": "state"}}},
    )  # fmt: skip
    write_set(made)
    return made
