"""`openrknn speak`: text in, a voice out."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFile
from openrknn.errors import RknnError

if TYPE_CHECKING:
    from openrknn.voice.audio import Audio
    from openrknn.voice.speaker import Speaker

NAME = "speak"
HELP = "say a text with a voice of Piper or Kokoro"
DESCRIPTION = """Say a text with a voice of Piper: VOICE.onnx with VOICE.onnx.json beside it, compiled on first use, or
a set of `openrknn voice get`. Text encoder, flow and decoder run on the NPU, durations on the CPU; without an NPU the
software NPU speaks. Text from standard input is spoken line by line as it arrives."""
EXAMPLES = (
    'openrknn speak "Hello, world." -o hello.wav --voice en_US-lessac-medium.onnx',
    "openrknn speak -o - --voice VOICE.onnx < book.txt | aplay -t raw -f S16_LE -r 22050     samples as they are ready",
    'openrknn speak "Good morning." --play --voice VOICE.onnx --speaker p225 --length-scale 1.2 --seed 7',
    'openrknn speak "Hello" --phonemes --voice VOICE.onnx      what would be said, as phonemes and numbers',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("text", metavar="TEXT", nargs="?", default="-", help="what to say; -: standard input")
    out = "a WAV file; -: samples (s16le) to standard output"
    parser.add_argument("-o", "--output", metavar="OUT", action=OutputFile, stdout=True, help=out)
    parser.add_argument("--play", action="store_true", help="let the speakers of this machine say it")
    parser.add_argument(
        "--voice", metavar="VOICE", default=os.environ.get("OPENRKNN_VOICE"),
        help="VOICE.onnx, or a set by folder or name; $OPENRKNN_VOICE, or the only one that is installed",
    )  # fmt: skip
    parser.add_argument("--config", metavar="JSON", help="the voice's config, if it is not VOICE.onnx.json")
    parser.add_argument("--speaker", metavar="WHO", help="name or number of a speaker, for voices with several")
    parser.add_argument("--speed", metavar="X", type=float, help="times as fast as usual (0.05 to 5)")
    parser.add_argument("--length-scale", metavar="X", type=float, help="slower above 1, faster below")
    parser.add_argument("--noise-scale", metavar="X", type=float, help="how much the sound varies")
    parser.add_argument("--noise-w", metavar="X", type=float, help="how much the durations vary")
    parser.add_argument("--seed", metavar="N", type=int, help="the same number makes the same sound")
    parser.add_argument("--pause", metavar="SECONDS", type=float, default=0.2, help="between sentences (0.2)")
    parser.add_argument("--loudness", metavar="LUFS", type=float, help="of each sentence, -16 is usual (peak at 1)")
    parser.add_argument("--as-written", action="store_true", help="numbers and abbreviations as espeak-ng reads them")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, rknpu, rocket or software")
    parser.add_argument("--target", metavar="CHIP", default="", help="chip to compile for (this board's, else rk3588)")
    parser.add_argument("--no-exact", dest="exact", action="store_false", help="the text encoder on the NPU, too")
    parser.add_argument("--phonemes", action="store_true", help="show the phonemes and their numbers, say nothing")
    parser.add_argument("--speakers", action="store_true", help="list the speakers of the voice")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Speak; what was said before an error in a later line is kept."""
    from openrknn.voice.speaker import Speaker

    is_raw = arguments.output == "-"
    if is_raw and output.is_json:
        raise CommandError("-o - writes samples to standard output, where --json would write, too; choose one")
    if not (arguments.output or arguments.play or arguments.phonemes or arguments.speakers):
        raise CommandError("nowhere to speak to; give -o OUT.wav, -o - or --play")
    voice = arguments.voice or _only_voice()
    start = perf_counter()
    try:
        options = {"target": arguments.target, "config": arguments.config, "exact": arguments.exact}
        with Speaker(voice, arguments.device, **options) as speak:
            if arguments.speakers:
                return _list_speakers(speak, output)
            if arguments.phonemes:
                return _show_phonemes(speak, arguments, output)
            opened = perf_counter()
            with _sinks(arguments, speak.rate) as sinks:
                spoken, first = 0, 0.0
                problem: BaseException | None = None
                try:
                    for piece in _pieces(speak, arguments):
                        first = first or perf_counter() - opened
                        spoken += len(piece.samples)
                        for sink in sinks:
                            sink(piece)
                except (KeyboardInterrupt, ValueError, RknnError) as error:
                    if not spoken:  # nothing was said, so no file is written
                        raise
                    problem = error
                if not spoken:
                    raise CommandError("there was nothing to say on standard input")
            _report(speak, arguments, output, (start, opened, first, spoken / speak.rate))
            if problem is not None:
                raise problem
    except ValueError as error:
        raise CommandError(str(error)) from error
    return 0


