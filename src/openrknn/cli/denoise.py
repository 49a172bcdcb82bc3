"""`openrknn denoise`: noise out of speech."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFile
from openrknn.cli.common.sounds import add_rate, asked, check_source

if TYPE_CHECKING:
    from openrknn.voice import Audio, AudioError, Denoiser

NAME = "denoise"
HELP = "take the noise out of a recording"
DESCRIPTION = """Take the noise out of speech with DTLN (`openrknn voice get FOLDER` makes its set). The input is a file
(WAV of any kind and rate; other formats with soundfile or ffmpeg), - for standard input, or mic; the output a WAV file
of 16 kHz, or - for raw 16-bit samples, as they are ready: 32 ms later. Both nets run on the NPU, or on the software NPU
where there is none."""
EXAMPLES = (
    "openrknn denoise noisy.wav clean.wav",
    "openrknn denoise mic - | aplay -f S16_LE -r 16000 -t raw     what the microphone hears, without noise",
    "openrknn denoise mic - | openrknn transcribe - --rate 16000 --live",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("audio", metavar="IN", help="a file, - for standard input, or mic")
    out = "a WAV file; -: samples (s16le) to standard output"
    parser.add_argument("output", metavar="OUT", action=OutputFile, stdout=True, help=out)
    parser.add_argument("--model", metavar="SET", default="dtln", help="a set by name or folder (dtln)")
    add_rate(parser)
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, rknpu, rocket or software")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Read, clean, write."""
    from openrknn.voice.audio_output import raw_writer, wav_writer
    from openrknn.voice.denoiser import Denoiser

    is_raw = arguments.output == "-"
    if is_raw and output.is_json:
        raise CommandError("- writes samples to standard output, where --json would write, too; choose one")
    check_source(arguments)
    place = Path(arguments.output)
    with asked():
        opened = Denoiser(arguments.model, arguments.device)
    with opened as clean:
        begun = perf_counter()
        if is_raw:
            _, problem = _pump(clean, arguments, raw_writer(sys.stdout.buffer))
            if problem is not None:
                raise problem
            return 0
        with wav_writer(place, clean.rate) as write:
            seconds, problem = _pump(clean, arguments, write)
    took = perf_counter() - begun
    factor = took / max(seconds, 1e-9)
    output.value(f"wrote {arguments.output}")
    output.line(f"{seconds:.1f} s of sound in {took:.1f} s, real-time factor {factor:.2f}")
    output.data({"written": arguments.output, "seconds": round(seconds, 3), "rate": clean.rate,
                 "model": clean.set.name, "real_time_factor": round(factor, 4)})  # fmt: skip
    if problem is not None:
        raise problem
    return 0


def _pump(
    clean: Denoiser, arguments: argparse.Namespace, write: Callable[[Audio], object]
) -> tuple[float, AudioError | None]:  # fmt: skip
    """All of the sound through the nets; how many seconds there were, and what ended it early.

    What came before an error or Ctrl-C is kept.
    """
    from openrknn.voice import AudioError
    from openrknn.voice.audio import Audio, blocks

    seconds = 0.0
    problem: AudioError | None = None
    source = blocks(arguments.audio, rate=clean.rate, raw_rate=arguments.rate)
    try:
        for block in source:
            seconds += len(block) / clean.rate
            write(Audio(clean.feed(block), clean.rate))
    except KeyboardInterrupt:
        pass
    except AudioError as error:
        if not seconds:  # nothing was read, so no file is written
            raise
        problem = error
    finally:
        # The program behind a microphone ends at once, not when the iterator is collected.
        getattr(source, "close", lambda: None)()
    write(Audio(clean.finish(), clean.rate))
    return seconds, problem
