"""LSTM, GRU and RNN, step after step: gates in ONNX's order, one or both directions.

The compiler's exLSTM and exGRU have the same first inputs. Behind them come memory for dropout and for a projection,
which it leaves at zero; initial states may be padded to whole lanes of the NPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, integer, number, optional, text
from openrknn.runtime.operators.unary import sigmoid

_Activation: TypeAlias = Callable[[Array], Array]
_Step: TypeAlias = Callable[["_Weights", Array, tuple[Array, ...]], tuple[Array, ...]]
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_LSTM_GATES = 4
_FUNCTIONS: dict[str, _Activation] = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: np.asarray(x / (1 + np.abs(x))),
    "Softplus": lambda x: np.logaddexp(x, 0),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
}


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of one direction."""

    w: Array
    r: Array
    wb: Array
    rb: Array
    peephole: Array
    functions: tuple[_Activation, ...]
    after_reset: bool
    """GRU: the reset gate is applied to the product with the state instead of to the state."""


def lstm(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """All hidden states, the last one, and the last cell state."""
    return _run(inputs, attributes, gates=_LSTM_GATES, states=2, functions=("Sigmoid", "Tanh", "Tanh"), step=_lstm_step)


def gru(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """All hidden states, and the last one."""
    return _run(inputs, attributes, gates=3, states=1, functions=("Sigmoid", "Tanh"), step=_gru_step)


def rnn(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """The plain recurrent network: all hidden states, and the last one."""
    return _run(inputs, attributes, gates=1, states=1, functions=("Tanh",), step=_rnn_step)


def _lstm_step(weights: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    """Gates i, o, f, c; c' = f c + i g, h' = o tanh(c')."""
    hidden, cell = state
    i, o, f, g = np.split(x @ weights.w.T + weights.wb + hidden @ weights.r.T + weights.rb, 4, axis=-1)
    pi, po, pf = weights.peephole
    gate, inner, outer = weights.functions
    new = gate(f + pf * cell) * cell + gate(i + pi * cell) * inner(g)
    return gate(o + po * new) * outer(new), new


def _gru_step(weights: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    """Gates z, r, h; h' = (1 - z) n + z h."""
    (hidden,) = state
    size = hidden.shape[-1]
    gate, inner = weights.functions
    left, right = x @ weights.w.T + weights.wb, hidden @ weights.r[: 2 * size].T + weights.rb[: 2 * size]
    z, r = np.split(gate(left[..., : 2 * size] + right), 2, axis=-1)
    last, bias = weights.r[2 * size :].T, weights.rb[2 * size :]
    through = r * (hidden @ last + bias) if weights.after_reset else (r * hidden) @ last + bias
    return ((1 - z) * inner(left[..., 2 * size :] + through) + z * hidden,)


def _rnn_step(weights: _Weights, x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    (hidden,) = state
    return (weights.functions[0](x @ weights.w.T + weights.wb + hidden @ weights.r.T + weights.rb),)


def _run(
    inputs: Inputs, attributes: Attributes, *, gates: int, states: int, functions: tuple[str, ...], step: _Step
) -> Sequence[Array]:
    """x is [steps, batch, size]; `layout` 1 has the batch in front, everywhere."""
    x, w, r = (np.asarray(array, np.float64) for array in inputs[:3])
    first = integer(attributes, "layout", 0)
    x = x.swapaxes(0, 1) if first else x
    word = text(attributes, "direction", "forward")
    _check(x, w, r, gates, word)
    hidden = r.shape[2]
    starts = [_start(optional(inputs, 5 + k), (len(w), x.shape[1], hidden), bool(first)) for k in range(states)]
    lengths = optional(inputs, 4)
    if lengths is not None and (lengths.size != x.shape[1] or np.any(lengths != len(x))):
        raise UnsupportedError("sequences of different lengths in one batch")
    outputs: list[Array] = []
    finals: list[tuple[Array, ...]] = []
    for number_, backwards in enumerate(_DIRECTIONS[word]):
        weights = _weights(inputs, attributes, number_, functions)
        state = tuple(start[number_] for start in starts)
        steps: list[Array] = []
        for now in x[::-1] if backwards else x:
            with np.errstate(over="ignore"):  # the sigmoid of a very small number
                state = step(weights, now, state)
            steps.append(state[0])
        outputs.append(np.stack(steps[::-1] if backwards else steps) if steps else np.zeros((0, x.shape[1], hidden)))
        finals.append(state)
    every = np.stack(outputs, axis=1)
    last = [np.stack([state[k] for state in finals]) for k in range(states)]
    if first:
        every, last = every.transpose(2, 0, 1, 3), [array.swapaxes(0, 1) for array in last]
    return [every, *last]


def _check(x: Array, w: Array, r: Array, gates: int, word: str) -> None:
    count = len(_DIRECTIONS.get(word, ()))
    good = x.ndim == w.ndim == r.ndim == 3 and count == len(w) == len(r) and w.shape[2] == x.shape[2]
    if not good or w.shape[1] != gates * r.shape[2] or r.shape[1] != w.shape[1]:
        sizes = ", ".join(str(list(array.shape)) for array in (x, w, r))
        raise UnsupportedError(f"direction {word!r} with input and weights of {sizes}")


def _start(given: Array | None, wanted: Shape, batch_first: bool) -> Array:
    """A state before the first step; numbers behind the last hidden unit fill the NPU's lanes."""
    if given is None:
        return np.zeros(wanted)
    state = np.asarray(given, np.float64)
    state = state.swapaxes(0, 1) if batch_first and state.ndim == 3 else state
    if state.ndim != 3 or state.shape[:2] != wanted[:2] or state.shape[2] < wanted[2]:
        raise UnsupportedError(f"an initial state of {list(state.shape)} for {list(wanted)}")
    return state[..., : wanted[2]]


def _weights(inputs: Inputs, attributes: Attributes, index: int, functions: tuple[str, ...]) -> _Weights:
    w, r = (np.asarray(array, np.float64)[index] for array in inputs[1:3])
    width, hidden = len(w), r.shape[1]
    given, peephole = optional(inputs, 3), optional(inputs, 7) if width == _LSTM_GATES * hidden else None
    if given is not None and given.size != len(inputs[1]) * 2 * width and not given.any():
        given = None  # the compiler's zeros, in whole lanes of the NPU
    bias = np.zeros(2 * width) if given is None else np.asarray(given, np.float64)[index].reshape(2 * width)
    extra = np.zeros(3 * hidden) if peephole is None else np.asarray(peephole, np.float64)[index].reshape(3 * hidden)
    return _Weights(
        w,
        r,
        bias[:width],
        bias[width:],
        extra.reshape(3, hidden),
        _functions(attributes, index, functions),
        bool(integer(attributes, "linear_before_reset", 0)),
    )


def _functions(attributes: Attributes, index: int, default: tuple[str, ...]) -> tuple[_Activation, ...]:
    names = [str(name) for name in attributes.get("activations") or () if name]
    words = names[index * len(default) :][: len(default)] or list(default)
    if len(words) != len(default) or any(word not in _FUNCTIONS for word in words):
        raise UnsupportedError(f"activations {names}")
    if number(attributes, "clip", 0.0) or integer(attributes, "input_forget", 0):
        raise UnsupportedError("gates that are clipped or coupled")
    return tuple(_FUNCTIONS[word] for word in words)
