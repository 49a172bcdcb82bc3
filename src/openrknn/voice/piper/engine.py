"""The stages of a voice, one after the other: numbers of phonemes in, sound out, a window at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn.runtime.session import Session
from openrknn.voice.errors import PhonemeError, VoiceSetError
from openrknn.voice.piper.windows import windows_of
from openrknn.voice.products.graph import cpu_session
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net
from openrknn.voice.talkers import Scales

Floats = npt.NDArray[np.float32]


class Engine(Protocol):
    """Numbers of phonemes to sound."""

    longest: int
    """Numbers that a sentence may have."""

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator
    ) -> Iterator[Floats]:  # fmt: skip
        """Pieces of sound, in order."""

    def close(self) -> None:
        """Let go of the networks."""


def open_engine(voice: VoiceSet, device: str = "auto") -> Engine:
    """What the set was made for: stages on the NPU, or the whole graph in parts."""
    return WholeEngine(voice, device) if "whole" in voice.files else StagedEngine(voice, device)


@dataclass
class Noise:
    """Chance, given; None is drawn when it is needed."""

    durations: Floats | None = None
    latent: Floats | None = None


@dataclass
class StagedEngine:
    """Text encoder, flow and decoder on the NPU; durations and lengths on the CPU.

    A set that was made `exact` has its text encoder on the CPU, too: its durations are the float model's.
    """

    voice: VoiceSet
    device: str = "auto"
    times: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage since the voice was opened."""

    def __post_init__(self) -> None:
        options = _Options(self.voice)
        self.texts, self.flows, self.decodes = (options.sizes(key) for key in ("texts", "flows", "decodes"))
        self.flow_reach, self.decoder_reach = options.whole("flow_reach"), options.whole("decoder_reach")
        self.hop, self.channels = options.whole("hop", 1), options.whole("channels", 1)
        self.longest = self.texts[-1]
        self._stack = ExitStack()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    def _open(self) -> None:
        self.embedding = _table(self.voice.file("embedding"))
        self.speakers = _table(self.voice.file("speakers")) if "speakers" in self.voice.files else None
        self._durations = cpu_session(self.voice.file("durations"))
        self._wants = {entry.name for entry in self._durations.get_inputs()}
        is_float = "float_encoder" in self.voice.files
        self._encoder = cpu_session(self.voice.file("float_encoder")) if is_float else None
        nets: dict[str, Session] = {}
        for role in ("flow", "decoder") if is_float else ("encoder", "flow", "decoder"):
            nets[role] = self._stack.enter_context(open_net(self.voice, role, self.device))
        self._nets = nets

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator, noise: Noise | None = None
    ) -> Iterator[Floats]:  # fmt: skip
        """`noise` is for comparisons with other programs."""
        noise = noise or Noise()
        row = {} if self.speakers is None else {"speaker": self.speakers[speaker][None]}
        hidden, mean, logs = self.encode(ids)
        drawn = noise.durations
        if drawn is None:
            drawn = random.standard_normal((1, 2, len(ids)), np.float32)
        frames = self.durations(hidden, scales, drawn, row)
        total = int(frames.sum())
        latent_noise = noise.latent
        if latent_noise is None:
            latent_noise = random.standard_normal((1, self.channels, total), np.float32)
        latent = regulate(mean, logs, frames, latent_noise, scales.noise)
        z = self.flow(latent, row)
        yield from self.decode(z, row)

    def encode(self, ids: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        """(hidden, mean, logs) of the phonemes."""
        count = len(ids)
        size = next((size for size in self.texts if size >= count), None)
        if size is None:
            raise ValueError(f"{count} numbers at once; this voice was made for {self.longest}")
        if self._encoder is not None:
            size = count  # in float, on the CPU, which takes any length
        embedded = np.zeros((1, size, self.embedding.shape[1]), np.float32)
        embedded[0, :count] = self.embedding[np.asarray(ids, np.int64)]
        mask = np.zeros((1, 1, size), np.float32)
        mask[..., :count] = 1
        made = self._encoded({"embedded": embedded, "mask": mask})
        hidden, mean, logs = (made[name].reshape(1, -1, size)[:, :, :count] for name in ("hidden", "mean", "logs"))
        return hidden, mean, logs

    def _encoded(self, feed: dict[str, Floats]) -> dict[str, Floats]:
        if self._encoder is None:
            return self._run("encoder", feed)
        start = perf_counter()
        names = ["hidden", "mean", "logs"]
        made = dict(zip(names, self._encoder.run(names, feed), strict=True))
        self._count("encoder", start)
        return made

    def durations(
        self, hidden: Floats, scales: Scales, noise: Floats, row: dict[str, Floats]
    ) -> npt.NDArray[np.int64]:  # fmt: skip
        """Frames of each phoneme."""
        count = hidden.shape[2]
        feed = {
            "hidden": np.ascontiguousarray(hidden),
            "mask": np.ones((1, 1, count), np.float32),
            "scales": np.array([scales.noise, scales.length, scales.noise_w], np.float32),
            "noise": noise,
            **row,
        }
        start = perf_counter()
        made = self._durations.run(None, {name: value for name, value in feed.items() if name in self._wants})[0]
        self._count("durations", start)
        return whole_frames(made, count)

    def flow(self, latent: Floats, row: dict[str, Floats]) -> Floats:
        """The latent of the prior to that of the decoder, [1, C, F]."""
        total = latent.shape[2]
        z = np.zeros_like(latent)
        for window in windows_of(total, self.flows, self.flow_reach, masked=True):
            piece = _piece(latent, window.start, window.size)
            feed = {"latent": piece, "mask": _mask(total, window.start, window.size), **row}
            made = self._run("flow", feed)["z"].reshape(piece.shape)
            kept = slice(window.first - window.start, window.last - window.start)
            z[:, :, window.first : window.last] = made[:, :, kept]
        return z

    def decode(self, z: Floats, row: dict[str, Floats]) -> Iterator[Floats]:
        """Sound, a window at a time."""
        for window in windows_of(z.shape[2], self.decodes, self.decoder_reach):
            made = self._run("decoder", {"z": _piece(z, window.start, window.size), **row})["samples"].reshape(-1)
            first, last = window.first - window.start, window.last - window.start
            yield np.array(made[first * self.hop : last * self.hop], np.float32)

    def _run(self, role: str, feed: dict[str, Floats]) -> dict[str, Floats]:
        start = perf_counter()
        net = self._nets[role]
        # A voice of one speaker has no input for it, and a net may not need all that is known.
        wanted = {entry.name for entry in net.inputs}
        made = net.run({name: value for name, value in feed.items() if name in wanted})
        self._count(role, start)
        return {name: np.asarray(value, np.float32) for name, value in made.items()}

    def _count(self, role: str, start: float) -> None:
        self.times[role] = self.times.get(role, 0.0) + perf_counter() - start

    def close(self) -> None:
        """Let go of the networks."""
        self._stack.close()


class WholeEngine:
    """A graph that was not known: all of it, in parts, with its own chance."""

    longest = 1 << 12

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self._net = open_net(voice, "whole", device)
        self._wants = [entry.name for entry in self._net.inputs]

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator
    ) -> Iterator[Floats]:  # fmt: skip
        """The graph draws its own noise: `random` is not asked."""
        feed: dict[str, npt.NDArray[Any]] = {
            "input": np.asarray([list(ids)], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([scales.noise, scales.length, scales.noise_w], np.float32),
            "sid": np.array([speaker], np.int64),
        }
        made = self._net.run({name: feed[name] for name in self._wants})
        yield np.asarray(next(iter(made.values())), np.float32).reshape(-1)

    def close(self) -> None:
        """Let go of the network."""
        self._net.close()


class _Options:
    """Numbers of `voice.json`, checked."""

    def __init__(self, voice: VoiceSet) -> None:
        self.voice = voice

    def _wrong(self, key: str) -> VoiceSetError:
        return VoiceSetError(
            f"{self.voice.folder}: option {key!r} of the set {self.voice.name!r} is missing or wrong; make it again "
            "with `openrknn voice get VOICE.onnx`"
        )

    def whole(self, key: str, least: int = 0) -> int:
        value = self.voice.options.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 1 << 16:
            raise self._wrong(key)
        return value

    def sizes(self, key: str) -> list[int]:
        values = self.voice.options.get(key)
        if (
            not isinstance(values, list)
            or not values
            or not all(
                isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 16 for value in values
            )
        ):
            raise self._wrong(key)
        return sorted(values)


def _table(path: Path) -> Floats:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise VoiceSetError(f"{path}: cannot be read: {error}; make the set again") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f" or not array.size:
        raise VoiceSetError(f"{path}: should hold a table of floats; make the set again")
    return array.astype(np.float32)


def _piece(array: Floats, start: int, size: int) -> Floats:
    """Frames start to start + size, zeros outside."""
    piece = np.zeros((1, array.shape[1], size), np.float32)
    low, high = max(start, 0), min(start + size, array.shape[2])
    piece[:, :, low - start : high - start] = array[:, :, low:high]
    return piece


def _mask(total: int, start: int, size: int) -> Floats:
    places = np.arange(start, start + size)
    return ((places >= 0) & (places < total)).astype(np.float32)[None, None]


# The length regulator: what a phoneme is, for as many frames as it lasts, with noise.

LONGEST = 1 << 16
"""Frames of one sentence: twelve minutes. More is a length scale that went wrong, and would fill the memory."""


def whole_frames(durations: npt.NDArray[Any], valid: int) -> npt.NDArray[np.int64]:
    """Frames of each phoneme, from what the predictor says; at least one frame in all."""
    flat = np.asarray(durations, np.float64).reshape(-1)[:valid]
    if not np.isfinite(flat).all() or flat.sum() > LONGEST:
        raise PhonemeError(
            f"the voice wants {flat.sum():.0f} frames for one sentence, at most {LONGEST} are made; take a smaller "
            "length scale (1 is usual)"
        )
    frames = np.maximum(flat, 0).astype(np.int64)
    if frames.sum() < 1:
        frames[0] = 1
    return frames


def regulate(
    mean: Floats, logs: Floats, frames: npt.NDArray[np.int64], noise: Floats, noise_scale: float
) -> Floats:  # fmt: skip
    """[1, C, T] of phonemes to the latent, [1, C, F] of frames: mean + noise * exp(logs) * scale."""
    wide_mean, wide_logs = (np.repeat(array[:, :, : len(frames)], frames, axis=2) for array in (mean, logs))
    latent: Floats = wide_mean + noise * np.exp(wide_logs) * np.float32(noise_scale)
    return latent
