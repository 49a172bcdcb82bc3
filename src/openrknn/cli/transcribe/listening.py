"""The loop of `openrknn transcribe`: blocks in, segments out, and whatever happens, what was heard is kept."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import cast

import numpy as np

from openrknn.cli.common.files import save_atomically
from openrknn.cli.common.output import Output
from openrknn.cli.common.sounds import asked, check_source
from openrknn.cli.transcribe.screens import Screen, screen_for, tell_lines
from openrknn.errors import RknnError
from openrknn.voice import Audio, AudioError, Segment, Transcriber, Transcript
from openrknn.voice.audio import Samples, blocks
from openrknn.voice.listener import ListenOptions, TextStream
from openrknn.voice.speakers import SpeakerEmbedding, SpeakerTracker

__all__ = ["run_transcribe"]

_BLOCK = 0.1
"""Seconds of sound that are read at a time: less than between two partial results."""
_LONGEST_REPORT = 3600.0
_INTERRUPTED = 130


def run_transcribe(arguments: argparse.Namespace, output: Output) -> int:
    """Read, listen, tell."""
    check_source(arguments)
    started = time.perf_counter()
    activity = None if arguments.no_vad else arguments.vad
    options = ListenOptions(
        arguments.language, arguments.task, arguments.prompt, arguments.hotwords, arguments.word_timestamps,
        arguments.beam, filters=not arguments.no_filters,
    )  # fmt: skip
    with asked():
        opened_model = Transcriber(arguments.model, arguments.device, activity=activity, options=options)
    with opened_model as listen:
        opened = time.perf_counter()
        size = int(_BLOCK * listen.rate)
        source = blocks(arguments.audio, rate=listen.rate, size=size, raw_rate=arguments.rate)
        ear = _Ear(listen, arguments)
        if Path(arguments.audio).is_file():
            listen.survey(ear.stream, blocks(arguments.audio, rate=listen.rate, size=size))
        is_endless = arguments.audio == "-" or arguments.audio.split(":")[0] == "mic"
        problem: AudioError | None = None
        code = 0
        with screen_for(output, is_live=arguments.live, is_late=arguments.speakers is not None) as screen:
            try:
                for block in _closing(source):
                    ear.feed(block, screen)
            except KeyboardInterrupt:
                code = 0 if is_endless else _INTERRUPTED
            except AudioError as error:  # a microphone that went away: what it said is not lost
                if not ear.stream.seconds:  # nothing was read, so nothing is told and no file is written
                    raise
                problem = error
            ear.finish(screen)
        ear.times = {"opening": opened - started, "seconds": time.perf_counter() - opened}
        if arguments.speakers is not None:
            ear.name_speakers()
            if output.is_human and not arguments.live:
                tell_lines(output, ear.segments)
        _tell(ear, arguments, output)
    if problem is not None:
        raise problem
    return code


def _closing(source: Iterator[Samples]) -> Iterator[Samples]:
    """Ends the program behind a microphone at once, not when the iterator is collected."""
    close = getattr(source, "close", None)
    with closing(source) if close is not None else nullcontext():  # type: ignore[type-var]
        yield from source


class _Ear:
    """A stream, and as much of what it told as is needed later."""

    def __init__(self, listen: Transcriber, arguments: argparse.Namespace) -> None:
        self.stream: TextStream = listen.stream(
            partial=arguments.partial if arguments.live else 0, partial_share=arguments.partial_cost
        )
        self._listen = listen
        self.rate = listen.rate
        self.segments: list[Segment] = []
        self.chances: list[tuple[float, float]] = []
        self.times: dict[str, float] = {}
        self._speakers: SpeakerTracker | None = None
        if arguments.speakers is not None:
            self._speakers = SpeakerTracker(SpeakerEmbedding(device=arguments.device), listen.rate, arguments.speakers)
        self._sound: list[Samples] | None = [] if arguments.report else None
        if arguments.report:
            self.stream.on_chance = lambda when, chance: self.chances.append((when, chance))

    def feed(self, block: Samples, screen: Screen) -> None:
        if self._sound is not None:
            self._sound.append(block)
            if self.stream.seconds > _LONGEST_REPORT:
                raise AudioError("a report shows one hour at most; leave out --report for longer recordings")
        if self._speakers is not None:
            self._speakers.feed(block)
        self._take(self.stream.feed(block), screen)

    def finish(self, screen: Screen) -> None:
        self._take(self.stream.finish(), screen)

    def _take(self, found: list[Segment], screen: Screen) -> None:
        for segment in found:
            screen.tell(segment)
            if segment.final and segment.text:
                self.segments.append(segment)
                if self._speakers is not None:
                    self._speakers.take(segment)

    def name_speakers(self) -> None:
        """When all segments are known: voices are compared with each other."""
        if self._speakers is not None:
            self.segments = self._speakers.named(self.segments)
            self._speakers.close()

    @property
    def audio(self) -> Audio:
        """All that was fed, for the page."""
        return Audio(np.concatenate(self._sound or [np.zeros(0, np.float32)]), self.rate)

    @property
    def transcript(self) -> Transcript:
        timing = {name: round(value, 3) for name, value in self.times.items()}
        timing["model"] = round(self.stream.hearing_seconds, 3)
        return self._listen.transcript(self.segments, self.stream, timing)


def _tell(ear: _Ear, arguments: argparse.Namespace, output: Output) -> None:
    found = ear.transcript
    for warning in found.warnings:
        output.complain(f"warning: {warning}")
    # The text first: a file that cannot be written does not take it away.
    if not (arguments.live and output.is_json):
        output.data(found.as_json())
    if not output.is_json and not output.is_human:
        output.value(found.text)
    if not found.segments:
        output.line(f"nothing was said in {found.seconds:.1f} s of sound")
    problems = _save(ear, found, arguments, output)
    if found.seconds:
        factor = ear.times["seconds"] / found.seconds
        output.line()
        output.line(f"{found.seconds:.1f} s of sound in {ear.times['seconds']:.1f} s, real-time factor {factor:.2f}")
    if problems:
        raise problems[0]


def _save(ear: _Ear, found: Transcript, arguments: argparse.Namespace, output: Output) -> list[OSError | RknnError]:
    """The files that can be written, and why others cannot."""
    problems: list[OSError | RknnError] = []
    makers = (
        (arguments.srt, found.srt), (arguments.vtt, found.vtt), (arguments.report, lambda: _page(ear, found, arguments))
    )  # fmt: skip
    for path, make in makers:
        if path:
            try:
                save_atomically(path, make().encode())
            except (OSError, RknnError) as error:
                problems.append(error)
            else:
                output.line(f"wrote {path}")
    return problems


def _page(ear: _Ear, found: Transcript, arguments: argparse.Namespace) -> str:
    from openrknn.pages.voice import Heard, render

    factor = ear.times["seconds"] / max(found.seconds, 1e-9)
    facts = (
        ("model", Path(arguments.model).name),
        ("device", str(arguments.device)),
        ("real-time factor", f"{factor:.2f}"),
    )
    name = "microphone" if arguments.audio.split(":")[0] == "mic" else Path(cast(str, arguments.audio)).name
    return render(Heard(name, ear.audio, found, ear.chances, facts=facts))
