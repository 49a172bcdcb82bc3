"""A voice of Piper as a set: text encoder, flow and decoder for the NPU in a few sizes, the rest for the CPU."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.vits.cut import Stages, VitsError, cut_vits
from openrknn.voice.piper.config import PiperConfig, read_config
from openrknn.voice.sets import VoiceSet, write_set

Progress = Callable[[str, int, int], None]
_LOG = logging.getLogger(__name__)
TEXTS = (64, 128, 256, 384)
"""Numbers of phonemes, with pads: 30, 60, 125 and 190 phonemes."""
FLOWS = (128, 384)
"""Frames: 1.5 and 4.5 seconds of 22 kHz; longer sentences are windows of them."""
DECODES = (64, 192)
"""Frames of a window of the decoder: the small ones for short sentences and for what is heard first."""


def make(
    source: Path, folder: Path, target: str = "rk3588", *, name: str = "", origin: str = "", config: Path | None = None,
    texts: Sequence[int] = TEXTS, flows: Sequence[int] = FLOWS, decodes: Sequence[int] = DECODES,
    exact: bool = True, progress: Progress | None = None,
) -> VoiceSet:  # fmt: skip
    """From VOICE.onnx, with VOICE.onnx.json beside it or named by `config`; or a folder with one of them.

    `exact`: the text encoder in float on the CPU. The flow of a trained voice amplifies what fp16 rounds
    there: with the encoder on the NPU a whole sentence is at 26 to 31 dB, with it in float at 44 in the mean.
    """
    path = _voice_in(source)
    beside = config or Path(f"{path}.json")
    wanted = read_config(beside)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(beside, folder / "config.json")
    files = {"config": "config.json"}
    options: dict[str, Any] = {}
    model = _read(path)
    _check_metadata(model, wanted, path)
    try:
        stages = cut_vits(model)
    except VitsError as error:
        _LOG.warning("%s: %s. So it is not cut and runs whole, on the CPU; a seed has no effect", path, error)
        files |= _whole(model, folder, target)
        options["why_whole"] = str(error)
    else:
        _check(stages, wanted, path)
        files |= _staged(stages, folder, target, (texts, flows, decodes), progress or (lambda *_: None), exact=exact)
        options |= {
            "texts": sorted(texts), "flows": _fitting(flows, stages.flow_reach, FLOWS),
            "decodes": _fitting(decodes, stages.decoder_reach, DECODES), "hop": stages.hop,
            "channels": stages.channels, "flow_reach": stages.flow_reach, "decoder_reach": stages.decoder_reach,
        }  # fmt: skip
    made = VoiceSet(
        folder, name or path.stem, "piper", "speaker", wanted.rate, language=_language(wanted), target=target,
        source=origin or path.name, files=files, options=options,
    )  # fmt: skip
    write_set(made)
    return made


def _voice_in(source: Path) -> Path:
    if source.is_file():
        # The config leads to its model as well.
        return source.with_suffix("") if source.name.endswith(".onnx.json") else source
    found = sorted(path for path in source.rglob("*.onnx") if Path(f"{path}.json").is_file()) if source.is_dir() else []
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:5]) or "none"
        raise VoiceSetError(f"{source}: one VOICE.onnx with its VOICE.onnx.json is needed here, found: {names}")
    return found[0]


def _read(path: Path) -> Any:
    from openrknn.compiler import read_model
    from openrknn.errors import RknnError

    try:
        return read_model(path)
    except RknnError as error:
        raise VoiceSetError(f"{path}: not a voice: {error}") from error


def _check_metadata(model: Any, config: PiperConfig, path: Path) -> None:
    """Files of some programs say their own rate and speakers."""
    said = {entry.key: entry.value for entry in model.metadata_props}
    for key, value, what in (
        ("sample_rate", config.rate, "audio.sample_rate"), ("n_speakers", config.speaker_count, "num_speakers"),
    ):  # fmt: skip
        if said.get(key, "").isdigit() and int(said[key]) != value and int(said[key]) > 0:
            raise VoiceSetError(
                f"{path}: the model says {key} {said[key]}, and its config says {value} for {what}; they do not belong "
                "together"
            )


def _check(stages: Stages, config: PiperConfig, path: Path) -> None:
    rows = len(stages.embedding)
    highest = max(max(numbers) for numbers in config.ids.values())
    if highest >= rows or config.symbols not in (0, rows):
        raise VoiceSetError(
            f"{path}: the model knows {rows} phonemes, and its config has num_symbols {config.symbols} and numbers up "
            f"to {highest} in phoneme_id_map; the config is that of another voice"
        )
    if config.hop and config.hop != stages.hop:
        raise VoiceSetError(
            f"{path}: the model makes {stages.hop} samples of a frame, and its config has hop_length {config.hop}; the "
            f"sample rate of {config.rate} is then wrong, too: the config is that of another voice"
        )
    speakers = 1 if stages.speakers is None else len(stages.speakers)
    if speakers != config.speaker_count:
        raise VoiceSetError(
            f"{path}: the model has {speakers} speakers, its config num_speakers {config.speaker_count}; the config is "
            "that of another voice"
        )


def _fitting(sizes: Sequence[int], reach: int, usual: Sequence[int]) -> list[int]:
    """Sizes that are larger than what a network sees; a network that looks further than usual gets larger windows."""
    found = sorted(size for size in set(sizes) if size > 3 * reach)
    return found or [max(*usual, 6 * reach)]


def _staged(
    stages: Stages, folder: Path, target: str, sizes: tuple[Sequence[int], Sequence[int], Sequence[int]],
    progress: Progress, *, exact: bool,
) -> dict[str, str]:  # fmt: skip
    from openrknn.compiler.float_model import onnx_package

    np.save(folder / "embedding.npy", stages.embedding)
    files = {"embedding": "embedding.npy", "durations": "durations.onnx"}
    row: dict[str, tuple[int, ...]] = {}
    if stages.speakers is not None:
        np.save(folder / "speakers.npy", stages.speakers)
        files["speakers"] = "speakers.npy"
        row = {"speaker": (1, stages.speakers.shape[1])}
    onnx_package().save(stages.durations, str(folder / "durations.onnx"))
    texts, flows, decodes = sizes
    flows = _fitting(flows, stages.flow_reach, FLOWS)
    decodes = _fitting(decodes, stages.decoder_reach, DECODES)
    width = stages.embedding.shape[1]
    plans: dict[str, list[Mapping[str, Sequence[int]]]] = {
        "encoder": [{"embedded": (1, size, width), "mask": (1, 1, size)} for size in sorted(texts)],
        "flow": [{"latent": (1, stages.channels, size), "mask": (1, 1, size), **row} for size in flows],
        "decoder": [{"z": (1, stages.channels, size), **row} for size in decodes],
    }
    if exact:
        del plans["encoder"]
        files["float_encoder"] = "encoder.onnx"
        onnx_package().save(stages.encoder, str(folder / "encoder.onnx"))
    for number, (role, shapes) in enumerate(plans.items()):
        progress(f"compiling the {role} for {len(shapes)} lengths", number, len(plans))
        model = getattr(stages, role)
        known = {entry.name for entry in model.graph.input}
        bound = [{key: value for key, value in shape.items() if key in known} for shape in shapes]
        files[role] = _bundle(model, folder / f"{role}.rknnz", target, bound)
    progress("compiled", len(plans), len(plans))
    return files


def _bundle(model: Any, path: Path, target: str, shapes: Sequence[Mapping[str, Sequence[int]]]) -> str:
    from openrknn.container.bundle import write_bundle
    from openrknn.partition import PartitionOptions, make_bundle

    options = PartitionOptions(target=target, precision="fp16", prefer="npu", shapes=shapes, probe=False, cache=False)
    path.write_bytes(write_bundle(make_bundle(model, options)))
    return path.name


def _whole(model: Any, folder: Path, target: str) -> dict[str, str]:
    from openrknn.container.bundle import write_bundle
    from openrknn.partition import PartitionOptions
    from openrknn.partition.make import whole_bundle

    bundle = whole_bundle(model, PartitionOptions(target=target))
    (folder / "whole.rknnz").write_bytes(write_bundle(bundle))
    return {"whole": "whole.rknnz"}


def _language(config: PiperConfig) -> str:
    return (config.language or config.espeak_voice or "en").replace("_", "-")