def _only_voice() -> str:
    from openrknn.voice.sets import home, installed

    found = installed("speaker")
    if len(found) == 1:
        return str(found[0].folder)
    names = ", ".join(one.folder.name for one in found)
    raise CommandError(
        f"which voice? {home()} has {names}; choose one with --voice" if found
        else "no voice is installed; give --voice VOICE.onnx, a Piper voice with its VOICE.onnx.json beside it"
    )  # fmt: skip


def _texts(arguments: argparse.Namespace) -> Iterator[str]:
    from openrknn.voice.text.reading import texts

    if arguments.text != "-":
        if any("\udc80" <= letter <= "\udcff" for letter in arguments.text):  # bytes that the locale does not know
            raise CommandError(f"the text {arguments.text!r:.60} is not UTF-8; convert it, or set a UTF-8 locale")
        yield arguments.text
        return
    if sys.stdin.isatty():
        raise CommandError('no text; give it as an argument ("..."), or by a pipe')
    yield from texts(sys.stdin.buffer, "standard input")


def _pieces(speak: Speaker, arguments: argparse.Namespace) -> Iterator[Audio]:
    import numpy as np

    from openrknn.voice.audio import Audio

    for number, text in enumerate(_texts(arguments)):
        if number:
            yield Audio(np.zeros(round(arguments.pause * speak.rate), np.float32), speak.rate)
        yield from speak.stream(
            text, speaker=arguments.speaker, length_scale=_length(speak, arguments), noise_w=arguments.noise_w,
            noise_scale=arguments.noise_scale, seed=arguments.seed, pause=arguments.pause, loudness=arguments.loudness,
            as_written=arguments.as_written,
        )  # fmt: skip


def _length(speak: Speaker, arguments: argparse.Namespace) -> float | None:
    """`--speed` in the voice's own numbers."""
    if arguments.speed is None:
        length: float | None = arguments.length_scale
        return length
    if arguments.length_scale is not None:
        raise CommandError("--speed and --length-scale say the same; choose one")
    if not 0.05 <= arguments.speed <= 5:
        raise CommandError(f"a speed of {arguments.speed}; 0.05 to 5 can be, 1 is usual")
    return float(speak.length_scale / arguments.speed)


@contextlib.contextmanager
def _sinks(arguments: argparse.Namespace, rate: int) -> Iterator[list[Any]]:
    """Where pieces go."""
    from openrknn.voice.audio_output import player, raw_writer, wav_writer

    with contextlib.ExitStack() as stack:
        found: list[Any] = []
        if arguments.output == "-":
            found.append(raw_writer(sys.stdout.buffer))
        elif arguments.output:
            found.append(stack.enter_context(wav_writer(Path(arguments.output), rate)))
        if arguments.play:
            found.append(stack.enter_context(player(rate)))
        yield found


def _report(
    speak: Speaker, arguments: argparse.Namespace, output: Output, measured: tuple[float, float, float, float]
) -> None:  # fmt: skip
    start, opened, first, seconds = measured
    took = perf_counter() - opened
    if arguments.output and arguments.output != "-":
        output.value(f"wrote {arguments.output}")
    if arguments.output != "-":
        output.line(
            f"{seconds:.2f} s of speech in {took:.2f} s (real-time factor {took / seconds:.2f}), the first sentence "
            f"after {first:.2f} s; voice {speak.set.name}, {speak.rate} Hz"
        )
    output.data(
        {
            "written": arguments.output, "voice": speak.set.name, "rate": speak.rate, "seconds": round(seconds, 3),
            "open_seconds": round(opened - start, 3), "speak_seconds": round(took, 3),
            "first_seconds": round(first, 3), "real_time_factor": round(took / seconds, 4),
            "stages": {name: round(value, 4) for name, value in speak.times.items()},
        }
    )  # fmt: skip


def _list_speakers(speak: Speaker, output: Output) -> int:
    rows = speak.speakers or {str(number): number for number in range(speak.talker.speaker_count)}
    for name, number in rows.items():
        output.value(f"{number:4}  {name}" if name != str(number) else f"{number:4}")
    output.data({"voice": speak.set.name, "count": speak.talker.speaker_count, "speakers": rows})
    return 0


def _show_phonemes(speak: Speaker, arguments: argparse.Namespace, output: Output) -> int:
    rows = []
    for text in _texts(arguments):
        for said in speak.said(text, speaker=arguments.speaker, as_written=arguments.as_written):
            rows.append({"phonemes": said.phonemes, "ids": list(said.ids)})
            output.value(said.phonemes)
            output.line(f"    {' '.join(map(str, said.ids))}")
    output.data({"voice": speak.set.name, "sentences": rows})
    return 0
