"""`openrknn transcribe`: sound in, text out."""

from __future__ import annotations

import argparse

from openrknn.cli.common.options import number
from openrknn.cli.common.output import Output
from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.common.sounds import add_rate

NAME = "transcribe"
HELP = "write down what is said in a recording, a stream or at the microphone"
DESCRIPTION = """Write down what is said: in a file (WAV of any kind and rate; other formats with soundfile or ffmpeg),
on standard input (-: the same formats, seen in the first bytes; raw 16-bit samples with --rate) or at the microphone
(mic, or mic:DEVICE). Pauses, which the set silero-vad finds, cut the sound into segments with times. The model is a
set of `openrknn voice get`; it runs on the NPU, or on the software NPU where there is none. Ctrl-C ends with what was
heard until then."""
EXAMPLES = (
    "openrknn transcribe talk.wav",
    "openrknn transcribe rede.wav --model whisper-base --language de",
    "openrknn transcribe mic --live                              words while they are spoken",
    "openrknn transcribe film.mp4 --srt film.srt --vtt film.vtt  subtitles",
    "ffmpeg -i rtsp://camera/ -f wav - | openrknn transcribe - --live --json    one object a line",
    "openrknn transcribe talk.wav --report talk.html             sound, speech and words over time",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("audio", metavar="AUDIO", help="a file, - for standard input, or mic")
    parser.add_argument("--model", metavar="SET", default="moonshine-tiny", help="a set by name or folder")
    parser.add_argument("--language", metavar="CODE", default="", help="spoken language, such as de (default: auto)")
    tasks = ("transcribe", "translate")
    parser.add_argument("--task", choices=tasks, default="transcribe", help="translate: write English (Whisper)")
    parser.add_argument("--word-timestamps", action="store_true", help="with --json: times of every word")
    parser.add_argument("--prompt", metavar="TEXT", default="", help="text that could have come before: names, terms")
    parser.add_argument("--hotwords", metavar="TEXT", default="", help="words to expect, told to every window")
    parser.add_argument("--srt", metavar="OUT", action=OutputFile, help="write SubRip subtitles")
    parser.add_argument("--vtt", metavar="OUT", action=OutputFile, help="write WebVTT subtitles")
    report = "write a page that shows sound and words over time"
    parser.add_argument("--report", metavar="OUT", action=OutputFile, kind=PAGE, help=report)
    parser.add_argument("--live", action="store_true", help="show words while they are spoken; with --json: JSON lines")
    partial = number("a time between partial results, 0.05 to 60 seconds", 0.05, 60)
    parser.add_argument("--partial", metavar="S", type=partial, default=0.25, help="between partial results (0.25)")
    cost = number("what partial results may cost beside final ones, 0 to 100 times as much", 0, 100)
    share = "their cost, by that of final ones (0.4)"
    parser.add_argument("--partial-cost", metavar="X", type=cost, default=0.4, help=share)
    beam = number("a number of beams, 1 to 16", 1, 16, whole=True)
    parser.add_argument("--beam", metavar="N", type=beam, default=1, help="texts followed side by side (1: greedy)")
    parser.add_argument("--vad", metavar="SET", default="silero-vad", help="set that finds speech, or loudness")
    parser.add_argument("--no-vad", action="store_true", help="look for no pauses: cut by the clock")
    keep = "keep text that is probably invented: of noise, or another language"
    parser.add_argument("--no-filters", action="store_true", help=keep)
    speakers = "say who speaks: N speakers, or as many as there are"
    many = number("a number of speakers, 1 to 64", 1, 64, whole=True)
    parser.add_argument("--speakers", metavar="N", nargs="?", type=many, const=0, help=speakers)
    add_rate(parser)
    devices = "auto, software, software:CHIP, rknpu, rocket or vendor[:LIBRARY] (default: auto)"
    parser.add_argument("--device", default="auto", help=devices)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Listen."""
    from openrknn.cli.transcribe.listening import run_transcribe

    return run_transcribe(arguments, output)
