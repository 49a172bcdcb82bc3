"""`WhisperModel`: the nets of a set of the family."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.errors import FormatError
from openrknn.runtime.decoder import Decoder
from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.features import whisper_log_mel
from openrknn.voice.listener import AUTO, Heard, ListenOptions, Piece
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net
from openrknn.voice.whisper.parts import Part, cut, heard_of
from openrknn.voice.whisper.search import Result, Search, log_softmax
from openrknn.voice.whisper.vocabulary import Vocabulary
from openrknn.voice.whisper.words import Timed, aligned, placed, tidied, typical

Array = npt.NDArray[np.float32]
HOP = 160
_SHORTEST = 201
"""Samples: half a frame is mirrored at the beginning."""


def mel_of(samples: Samples, bands: int) -> Array:
    """[bands, samples // 160] of sound that is followed by silence."""
    filled = np.zeros(max(len(samples) + 2 * HOP, _SHORTEST), np.float32)
    filled[: len(samples)] = samples
    return whisper_log_mel(filled, bands=bands)[:, : max(1, len(samples) // HOP)]


class WhisperModel(Closing):
    """Encoder and decoder of a set; what is heard in a window, with times of parts and words."""

    has_words = has_prompts = has_beams = True

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        options = voice.options
        try:
            self._mels, states = int(options["mels"]), int(options["frames"])
            self._alignment = [(int(layer), int(head)) for layer, head in options["alignment"]]
            is_many = bool(options["multilingual"])
        except (KeyError, TypeError, ValueError) as error:
            raise VoiceSetError(f"{voice.folder}: its options are no Whisper's ({error}); make it again") from error
        self.rate = voice.rate
        self.frames = 2 * states
        """Of a window."""
        self.longest = self.frames * HOP / self.rate
        self.vocabulary = Vocabulary.read(voice.file("tokens"), multilingual=is_many)
        self.languages = tuple(self.vocabulary.languages)
        self.tasks = ("transcribe", "translate") if is_many else ("transcribe",)
        self._lock = threading.RLock()
        self._encoder = open_net(voice, "encoder", device)
        try:
            self._decoder = _open_decoder(voice, device)
        except BaseException:
            self._encoder.close()
            raise
        words = self._decoder.vocabulary
        wanted = {f"scores.{layer}" for layer, _ in self._alignment}
        shapes = {port.name: tuple(port.shape) for port in self._decoder.session.outputs if port.name in wanted}
        if set(shapes) != wanted or any(shape[:2] != (1, self._decoder.cross_capacity) for shape in shapes.values()):
            self.close()
            raise VoiceSetError(
                f"{voice.folder}: its decoder is of another version; make the set {voice.name!r} again "
                "(openrknn voice get)"
            )
        if len(self.vocabulary) < words:
            self.close()
            raise VoiceSetError(
                f"{voice.file('tokens')}: {len(self.vocabulary)} tokens for {words} logits; make it again"
            )
        self._context = self._decoder.file.capacity // 2
        self._search = Search(self._decoder, self.vocabulary, self._context)
        self._random = np.random.default_rng(0)

    # -- a window ------------------------------------------------------------------------------------------------

    def encode(self, mel: Array) -> dict[str, Array]:
        """Keys and values of the cross attention for [bands, frames]; what is missing of the frames is zeros."""
        filled = np.zeros((1, self._mels, self.frames), np.float32)
        filled[0, :, : mel.shape[1]] = mel[:, : self.frames]
        return self._encoder.run({"mel": filled})

    def window(self, mel: Array, options: ListenOptions) -> Result:
        """The text of one window; `options.previous` are tokens before it."""
        with self._lock:
            self._decoder.start(self.encode(mel))
            return self._decoded(options)

    def _decoded(self, options: ListenOptions) -> Result:
        language = options.language or AUTO
        if language == AUTO and len(self.languages) == 1:
            language = self.languages[0]
        if language == AUTO:
            chances = self._search.languages()
            language = max(chances, key=lambda code: chances[code])
        start = self.vocabulary.start(language, options.task)
        self._search.begin(self._before(options), start, times=not options.partial)
        temperatures = options.temperatures[:1] if options.partial else options.temperatures
        for temperature in temperatures:
            tokens, logs, mean = self._search.decode(temperature, 1 if options.partial else options.beam, self._random)
            text = self.vocabulary.text(tokens).strip()
            found = Result(tokens, text, mean, self._search.no_speech_prob, temperature, language, logs)
            if not (options.filters and found.is_doubtful):
                break
        return found

    def _before(self, options: ListenOptions) -> tuple[int, ...]:
        """The prompt: hotwords, then the text before, of which the end is kept."""
        room = self._context - 1
        hot = self.vocabulary.encode(f" {options.hotwords.strip()}")[:room] if options.hotwords.strip() else []
        previous = list(options.previous)
        if not previous and options.prompt.strip():
            previous = self.vocabulary.encode(f" {options.prompt.strip()}")
        rest = room - len(hot)
        return (*hot, *(previous[-rest:] if rest else []))

    def align(self, parts: Sequence[Part], result: Result, frames: int, last_end: float) -> list[Piece]:
        """Pieces with times of words, from a second pass over the window that was decoded last."""
        tokens = [token for part in parts for token in part.tokens if token < self.vocabulary.end]
        if not tokens:
            return [part.piece(self.vocabulary) for part in parts]
        with self._lock:
            found = self._timed(tokens, result, frames)
        usual = typical(found)
        tidied(found)
        counts = [sum(token < self.vocabulary.end for token in part.tokens) for part in parts]
        spans = [(part.start, part.end, count) for part, count in zip(parts, counts, strict=True)]
        made = []
        for part, (start, end, words) in zip(parts, placed(found, spans, usual, last_end), strict=True):
            piece = part.piece(self.vocabulary)
            made.append(replace(piece, start=round(start, 2), end=round(end, 2), words=words))
        return made

    def _timed(self, tokens: Sequence[int], result: Result, frames: int) -> list[Timed]:
        """Say the text again, and look where the decoder looks."""
        start = self.vocabulary.start(result.language, "transcribe")
        forced = [*start, self.vocabulary.no_times, *tokens, self.vocabulary.end]
        layers = sorted({layer for layer, _ in self._alignment})
        heads = {layer: [head for where, head in self._alignment if where == layer] for layer in layers}
        names = [f"scores.{layer}" for layer in layers]
        scores, chances = [], []
        self._decoder.rewind(0)
        for part in self._decoder.feed(forced, names):
            # [1, frames, heads, tokens] -> [heads, tokens, frames]
            found = [part.outputs[name][0][:, heads[layer]] for name, layer in zip(names, layers, strict=True)]
            scores.append(np.concatenate(found, axis=1).transpose(1, 2, 0))
            for number, row in enumerate(part.logits):
                place = part.first + number - len(start)
                if 0 <= place < len(tokens):
                    chances.append(float(np.exp(log_softmax(row[: self.vocabulary.end])[tokens[place]])))
        steps = np.concatenate(scores, axis=1)[:, :, : frames // 2]
        split = self.vocabulary.split([*tokens, self.vocabulary.end], result.language)
        return aligned(steps, len(start), split, chances)

    # -- for the transcriber -------------------------------------------------------------------------------------

    def mel(self, samples: Samples) -> Array:
        """[bands, samples // 160] of sound that is followed by silence."""
        return mel_of(samples, self._mels)

    def hear(self, samples: Samples, options: ListenOptions = ListenOptions()) -> Heard:  # noqa: B008 - frozen
        """The text of at most 30 s."""
        if len(samples) > self.frames * HOP:
            raise VoiceSetError(f"{len(samples) / self.rate:.1f} s at once; this model takes {self.longest:.1f} s")
        mel = self.mel(samples)
        with self._lock:
            result = self.window(mel, options)
            if options.filters and result.is_silence:
                return replace(heard_of(result), text="", tokens=())
            if options.partial:
                return replace(heard_of(result), tokens=result.tokens)
            parts, _ = cut(result, mel.shape[1], self.vocabulary, keep_rest=True)
            wanted = [part for part in parts if part.text(self.vocabulary).strip()]
            if options.words:
                pieces = self.align(wanted, result, mel.shape[1], 0.0)
            else:
                pieces = [part.piece(self.vocabulary) for part in wanted]
        return replace(heard_of(result), pieces=tuple(pieces))

    def token_bytes(self, token: int) -> bytes:
        """The text of a token; special ones have none."""
        return self.vocabulary.pieces[token] if 0 <= token < self.vocabulary.end else b""

    @property
    def bands(self) -> int:
        """Of the spectrum."""
        return self._mels

    def close(self) -> None:
        """Give the nets back."""
        with self._lock:
            self._encoder.close()
            self._decoder.close()


def _open_decoder(voice: VoiceSet, device: str) -> Decoder:
    path = voice.file("decoder")
    try:
        return Decoder(path, device)
    except (FormatError, OSError) as error:
        raise VoiceSetError(f"{path}: {error}; make the set {voice.name!r} again (openrknn voice get)") from error
