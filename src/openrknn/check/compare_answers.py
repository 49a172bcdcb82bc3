"""A result of `openrknn.vision` beside the answer that is expected, and a result as an answer to be expected later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from openrknn.check.answer import Answer, Box, Label
from openrknn.evaluate.metrics.text import edits, spoken
from openrknn.quantities import count_of
from openrknn.vision.result import Result
from openrknn.vision.results import Areas, Objects, Ranking, Reading

_SHARE_WORTH_NOTING = 0.005
_MOST_SHOWN = 8


def judge_answer(result: Result, answer: Answer) -> tuple[list[str], str]:
    """What is wrong, one text each, and what was found in one line."""
    wrong: list[str] = []
    if result.found is None:
        return [result.problem], result.problem
    if answer.classes is not None:
        wrong += _classes(result, answer)
    if answer.boxes is not None:
        wrong += _boxes(result, answer, answer.boxes)
    if answer.counts is not None:
        wrong += _counts(result, answer)
    if answer.areas is not None:
        wrong += _areas(result, answer)
    if answer.text is not None:
        wrong += judge_text(_text(result), answer.text, answer.character_errors)[0]
    return wrong, _in_words(result)


def answer_of(result: Result) -> dict[str, Any]:
    """What to expect of a model that is as good as this one, with the tolerances written out."""
    match result.found:
        case Ranking():
            best = next(result.rows(1))
            name: Label = best["label"] if result.labels else best["class"]
            return {
                "classes": [name],
                "probability": round(best["probability"], 3),
                "probability_tolerance": 0.05,
            }
        case Objects() if result.found.texts is not None:
            return {"text": _text(result), "character_errors": 0.02}
        case Objects():
            limits: dict[str, Any] = {"iou": 0.7, "score_tolerance": 0.1, "extra": 0, "missing": 0}
            if result.found.keypoints is not None:
                limits["point_tolerance"] = 5.0
            if result.found.masks is not None:
                limits["mask_tolerance"] = 0.1
            return {"boxes": [_as_box(result, row) for row in result.rows()], **limits}
        case Areas():
            shares = {row["label"]: round(row["share"], 4) for row in result.rows()}
            kept = {name: share for name, share in shares.items() if share > _SHARE_WORTH_NOTING}
            return {"areas": kept, "share_tolerance": 0.02}
        case Reading():
            return {"text": result.found.text, "character_errors": 0.02}
        case _:
            return {}


def _as_box(result: Result, row: dict[str, Any]) -> dict[str, Any]:
    box: dict[str, Any] = {}
    if "class" in row:
        box["class"] = row["label"] if result.labels else row["class"]
    box |= {"box": [round(value, 1) for value in row["box"]], "score": round(row["score"], 3)}
    if "keypoints" in row:
        box["points"] = [[round(x, 1), round(y, 1)] for x, y, _ in row["keypoints"]]
    if "mask_pixels" in row:
        box["mask_pixels"] = row["mask_pixels"]
    return box


def _is(result: Result, number: int, label: Label | None) -> bool:
    """A class by its name, by its number, or any."""
    return label is None or (number == label if isinstance(label, int) else result.label(number) == label)


def _classes(result: Result, answer: Answer) -> Iterator[str]:
    found = result.found
    if not isinstance(found, Ranking):
        yield f"the model gives no classes of the whole picture (it is for {result.task}); expect boxes or areas"
        return
    wanted = answer.classes or ()
    reach = answer.within or len(wanted)
    best = found.classes[:reach].tolist()
    seen = ", ".join(
        f"{result.label(number)} {probability:.3f}"
        for number, probability in zip(best[:_MOST_SHOWN], found.probabilities[:reach].tolist(), strict=False)
    )
    for place, label in enumerate(wanted):
        others = best if answer.within else best[place : place + 1]
        if not any(_is(result, number, label) for number in others):
            where = f"among the best {reach}" if answer.within else f"number {place + 1}"
            yield f"{label!r} is not {where}; found: {seen}"
    if answer.probability is not None and wanted:
        rows = zip(found.classes.tolist(), found.probabilities.tolist(), strict=True)
        value = next((probability for number, probability in rows if _is(result, number, wanted[0])), 0.0)
        if abs(value - answer.probability) > answer.probability_tolerance:
            yield (
                f"the probability of {wanted[0]!r} is {value:.3f}; {answer.probability:g} "
                f"+- {answer.probability_tolerance:g} is expected"
            )


def _boxes(result: Result, answer: Answer, boxes: tuple[Box, ...]) -> Iterator[str]:
    found = result.found
    if not isinstance(found, Objects):
        yield f"the model gives no boxes (it is for {result.task})"
        return
    free = set(range(len(found)))
    missed = []
    for box in boxes:
        row, overlap = _best(result, found, box, free)
        if row is None or overlap < answer.iou:
            best = f" (the nearest overlaps by {overlap:.2f}; {answer.iou:g} is needed)" if overlap else ""
            missed.append(f"{_named(box)} was not found{best}")
            continue
        free.discard(row)
        yield from _fits(result, found, row, box, answer)
    if len(missed) > answer.missing:
        yield from missed
    if len(free) > answer.extra:
        rows = [f"{result.label(int(found.classes[row]))} {found.scores[row]:.2f}" for row in sorted(free)]
        more = ", ..." if len(rows) > _MOST_SHOWN else ""
        yield f"{count_of(len(free), 'box').replace('boxs', 'boxes')} too many: {', '.join(rows[:_MOST_SHOWN])}{more}"


def _best(result: Result, found: Objects, box: Box, free: set[int]) -> tuple[int | None, float]:
    """The free box of the same class that overlaps most; without corners, the one with the best score."""
    rows = [row for row in sorted(free) if _is(result, int(found.classes[row]), box.label)]
    if not rows:
        return None, 0.0
    if box.corners is None:
        return rows[0], 1.0
    overlaps = [_iou(found.boxes[row].tolist(), box.corners) for row in rows]
    at = int(np.argmax(overlaps))
    return rows[at], overlaps[at]


def _fits(result: Result, found: Objects, row: int, box: Box, answer: Answer) -> Iterator[str]:
    score = float(found.scores[row])
    if box.score is not None and abs(score - box.score) > answer.score_tolerance:
        yield f"{_named(box)}: the score is {score:.3f}; {box.score:g} +- {answer.score_tolerance:g} is expected"
    if box.points:
        points = found.keypoints[row, :, :2] if found.keypoints is not None else np.zeros((0, 2))
        if len(points) != len(box.points):
            yield f"{_named(box)}: {count_of(len(points), 'point')}; {len(box.points)} are expected"
        else:
            far = float(np.sqrt(((points - np.array(box.points)) ** 2).sum(-1)).max())
            if far > answer.point_tolerance:
                yield f"{_named(box)}: a point is {far:.1f} pixels off; {answer.point_tolerance:g} are allowed"
    if box.mask_pixels is not None:
        pixels = int(found.masks[row].sum()) if found.masks is not None else 0
        if abs(pixels - box.mask_pixels) > answer.mask_tolerance * max(box.mask_pixels, 1):
            yield f"{_named(box)}: the mask has {pixels} pixels; {box.mask_pixels} are expected"
    if box.text is not None:
        text = found.texts[row] if found.texts is not None else ""
        yield from judge_text(text, box.text, answer.character_errors)[0]


def _named(box: Box) -> str:
    place = "" if box.corners is None else f" at [{', '.join(f'{value:g}' for value in box.corners)}]"
    return f"{box.label if box.label is not None else 'a box'}{place}"


def _iou(one: Any, other: Any) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1])
    return float(width * height / (both - width * height))


def _counts(result: Result, answer: Answer) -> Iterator[str]:
    numbers = result.found.classes.tolist() if isinstance(result.found, Objects) else []
    counts = Counter(result.label(number) for number in numbers)
    for name, count in (answer.counts or {}).items():
        if counts[name] != count:
            yield f"{counts[name]} of {name!r}; {count:g} are expected"


def _areas(result: Result, answer: Answer) -> Iterator[str]:
    if not isinstance(result.found, Areas):
        yield f"the model gives no areas (it is for {result.task})"
        return
    shares = {result.label(number): share for number, share in result.found.shares().items()}
    for name, share in (answer.areas or {}).items():
        if abs(shares.get(name, 0.0) - share) > answer.share_tolerance:
            yield f"{name!r} is {shares.get(name, 0.0):.3f} of the picture; {share:g} is expected"


def _text(result: Result) -> str:
    match result.found:
        case Reading():
            return result.found.text
        case Objects() if result.found.texts is not None:
            return "\n".join(result.found.texts)
        case _:
            return ""


def _in_words(result: Result) -> str:
    match result.found:
        case Ranking():
            best = next(result.rows(1), None)
            return "nothing" if best is None else f"{best['label']} {best['probability']:.3f}"
        case Reading() | Objects() if _text(result):
            return f"{_text(result)!r:.60}"
        case _:
            return result.in_words()


def judge_transcript(found: str, expected: str, allowed: float) -> tuple[list[str], str]:
    """What is wrong, and what was measured."""
    wrong, of = edits(spoken(found), spoken(expected)), len(spoken(expected))
    return _judge(wrong / max(of, 1), allowed, f"{wrong} of {count_of(of, 'word')} wrong", (found, expected))


def judge_text(found: str, expected: str, allowed: float) -> tuple[list[str], str]:
    """`judge_transcript` for text in a picture; blanks at the ends of lines do not count."""
    one, other = ("\n".join(line.strip() for line in text.strip().splitlines()) for text in (found, expected))
    wrong, of = edits(one, other), len(other)
    return _judge(wrong / max(of, 1), allowed, f"{wrong} of {count_of(of, 'character')} wrong", (one, other))


def _judge(rate: float, allowed: float, words: str, texts: tuple[str, str]) -> tuple[list[str], str]:
    text = f"{words} ({100 * rate:.1f} %)"
    if rate <= allowed:
        return [], text
    return [f"{text}; {100 * allowed:g} % allowed: {texts[0]!r:.200} instead of {texts[1]!r:.200}"], text
