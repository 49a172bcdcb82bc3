"""Streaming transducers in the form of sherpa-onnx: Zipformer, LSTM and others of icefall.

The encoder takes a chunk of filter banks at a time and keeps its state in NPU memory (`Session.carry`), so each second
of sound is computed once, partial results included. The decoder sees the last tokens, the joiner says what comes next:
a token, or the blank, which means that the next frame is to be heard. Greedy search.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.runtime.state import Carried
from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.features import KaldiOptions, kaldi_fbank
from openrknn.voice.listener import Heard, ListenOptions, StreamParts
from openrknn.voice.pieces import joined, timed_words
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net
from openrknn.voice.stream import TranscriptStream

Array = npt.NDArray[np.float32]
FBANK = KaldiOptions(bands=80, high=-400.0)
"""What icefall's models are trained with: samples of -1 to 1, 80 bands from 20 Hz to 400 Hz below the highest."""
_BLANK = 0
_MOST_A_FRAME = 1
"""Tokens: icefall's greedy search takes one symbol a frame."""
_LARGEST_TOKENS = 1 << 24
_LARGEST_NUMBER = 1_000_000
_LONGEST = 30.0
_TAIL = 0.4
"""Seconds of silence behind the end, beside what completes a chunk: the last words need their right context."""


def read_tokens(path: Path) -> tuple[str, ...]:
    """`tokens.txt`: a token and its number a line, the numbers without gaps."""
    try:
        if path.stat().st_size > _LARGEST_TOKENS:
            raise VoiceSetError(f"{path}: larger than {_LARGEST_TOKENS} bytes; this is no list of tokens")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VoiceSetError(f"{path}: cannot be read: {error}") from error
    found: dict[int, str] = {}
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        token, _, number = line.rstrip("\r").rpartition(" ")
        if not number.isdecimal():
            raise VoiceSetError(f"{path}: line {at} is {line!r:.60}, not a token and its number")
        found[int(number)] = token or " "
    if not found or sorted(found) != list(range(len(found))):
        raise VoiceSetError(f"{path}: the numbers of its {len(found)} tokens are not 0, 1, 2 and so on")
    return tuple(found[at] for at in range(len(found)))


class OnlineFbank:
    """Filter banks of a stream: frames as soon as their samples are there, the same as of the whole sound."""

    def __init__(self, options: KaldiOptions = FBANK) -> None:
        width, self._hop = options.samples
        # Frame t lies around the middle of its hop; the sound is mirrored at its beginning.
        self._left = width // 2 - self._hop // 2
        self._width, self._options = width, replace(options, snip=True)
        self._held: Samples = np.zeros(0, np.float32)
        self._is_begun = False

    def feed(self, samples: Samples) -> Array:
        """[frames, bands] that are new."""
        self._held = np.concatenate([self._held, samples])
        if not self._is_begun and len(self._held) >= self._left:
            self._is_begun = True
            self._held = np.concatenate([self._held[: self._left][::-1], self._held])
        count = (len(self._held) - self._width) // self._hop + 1 if self._is_begun else 0
        if count <= 0:
            return np.zeros((0, self._options.bands), np.float32)
        found = kaldi_fbank(self._held[: (count - 1) * self._hop + self._width], self._options)
        self._held = self._held[count * self._hop :]
        return found


@dataclass
class Hypothesis:
    """What was decoded by now."""

    tokens: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    """Of the encoder's output, in which each token was heard."""
    logs: list[float] = field(default_factory=list)
    joint: Array | None = None
    """What the decoder makes of the last tokens."""
    count: int = 0
    """Frames of the encoder's output."""

    def copy(self) -> Hypothesis:
        """One that goes on by itself."""
        return replace(self, tokens=self.tokens[:], frames=self.frames[:], logs=self.logs[:])


class Decoding(Closing):
    """One piece of sound on its way through the encoder."""

    def __init__(self, model: Transducer) -> None:
        self._model = model
        self._carried: Carried = model.carry()
        self.restart()

    def restart(self) -> None:
        """Another piece."""
        self._carried.reset()
        self._fbank = OnlineFbank()
        self._frames: Array = np.zeros((0, FBANK.bands), np.float32)
        self._found = Hypothesis()
        self._heard: Samples = np.zeros(0, np.float32)

    def hear(self, samples: Samples, *, is_over: bool) -> Hypothesis:
        """All of the piece by now: what is new in it is computed, what was heard already is not.

        `is_over`: as if nothing followed; if more of the piece comes after all, it goes on from before the end.
        """
        known = len(self._heard)
        if len(samples) < known or not np.array_equal(samples[:known], self._heard):
            self.restart()
            known = 0
        self._take(samples[known:])
        self._heard = np.array(samples)
        if not is_over:
            return self._found
        kept = (self._carried.state(), self._fbank, self._frames, self._found)
        self._fbank, self._frames, self._found = self._copied()
        self._take(np.zeros(int(_TAIL * FBANK.rate) + self._model.length * FBANK.samples[1], np.float32))
        done = self._found
        state, self._fbank, self._frames, self._found = kept
        self._carried.reset(state)
        return done

    def close(self) -> None:
        """Give the state back."""
        self._carried.close()

    def _copied(self) -> tuple[OnlineFbank, Array, Hypothesis]:
        bank = OnlineFbank()
        bank.__dict__.update(self._fbank.__dict__)
        return bank, self._frames, self._found.copy()

    def _take(self, samples: Samples) -> None:
        self._frames = np.concatenate([self._frames, self._fbank.feed(samples)])
        while len(self._frames) >= self._model.length:
            chunk = self._frames[: self._model.length]
            rows = self._model.encoded(self._carried, chunk)
            self._model.search(rows, self._found)
            self._frames = self._frames[self._model.shift :]


