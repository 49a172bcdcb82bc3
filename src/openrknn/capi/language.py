"""A language model that a C program opened with `rkllm_init`: its conversation, and one run at a time."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from openrknn.capi.call import CallError, Code
from openrknn.llm.generation.events import Event, Statistics
from openrknn.llm.generation.generator import Stream
from openrknn.llm.generation.model import LanguageModel
from openrknn.llm.generation.promptcache import load_prompt, save_prompt
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.weights import Floats

PERFORMANCE = struct.Struct("<fifif")
"""RKLLMPerfStat: milliseconds and tokens of the prompt, milliseconds and tokens of what was generated, megabytes."""


class State(IntEnum):
    """LLMCallState."""

    NORMAL = 0
    WAITING = 1
    FINISH = 2
    ERROR = 3


class Mode(IntEnum):
    """RKLLMInferMode."""

    GENERATE = 0
    HIDDEN = 1
    LOGITS = 2


class InputType(IntEnum):
    """RKLLMInputType."""

    PROMPT = 0
    TOKEN = 1
    EMBED = 2
    MULTIMODAL = 3


@dataclass(frozen=True)
class Told:
    """One call of the program's function."""

    state: State
    token: int = 0
    payload: bytes = b""
    rows: Floats | None = None
    mode: Mode = Mode.GENERATE
    """What the rows are."""


@dataclass(frozen=True)
class Wanted:
    """What `rkllm_run` asks for."""

    prompt: str | tuple[int, ...]
    request: Request
    mode: Mode = Mode.GENERATE
    role: str = "user"
    keeps_history: bool = False
    thinking: bool = False
    save_cache: str = ""
    """Where to write the prompt, for `load_cache` of another process."""


@dataclass
class _Template:
    """What `rkllm_set_chat_template` was given."""

    system: str
    prefix: str
    postfix: str


