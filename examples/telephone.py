"""Which keys were pressed? A 1-D model on the NPU listens to the tones of a telephone.

    python examples/telephone.py                        dial a number, with some noise, and hear it
    python examples/telephone.py recording.wav          8 kHz, 16 bit, mono

Each key sounds two tones, one for its row and one for its column. The model gives the power of all eight tones in each
frame of 256 samples; NumPy only cuts the frames and compares the powers.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np

from openrknn import Session

MODEL = Path(__file__).parent / "models" / "tones_rk3588_fp.rknn"
RATE_HZ = 8000
ROWS_HZ, COLUMNS_HZ = (697, 770, 852, 941), (1209, 1336, 1477, 1633)
KEYS = ("123A", "456B", "789C", "*0#D")
STEP_SAMPLES = 160
"""Frames overlap, so that every key has some frames for itself."""
QUIET = 0.02
"""A tone of an amplitude below 0.14 is none."""


def dialled(number: str) -> np.ndarray:
    """The sound of a number: 80 ms of tone and 40 ms of pause per key, and noise over all of it."""
    time = np.arange(640) / RATE_HZ
    sounds = []
    for key in number:
        row = next(row for row in range(4) if key in KEYS[row])
        column = KEYS[row].index(key)
        tones = np.sin(2 * np.pi * ROWS_HZ[row] * time) + np.sin(2 * np.pi * COLUMNS_HZ[column] * time)
        sounds += [0.4 * tones, np.zeros(320)]
    sound = np.concatenate(sounds)
    return sound + np.random.default_rng(0).normal(0, 0.05, len(sound))


def recorded(path: str) -> np.ndarray:
    """The samples of a WAV file, from -1 to 1."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE_HZ, 2, 1):
            raise SystemExit(f"{path}: 8000 Hz, 16 bit, one channel is needed")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def heard(session: Session, sound: np.ndarray) -> str:
    """The keys, one after the other."""
    _, samples, batch = session.inputs[0].shape
    starts = range(0, max(len(sound) - samples, 0) + 1, STEP_SAMPLES)
    frames = [np.pad(sound[start : start + samples], (0, max(samples - len(sound) + start, 0))) for start in starts]
    keys = ""
    for first in range(0, len(frames), batch):
        part = frames[first : first + batch]
        columns = np.zeros((1, samples, batch), np.float32)
        columns[0, :, : len(part)] = np.array(part).T
        powers = session.run({"frames": columns})["tones"][0, :, : len(part)]
        keys += "".join(key_of(frame) for frame in powers.T)
    # A key lasts for several frames, and a pause is between two presses of the same key.
    folded = [key for place, key in enumerate(keys) if place == 0 or keys[place - 1] != key]
    return "".join(folded).replace(".", "")


def key_of(powers: np.ndarray) -> str:
    """The key with the strongest tone of each kind, or a dot for silence."""
    row, column = int(powers[:4].argmax()), int(powers[4:].argmax())
    return KEYS[row][column] if min(powers[row], powers[4 + column]) > QUIET else "."


def main() -> None:
    """Listen to a file, or to a number that is dialled here."""
    with Session(MODEL) as session:
        if len(sys.argv) > 1:
            print(heard(session, recorded(sys.argv[1])))
            return
        number = "0800#15774*"
        print(f"dialled {number}")
        print(f"heard   {heard(session, dialled(number))}   ({session.device.name})")


if __name__ == "__main__":
    main()