class Transducer(Closing):
    """A set of the family, opened."""

    has_words = True

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.rate, self.longest = voice.rate, _LONGEST
        self.tokens = read_tokens(voice.file("tokens"))
        self._where = str(voice.folder)
        options = voice.options
        self._states = _names(options.get("states"), self._where)
        self.length, self.shift = (_whole(options, name, self._where) for name in ("length", "shift"))
        self._context = _whole(options, "context", self._where)
        self._before = _whole(options, "before", self._where) if "before" in options else _BLANK
        self._unknown = next((at for at, token in enumerate(self.tokens) if token == "<unk>"), -1)
        self._lock = threading.RLock()
        nets = []
        try:
            nets = [open_net(voice, role, device) for role in ("encoder", "decoder", "joiner")]
            self._encoder, self._decoder, self._joiner = nets
            self._check()
            self._alone: Decoding | None = None
        except BaseException:
            for net in nets:
                net.close()
            raise

    def _check(self) -> None:
        ins = {port.name: tuple(port.shape) for port in self._encoder.inputs}
        free = [name for name in ins if name not in self._states.values()]
        if len(free) != 1 or ins[free[0]] != (1, self.length, FBANK.bands):
            shapes = [ins[name] for name in free]
            raise VoiceSetError(f"{self._where}: its encoder takes {shapes}, not {(1, self.length, FBANK.bands)}")
        self._input = free[0]
        words = int(np.prod(self._joiner.outputs[0].shape))
        if words > len(self.tokens):
            raise VoiceSetError(f"{self._where}: {len(self.tokens)} tokens for {words} logits; make the set again")

    def carry(self) -> Carried:
        """A state of one's own, on the device."""
        try:
            return self._encoder.carry(self._states)
        except ValueError as error:
            raise VoiceSetError(f"{self._where}: its states do not fit: {error}") from error

    def encoded(self, carried: Carried, chunk: Array) -> Array:
        """[frames, width] of one chunk."""
        found = carried.step({self._input: chunk[None]})
        value = np.asarray(next(iter(found.values())), np.float32)
        return value.reshape(-1, value.shape[-1])

    def search(self, rows: Array, found: Hypothesis) -> None:
        """What these frames say, appended."""
        encoder, decoder = (port.name for port in self._joiner.inputs)
        for row in rows:
            if found.joint is None:
                found.joint = self._predicted(found.tokens)
            logits = self._joiner.run({encoder: row[None], decoder: found.joint})
            scores = np.asarray(next(iter(logits.values())), np.float64).reshape(-1)
            best = int(scores.argmax())
            if best not in (_BLANK, self._unknown):
                found.tokens.append(best)
                found.frames.append(found.count)
                found.logs.append(float(scores[best] - scores.max() - np.log(np.exp(scores - scores.max()).sum())))
                found.joint = None
            found.count += 1

    def _predicted(self, tokens: list[int]) -> Array:
        first = [self._before] * (self._context - 1) + [_BLANK]
        last = (first + tokens)[-self._context :]
        made = self._decoder.run({self._decoder.inputs[0].name: np.array([last], np.int64)})
        return np.asarray(next(iter(made.values())), np.float32)

    def hear(self, samples: Samples, options: ListenOptions) -> Heard:
        """The text of one piece of sound."""
        with self._lock:
            if self._alone is None:
                self._alone = Decoding(self)
            self._alone.restart()
            return self.heard(self._alone.hear(samples, is_over=not options.partial))

    def stream(self, parts: StreamParts) -> TranscriptStream:
        """The usual one, but each second of sound is computed once: partial results cost nothing."""
        decoding = Decoding(self)

        def hear(samples: Samples, options: ListenOptions) -> Heard:
            with self._lock:
                return self.heard(decoding.hear(samples, is_over=not options.partial))

        def on_close() -> None:
            decoding.close()
            if parts.on_close is not None:
                parts.on_close()

        return TranscriptStream(replace(parts, hear=hear, on_close=on_close, partial_share=math.inf), rate=self.rate)

    def heard(self, found: Hypothesis) -> Heard:
        """As text, with the times of its words."""
        seconds = self.shift * FBANK.hop / max(1, self._rows)
        words = timed_words(
            (self.tokens[token], frame * seconds, (frame + 1) * seconds, math.exp(log))
            for token, frame, log in zip(found.tokens, found.frames, found.logs, strict=True)
        )
        text = joined(self.tokens[token] for token in found.tokens)
        sure = math.exp(sum(found.logs) / len(found.logs)) if found.logs else 0.0
        return Heard(text, tuple(found.tokens), sure, words=words)

    @property
    def _rows(self) -> int:
        """Frames that the encoder gives for a chunk."""
        states = self._states
        return next(int(port.shape[1]) for port in self._encoder.outputs if port.name not in states)

    def close(self) -> None:
        """Give the nets back."""
        with self._lock:
            if self._alone is not None:
                self._alone.close()
                self._alone = None
            for net in (self._encoder, self._decoder, self._joiner):
                net.close()


def _names(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value.values()):
        raise VoiceSetError(f"{where}: its 'states' should be an object of names, not {value!r:.60}")
    return {str(key): str(name) for key, name in value.items()}


def _whole(options: Mapping[str, object], name: str, where: str) -> int:
    value = options.get(name)
    if type(value) is not int or not 1 <= value <= _LARGEST_NUMBER:
        raise VoiceSetError(f"{where}: its {name!r} should be a number from 1 to {_LARGEST_NUMBER}, not {value!r:.60}")
    return value
