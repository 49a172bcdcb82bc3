"""What was heard, in the forms of OpenAI's interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from openrknn.serve.errors import ServeError
from openrknn.serve.rest.openai import event, failed_event
from openrknn.serve.voice.names import name_of_language
from openrknn.serve.voice.operations import Listened, Step
from openrknn.serve.voice.rows import TokenLog
from openrknn.voice.results import Segment, Transcript

__all__ = ["diarized", "languages_of", "logprobs", "plain", "streamed", "usage", "verbose"]


def plain(found: Listened, *, has_logs: bool) -> dict[str, Any]:
    """`json`."""
    words: dict[str, Any] = {"text": found.transcript.text, "usage": usage(found.transcript.seconds)}
    if languages := languages_of(found.transcript.segments):
        words["languages"] = languages
    if has_logs:
        words["logprobs"] = logprobs(found.logs)
    return {**words, **_warnings(found.transcript.warnings)}


def verbose(found: Transcript, granularities: frozenset[str]) -> dict[str, Any]:
    """`verbose_json`. What a model cannot tell is null."""
    words: dict[str, Any] = {
        "task": found.task,
        "language": "english" if found.task == "translate" else name_of_language(found.language),
        "duration": round(found.seconds, 3),
        "text": found.text,
    }
    if "segment" in granularities:
        words["segments"] = [_segment(number, one) for number, one in enumerate(found.segments)]
    if "word" in granularities:
        words["words"] = [
            {"word": word.text.strip(), "start": round(word.start, 3), "end": round(word.end, 3)}
            for one in found.segments
            for word in one.words
        ]
    return {**words, "usage": usage(found.seconds), **_warnings(found.warnings)}


def diarized(found: Transcript) -> dict[str, Any]:
    """`diarized_json`."""
    return {
        "task": found.task, "duration": round(found.seconds, 3), "text": found.text,
        "segments": [_spoken(number, one) for number, one in enumerate(found.segments)],
        "usage": usage(found.seconds), **_warnings(found.warnings),
    }  # fmt: skip


def _spoken(number: int, one: Segment) -> dict[str, Any]:
    return {
        "type": "transcript.text.segment", "id": f"seg_{number:03d}", "start": round(one.start, 3),
        "end": round(one.end, 3), "text": one.text, "speaker": one.speaker,
    }  # fmt: skip


def _segment(number: int, one: Segment) -> dict[str, Any]:
    return {
        "id": number, "seek": round(100 * one.start), "start": round(one.start, 3), "end": round(one.end, 3),
        "text": one.text, "tokens": list(one.tokens), "temperature": one.temperature,
        "avg_logprob": _rounded(one.avg_logprob), "compression_ratio": _rounded(one.compression_ratio),
        "no_speech_prob": _rounded(one.no_speech_prob),
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _warnings(some: Iterable[str]) -> dict[str, Any]:
    told = list(some)
    return {"warnings": told} if told else {}


def languages_of(segments: Iterable[Segment]) -> list[dict[str, str]]:
    """Those that were detected, in their order; none if detection was off."""
    return [{"code": code} for code in dict.fromkeys(one.language for one in segments if one.language)]


def logprobs(logs: Iterable[TokenLog]) -> list[dict[str, Any]]:
    """One row a token."""
    return [
        {"token": text.decode("utf-8", "replace"), "bytes": list(text), "logprob": round(log, 5)} for text, log in logs
    ]  # fmt: skip


def usage(seconds: float) -> dict[str, Any]:
    """What OpenAI would take money for."""
    return {"type": "duration", "seconds": round(seconds, 3)}


async def streamed(steps: AsyncGenerator[float | Step], seconds: float, *, has_logs: bool) -> AsyncIterator[bytes]:
    """Server-sent events, a delta for each segment."""
    whole, segments, logs, warnings = "", list[Segment](), list[TokenLog](), tuple[str, ...]()
    try:
        async with aclosing(steps):  # a client that goes away gives the voice back at once
            async for step in steps:
                assert isinstance(step, Step)
                warnings = step.warnings
                said = [one for one in step.segments if one.text.strip()]
                for number, one in enumerate(said):
                    delta = f" {one.text.strip()}" if whole else one.text.strip()
                    whole += delta
                    words: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta}
                    if has_logs and number == 0:  # of all that this step brought
                        words["logprobs"] = logprobs(step.logs)
                    yield event(words)
                segments += said
                logs += step.logs
                if step.speakers and len(step.speakers) == len(segments):  # who is who is known at the end
                    for number, (one, name) in enumerate(zip(segments, step.speakers, strict=True)):
                        yield event(_spoken(number, replace(one, speaker=name)))
    except ServeError as error:
        yield failed_event(error)
        return
    done: dict[str, Any] = {"type": "transcript.text.done", "text": whole, "usage": usage(seconds)}
    if languages := languages_of(segments):
        done["languages"] = languages
    if has_logs:
        done["logprobs"] = logprobs(logs)
    yield event({**done, **_warnings(warnings)})
    yield b"data: [DONE]\n\n"
