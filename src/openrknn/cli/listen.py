"""`openrknn listen`: wait for wake words."""

from __future__ import annotations

import argparse
import json
from time import perf_counter
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.sounds import add_rate, asked, check_source

if TYPE_CHECKING:
    from openrknn.voice import Detection

NAME = "listen"
HELP = "wait for wake words in a recording, a stream or at the microphone"
DESCRIPTION = """Wait for wake words with openWakeWord's nets, on the NPU, or on the software NPU where there is none.
Each time one is heard, its time, name and score are printed; with --json one object a line. The sound is a file, - for
standard input (raw 16-bit samples need --rate) or the microphone. `openrknn voice get hey_jarvis` (alexa, hey_mycroft,
hey_rhasspy, okay_nabu) makes the set of a word, `openrknn voice get my_word.tflite` that of your own."""
EXAMPLES = (
    "openrknn listen --wake hey_jarvis",
    "openrknn listen mic --wake hey_jarvis --wake alexa --threshold 0.6",
    "openrknn listen recording.wav --json                        all words that are installed",
    "openrknn listen --wake hey_jarvis --once && openrknn transcribe mic --live     then listen to what is said",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("audio", metavar="AUDIO", nargs="?", default="mic", help="a file, - for standard input, or mic")
    parser.add_argument(
        "--wake", metavar="WORD", action="append", help="a set by name or folder; several times: several words"
    )
    parser.add_argument("--threshold", metavar="X", type=float, default=0.5, help="a score from here on counts (0.5)")
    parser.add_argument("--pause", metavar="S", type=float, default=2.0, help="until a word is heard again (2 s)")
    parser.add_argument("--once", action="store_true", help="end with the first word that is heard")
    add_rate(parser)
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, rknpu, rocket or software")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Wait, and tell. The exit code is 1 if nothing was heard with --once."""
    from openrknn.voice.audio import blocks
    from openrknn.voice.wake import Wake

    check_source(arguments)
    if not 0 < arguments.threshold <= 1 or not 0 <= arguments.pause < float("inf"):
        raise CommandError("--threshold is a score over 0 and at most 1, --pause a time of 0 seconds or more")
    count, seconds, begun = 0, 0.0, perf_counter()
    with asked():
        opened = Wake(arguments.wake, arguments.device, arguments.threshold, pause=arguments.pause)
    with opened as wake:
        output.line(f"waiting for {', '.join(wake.words)}")
        source = blocks(arguments.audio, rate=wake.rate, raw_rate=arguments.rate)
        try:
            for block in source:
                seconds += len(block) / wake.rate
                for heard in wake.feed(block):
                    count += 1
                    _tell(heard, output)
                    if arguments.once:
                        return 0
        except KeyboardInterrupt:
            pass
        finally:
            # The program behind a microphone ends at once, not when the iterator is collected.
            getattr(source, "close", lambda: None)()
    took = perf_counter() - begun
    if not count:
        output.line(f"no word was heard in {seconds:.1f} s of sound")
    if seconds:
        output.line(f"{seconds:.1f} s of sound in {took:.1f} s, real-time factor {took / seconds:.2f}")
    return 1 if arguments.once else 0


def _tell(heard: Detection, output: Output) -> None:
    """At once: somebody waits at the other end of the pipe."""
    if output.is_json:
        row = {"word": heard.word, "time": round(heard.time, 3), "score": round(heard.score, 4)}
        output.stream.write(json.dumps(row) + "\n")
    else:
        output.value(f"{heard.time:9.2f}  {heard.word}  {heard.score:.2f}")
    output.stream.flush()