@dataclass
class _Run:
    wanted: Wanted
    tokens: list[int]
    stream: Stream | None
    prompt: tuple[int, ...] = ()
    waiting: list[Told] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class LanguageContext:
    """One model, its conversation and its run. Calls of several threads take turns, except `stop`."""

    def __init__(self, model: LanguageModel, *, keep: int = 0, ignores_end: bool = False) -> None:
        self._model, self._generator = model, model.generator
        self.keep, self.ignores_end = keep, ignores_end
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._is_stopped = False
        self._messages: list[dict[str, Any]] = []
        self._system = ""
        self._tools: list[Any] | None = None
        self._template: _Template | None = None
        self._past: list[int] = []
        """What the conversation is made of so far, with keep_history."""
        self._length = 0
        self._shared: int | None = None

    @property
    def length(self) -> int:
        """Positions of the cache that the last run left."""
        return self._length

    # ---------------------------------------------------------------- settings

    def set_template(self, system: str, prefix: str, postfix: str) -> None:
        """Use these texts instead of the template in the model's file."""
        with self._lock:
            self._template = _Template(system, prefix, postfix)
            self._forget(keep_system=False)

    def set_tools(self, system: str, tools: str) -> None:
        """Functions that the model may call, as JSON; the template of the file shows them to it."""
        try:
            found = json.loads(tools)
        except ValueError as error:
            raise CallError(Code.PARAM_INVALID, f"tools is no JSON: {error}") from None
        if not isinstance(found, list):
            raise CallError(Code.PARAM_INVALID, "tools is a JSON list of functions")
        if self._model.template is None:
            raise CallError(Code.PARAM_INVALID, "the model's file has no chat template to show functions with")
        with self._lock:
            self._tools, self._system, self._template = found, system, None
            self._forget(keep_system=True)

    def clear(self, *, keep_system: bool, first: int = -1, end: int = -1) -> None:
        """Forget the conversation, or its positions from `first` to `end`, which is its end."""
        with self._lock:
            if first < 0:
                self._forget(keep_system=keep_system)
                return
            if end < self._length:
                raise CallError(
                    Code.PARAM_INVALID,
                    f"positions {first} to {end} are in the middle of {self._length}; only the end can be removed",
                )
            self._messages.clear()
            self._past = self._past[:first]
            self._length = min(first, self._length)

    def load_cache(self, path: str) -> None:
        """Read a prompt that a run with `save_cache` wrote: prompts that begin with it begin behind it."""
        try:
            with self._lock:
                load_prompt(self._model, path)
        except OSError as error:
            raise CallError(Code.PARAM_INVALID, f"{path}: {error.strerror}") from None

    def _forget(self, *, keep_system: bool) -> None:
        if not keep_system:
            self._system = ""
        self._messages.clear()
        self._past.clear()
        self._length = 0

    # ---------------------------------------------------------------- runs

    def start(self, wanted: Wanted) -> None:
        """Begin a run; `next` brings what comes of it."""
        with self._lock:
            self._end_run()
            tokens = self._tokens(wanted)
            self._is_stopped = False
            if wanted.mode is Mode.GENERATE:
                self._run = _Run(wanted, tokens, self._generator.stream(tokens, wanted.request), tuple(tokens))
            else:
                rows = self._logits(tokens) if wanted.mode is Mode.LOGITS else self._model.hidden(tokens)
                self._run = _Run(wanted, tokens, None, waiting=_rows_told(rows, wanted.mode))
                self._length = len(tokens)

    def next(self) -> Told:
        """What the program's function is called with next; after FINISH there is nothing."""
        with self._lock:
            run = self._run
            if run is None:
                raise CallError(Code.FAIL, "no run is in progress")
            if run.waiting:
                told = run.waiting.pop(0)
                if told.state is State.FINISH:
                    self._run = None
                return told
            assert run.stream is not None
            if self._is_stopped:
                run.stream.close()
            try:
                event = next(run.stream)
            except BaseException:
                self._run = None
                raise
            return self._told(run, event)

    def share(self, rows: Floats) -> int:
        """A descriptor of memory with these numbers, valid until the next call of this."""
        self._close_shared()
        self._shared = os.memfd_create("openrknn-rows", os.MFD_CLOEXEC)
        with open(self._shared, "wb", closefd=False) as file:
            file.write(rows.data)
        return self._shared

    def _close_shared(self) -> None:
        if self._shared is not None:
            os.close(self._shared)
            self._shared = None

    def stop(self) -> None:
        """End the run before its next token. Does not wait."""
        self._is_stopped = True

    def close(self) -> None:
        """Give the model back."""
        self.stop()
        with self._lock:
            self._end_run()
            self._close_shared()
            self._model.close()

    def _end_run(self) -> None:
        if self._run is not None and self._run.stream is not None:
            self._run.stream.close()
        self._run = None

    def _told(self, run: _Run, event: Event) -> Told:
        run.text.append(event.text)
        if event.token is not None:
            run.tokens.append(event.token)
        if event.finish is None:
            state = State.NORMAL if event.text else State.WAITING
            return Told(state, event.token or 0, event.text.encode())
        self._finish(run)
        last = Told(State.FINISH, payload=_performance(event.statistics))
        if event.text:  # held back until now, because it could have become a stop string
            run.waiting.append(last)
            return Told(State.NORMAL, run.tokens[-1], event.text.encode())
        self._run = None
        return last

    def _finish(self, run: _Run) -> None:
        self._length = len(run.tokens)
        if run.wanted.save_cache:
            save_prompt(self._model, run.prompt, run.wanted.save_cache)
        if run.wanted.keeps_history:
            self._past = list(run.tokens)
            if isinstance(run.wanted.prompt, str):
                self._messages.append({"role": run.wanted.role, "content": run.wanted.prompt})
                self._messages.append({"role": "assistant", "content": "".join(run.text)})
        else:
            self._messages.clear()
            self._past.clear()

    def _logits(self, tokens: Sequence[int]) -> Floats:
        engine = self._generator.engine
        cache = engine.new_cache()
        try:
            return engine.forward(cache, tokens, all_logits=True)
        finally:
            cache.close()

    # ---------------------------------------------------------------- prompts

    def _tokens(self, wanted: Wanted) -> list[int]:
        vocabulary = self._generator.vocabulary
        past = list(self._past) if wanted.keeps_history else []
        if not isinstance(wanted.prompt, str):
            return [*past, *wanted.prompt]
        if self._template is not None:
            begin = "" if past else self._template.system
            text = f"{begin}{self._template.prefix}{wanted.prompt}{self._template.postfix}"
            return [*past, *vocabulary.encode(text)]
        if self._model.template is None:
            return [*past, *vocabulary.encode(wanted.prompt)]
        system = [{"role": "system", "content": self._system}] if self._system else []
        earlier = self._messages if wanted.keeps_history else []
        messages = [*system, *earlier, {"role": wanted.role, "content": wanted.prompt}]
        return self._model.chat_tokens(messages, self._tools, enable_thinking=wanted.thinking)


def _rows_told(rows: Floats, mode: Mode) -> list[Told]:
    found = np.ascontiguousarray(rows, np.float32)
    finish = Told(State.FINISH, payload=_performance(Statistics(prompt_tokens=len(found))))
    return [Told(State.NORMAL, rows=found, mode=mode), finish]


def _performance(found: Statistics) -> bytes:
    return PERFORMANCE.pack(
        found.prompt_seconds * 1000, found.prompt_tokens, (found.total_seconds - found.first_seconds) * 1000,
        found.generated_tokens, _peak_memory_mb(),
    )  # fmt: skip


def _peak_memory_mb() -> float:
    with open(f"/proc/{os.getpid()}/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def sampling_of(values: Mapping[str, float]) -> Sampling:
    """The program's sampling parameters. top_k 1 is the most probable token, whatever the temperature."""
    if values.get("mirostat"):
        raise CallError(Code.PARAM_INVALID, "mirostat is not supported; use top_k, top_p and temperature")
    top_k = int(values.get("top_k", 40))
    return Sampling(
        temperature=0.0 if top_k == 1 else values.get("temperature", 0.8),
        top_k=max(top_k, 0),
        top_p=values.get("top_p", 0.9),
        repetition_penalty=values.get("repeat_penalty", 1.0) or 1.0,
        frequency_penalty=values.get("frequency_penalty", 0.0),
        presence_penalty=values.get("presence_penalty", 0.0),
    )
