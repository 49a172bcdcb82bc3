#!/usr/bin/env python3
"""A long stream of speech: is every segment there, does memory stay flat, how soon is the first partial result there.

    python benchmarks/voice_stream.py SET RECORDING.wav [...] [--seconds 3600] [--streams 1] [--activity silero-vad]

The recordings, each followed by a second of silence, are fed again and again in blocks of 0.1 s, as fast as they are
taken. Each time they must give the same final texts: a round is a whole number of the detector's frames long, so that
it cuts at the same samples. The delay of a first partial result is counted in audio time,
from the first frame that the activity detector takes for speech. `--streams` are fed in turn, a block each; they begin
at different recordings.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from openrknn.voice import Transcriber
from openrknn.voice.audio import read_audio, resample

Samples = npt.NDArray[np.float32]
_BLOCK = 0.1
"""Seconds."""
_ROUND = 12_800
"""Samples: a multiple of a block (1600) and of the frames of voice activity (512)."""


def megabytes() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Lane:
    """One stream."""

    def __init__(self, listen: Transcriber, parts: list[Samples], first: int) -> None:
        self.stream = listen.stream()
        self.pad = listen.rules.pad
        sound = np.concatenate(parts[first:] + parts[:first])
        self.sound = np.pad(sound, (0, -len(sound) % _ROUND))
        self.at = 0
        self.fed = 0.0
        self.texts: list[list[str]] = [[]]
        self.delays: list[float] = []
        self._begun: set[int] = set()
        self._rate = listen.rate

    def feed(self) -> bool:
        """One block; whether the recordings are through."""
        count = int(_BLOCK * self._rate)
        block = self.sound[self.at : self.at + count]
        self.at += len(block)
        self.fed += len(block) / self._rate
        for segment in self.stream.feed(block):
            if segment.final:
                if segment.text:
                    self.texts[-1].append(segment.text)
            elif segment.index not in self._begun:
                self._begun.add(segment.index)
                speech = segment.start + self.pad if segment.start > 0 else 0.0
                self.delays.append(self.fed - speech)
        if self.at < len(self.sound):
            return False
        self.at = 0
        self.texts.append([])
        return True


def main() -> None:
    """Feed, count, say what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set")
    parser.add_argument("recordings", nargs="+")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--activity", default="silero-vad")
    parser.add_argument("--device", default="software")
    args = parser.parse_args()
    with Transcriber(args.set, args.device, activity=args.activity) as listen:
        silence = np.zeros(listen.rate, np.float32)
        parts = []
        for path in args.recordings:
            audio = read_audio(path)
            parts += [np.concatenate([resample(audio.samples, audio.rate, listen.rate), silence])]
        lanes = [Lane(listen, parts, number % len(parts)) for number in range(args.streams)]
        cpu = time.process_time()
        rounds = 0
        while lanes[0].fed < args.seconds:
            for lane in lanes:
                is_round = lane.feed()
                if is_round and lane is lanes[0]:
                    rounds += 1
                    words = sum(len(text.split()) for text in lane.texts[-2])
                    print(f"{lane.fed:7.1f} s  {megabytes():7.1f} MB  {len(lane.texts[-2])} segments  {words} words  "
                          f"{time.process_time() - cpu:.0f} s of CPU", flush=True)  # fmt: skip
        for number, lane in enumerate(lanes):
            lane.stream.finish()
            whole = lane.texts[:-1]
            same = sum(texts == whole[0] for texts in whole)
            late = max(lane.delays, default=0.0)
            print(f"stream {number}: {lane.fed:.0f} s, {same} of {len(whole)} rounds have the text of the first; "
                  f"first partial result after {late * 1000:.0f} ms at most, {len(lane.delays)} of them")  # fmt: skip
        spent, seconds = time.process_time() - cpu, sum(lane.fed for lane in lanes)
        print(f"real-time factor {spent / seconds:.3f} in CPU time")


if __name__ == "__main__":
    main()
