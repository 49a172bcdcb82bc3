"""Kokoro-82M as a set: its products for the NPU in windows, the rest for the CPU, the styles of its voices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.onnxgraph import OnnxGraph
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.kokoro.symbols import RATE
from openrknn.voice.make.products import LEAST, split
from openrknn.voice.sets import VoiceSet, write_set

Progress = Callable[[str, int, int], None]
_USUAL = 64
"""Symbols of a usual sentence, for the sizes of windows."""


def make(
    source: Path, folder: Path, target: str = "rk3588", *, name: str = "kokoro", origin: str = "",
    more: Sequence[Path] = (), exact: bool = True, least: int = LEAST, progress: Progress | None = None,
) -> VoiceSet:  # fmt: skip
    """From a folder with kokoro*.onnx (or its parts, or model.onnx) and voices; `more`: folders with the rest of it.

    `exact`: durations and pitch are computed in float on the CPU: the source of the sound is a sine whose phase adds up
    the pitch of the whole sentence, so that fp16 would shift it. That keeps 5 % of the multiplications off the NPU.
    """
    places = [source, *more]
    model = _model(places)
    names, styles = _styles(places)
    graph = OnnxGraph(model)
    inputs = set(graph.inputs)
    ids = "input_ids" if "input_ids" in inputs else "tokens"
    if inputs != {ids, "style", "speed"} or not graph.outputs:
        raise VoiceSetError(
            f"{source}: inputs {', '.join(sorted(inputs)[:6])}; Kokoro has input_ids (or tokens), style and speed. A "
            "model in whole numbers (q8, q4) cannot be split: take the float one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "styles.npy", styles)
    sample = {
        ids: np.array([[0, *(43 + number % 20 for number in range(_USUAL)), 0]], np.int64),
        "style": styles[0, min(_USUAL, styles.shape[1] - 1)][None], "speed": np.ones(1, np.float32),
    }  # fmt: skip
    plan = split(
        model, folder, target, sample, float_above=_prosody if exact else (lambda _: set()), least=least,
        progress=progress,
    )  # fmt: skip
    if not plan.products:
        raise VoiceSetError(f"{source}: no product with float weights was found; take Kokoro's float model (fp32)")
    made = VoiceSet(
        folder, name, "kokoro", "speaker", RATE, language="en", target=target, licence="Apache-2.0",
        source=origin or source.name, files={"plan": "plan.json", "styles": "styles.npy"},
        options={"speakers": names, "exact": exact},
    )  # fmt: skip
    write_set(made)
    return made


def _prosody(graph: OnnxGraph) -> set[int]:
    """All that durations (Round) and the phase of the source (CumSum) are computed from."""
    ends = [node.output[0] for node in graph.nodes if node.op_type in ("Round", "CumSum")]
    return graph.above(ends)


def _model(places: Sequence[Path]) -> Any:
    from openrknn.compiler import read_model
    from openrknn.errors import RknnError

    found: list[Path] = [place for place in places if place.is_file() and place.suffix == ".onnx"]
    for place in places:
        found += [*sorted(place.rglob("kokoro*.onnx")), *sorted(place.rglob("model.onnx"))] if place.is_dir() else []
    try:
        return read_model(found[0] if found else _joined(places))
    except RknnError as error:
        raise VoiceSetError(f"{places[0]}: not a model of Kokoro: {error}") from error


def _joined(places: Sequence[Path]) -> bytes:
    """A model that its packages carry in parts: kokoro-fp32.part0.bin and so on, none missing."""
    parts: dict[int, Path] = {}
    for place in places:
        for path in place.rglob("kokoro*.part*.bin") if place.is_dir() else ():
            if match := re.search(r"\.part(\d+)\.bin$", path.name):
                parts[int(match[1])] = path
    if not parts or sorted(parts) != list(range(len(parts))):
        raise VoiceSetError(f"{places[0]}: no kokoro*.onnx here, and its parts are {sorted(parts) or 'missing, too'}")
    return b"".join(parts[number].read_bytes() for number in range(len(parts)))


def _styles(places: Sequence[Path]) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Names of voices and their styles, [voices, lengths, numbers]."""
    found: dict[str, npt.NDArray[np.float32]] = {}
    for place in places:
        around = place if place.is_dir() else place.parent
        for path in sorted(around.rglob("voices/*.bin")):
            found[path.stem] = _rows(path)
        for path in sorted(around.rglob("voices.bin")):  # sherpa-onnx: all voices in one file, without names
            for number, rows in enumerate(_rows(path).reshape(-1, 510, 256)):
                found.setdefault(f"{number:02}", rows)
    sizes = {rows.shape for rows in found.values()}
    if not found or len(sizes) != 1:
        raise VoiceSetError(
            f"{places[0]}: {'voices of different sizes' if found else 'no voices'}; they are the files voices/*.bin "
            "beside the model, as the package kokoro-js has them"
        )
    return list(found), np.stack(list(found.values()))


def _rows(path: Path) -> npt.NDArray[np.float32]:
    size = path.stat().st_size
    if size % 1024 or not 0 < size <= 1 << 28:
        raise VoiceSetError(f"{path}: {size} bytes; styles are rows of 256 floats")
    rows = np.fromfile(path, np.float32).reshape(-1, 256)
    if not np.isfinite(rows).all():
        raise VoiceSetError(f"{path}: holds numbers that are not finite")
    return rows
