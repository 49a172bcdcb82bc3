"""Language models: the functions of rkllm.h."""

from __future__ import annotations

import os

import numpy as np

from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.handlers import answers
from openrknn.capi.language import InputType, LanguageContext, Mode, Wanted, sampling_of
from openrknn.capi.wire import Operation
from openrknn.llm.generation.request import Request
from openrknn.llm.opening import open_model


@answers(Operation.LLM_INIT)
def init(program: Client, call: Call) -> Reply:
    """`rkllm_init`."""
    texts = _texts(call)
    capacity = int(_number(texts, "context", 512))
    if capacity < 1:
        raise CallError(Code.PARAM_INVALID, f"max_context_len is {capacity}; it is 1 or more")
    model = open_model(texts.get("model", ""), sequences=1, capacity=capacity)
    keep, ignores_end = int(_number(texts, "keep", 0)), bool(_number(texts, "ignore_eos", 0))
    context = LanguageContext(model, keep=max(keep, 0), ignores_end=ignores_end)
    return Reply(value=program.add_context(context), reason=model.details.notice)


@answers(Operation.LLM_RUN)
def run(program: Client, call: Call) -> Reply:
    """`rkllm_run`: everything is checked here, and `LLM_NEXT` computes."""
    context = program.context(call, LanguageContext)
    texts = _texts(call)
    names = ("top_k", "top_p", "temperature", "repeat_penalty", "frequency_penalty", "presence_penalty", "mirostat")
    sampling = sampling_of({name: _number(texts, name, 0.0) for name in names if name in texts})
    most = int(_number(texts, "max_new_tokens", -1))
    request = Request(
        sampling=sampling,
        max_tokens=most if most > 0 else None,
        ignore_end=context.ignores_end,
        shift=context.keep > 0,
        keep=context.keep,
    )
    try:
        mode = Mode(int(_number(texts, "mode", 0)))
    except ValueError:
        raise CallError(Code.PARAM_INVALID, f"inference mode {texts['mode']} is not known") from None
    context.start(
        Wanted(
            _prompt(call, texts), request, mode, texts.get("role") or "user",
            bool(_number(texts, "keep_history", 0)), bool(_number(texts, "thinking", 0)), texts.get("save_cache", ""),
        )
    )  # fmt: skip
    return OK


@answers(Operation.LLM_NEXT)
def following(program: Client, call: Call) -> Reply:
    """The next call of the program's function."""
    context = program.context(call, LanguageContext)
    told = context.next()
    if told.rows is None:
        return Reply(a=int(told.state), b=told.token, payload=told.payload)
    rows, columns = told.rows.shape
    shared = context.share(told.rows)
    return Reply(a=int(told.state), c=rows, d=columns, value=int(told.mode), descriptors=(shared,))


@answers(Operation.LLM_STOP)
def stop(program: Client, call: Call) -> Reply:
    """`rkllm_abort`."""
    program.context(call, LanguageContext).stop()
    return OK


@answers(Operation.LLM_CLEAR)
def clear(program: Client, call: Call) -> Reply:
    """`rkllm_clear_kv_cache`."""
    program.context(call, LanguageContext).clear(keep_system=bool(call.a), first=call.b, end=call.c)
    return OK


@answers(Operation.LLM_LENGTH)
def length(program: Client, call: Call) -> Reply:
    """`rkllm_get_kv_cache_size`."""
    return Reply(value=program.context(call, LanguageContext).length)


@answers(Operation.LLM_TEMPLATE)
def template(program: Client, call: Call) -> Reply:
    """`rkllm_set_chat_template`."""
    texts = _texts(call)
    parts = (texts.get(name, "") for name in ("system", "prefix", "postfix"))
    program.context(call, LanguageContext).set_template(*parts)
    return OK


@answers(Operation.LLM_TOOLS)
def tools(program: Client, call: Call) -> Reply:
    """`rkllm_set_function_tools`."""
    texts = _texts(call)
    program.context(call, LanguageContext).set_tools(texts.get("system", ""), texts.get("tools", "[]"))
    return OK


@answers(Operation.LLM_LOAD_CACHE)
def load_cache(program: Client, call: Call) -> Reply:
    """`rkllm_load_prompt_cache`."""
    program.context(call, LanguageContext).load_cache(_texts(call).get("path", ""))
    return OK


@answers(Operation.LLM_DESTROY)
def destroy(program: Client, call: Call) -> Reply:
    """`rkllm_destroy`."""
    context = program.context(call, LanguageContext)
    program.contexts.pop(call.context, None)
    context.close()
    return OK


def _texts(call: Call) -> dict[str, str]:
    found = {}
    for record in bytes(call.payload).split(b"\0"):
        name, separator, value = record.decode("utf-8", "replace").partition("=")
        if separator:
            found[name] = value
    return found


def _number(texts: dict[str, str], name: str, otherwise: float) -> float:
    text = texts.get(name)
    try:
        return otherwise if text is None else float(text)
    except ValueError:
        raise CallError(Code.PARAM_INVALID, f"{name} is {text!r}, which is no number") from None


def _prompt(call: Call, texts: dict[str, str]) -> str | tuple[int, ...]:
    if call.a == InputType.PROMPT:
        return texts.get("prompt", "")
    if call.a != InputType.TOKEN:
        raise CallError(Code.PARAM_INVALID, f"inputs of type {call.a} are not supported; pass a prompt or tokens")
    descriptor = call.take()
    try:
        data = os.pread(descriptor, call.b, 0)
    finally:
        os.close(descriptor)
    return tuple(int(token) for token in np.frombuffer(data[: len(data) // 4 * 4], "<i4"))
