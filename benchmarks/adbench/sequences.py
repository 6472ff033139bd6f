"""LSTM: how well a small net of memory cells predicts the next character of a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adbench.case import GRADIENT, Case, Function

FEATURES, LAYERS = 14, 2


def cell(xp: Any, weights: Any, biases: Any, hidden: Any, memory: Any, x: Any) -> tuple[Any, Any]:
    """One layer at one time: the gates have a weight for each feature."""

    def sigmoid(z: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-z))

    forget = sigmoid(x * weights[0] + biases[0])
    admit = sigmoid(hidden * weights[1] + biases[1])
    emit = sigmoid(x * weights[2] + biases[2])
    change = xp.tanh(hidden * weights[3] + biases[3])
    memory = memory * forget + admit * change
    return emit * xp.tanh(memory), memory


def step(xp: Any, main: Any, extra: Any, state: list[Any], x: Any, expected: Any) -> tuple[list[Any], Any]:
    """The states after one character, and the logarithm of the likelihood of the next one."""
    x, after = x * extra[0], []
    for k in range(0, 2 * LAYERS, 2):
        hidden, memory = cell(xp, main[k], main[k + 1], state[k], state[k + 1], x)
        after += [hidden, memory]
        x = hidden
    predicted = x * extra[1] + extra[2]
    return after, xp.sum(expected * (predicted - xp.log(xp.sum(xp.exp(predicted)) + 2.0)))


def objective(xp: Any) -> Function:
    """The loss as a loop over the characters."""

    def loss(main: Any, extra: Any, start: Any, text: Any) -> Any:
        main = main.reshape((2 * LAYERS, 4, FEATURES))
        state, total = [start[k] for k in range(2 * LAYERS)], 0.0
        for t in range(text.shape[0] - 1):
            state, term = step(xp, main, extra, state, text[t], text[t + 1])
            total = total + term
        return -total / ((text.shape[0] - 1) * FEATURES)

    return loss


def scanned(xp: Any, scan: Function) -> Function:
    """The loss by a function such as `jax.lax.scan`."""

    def loss(main: Any, extra: Any, start: Any, text: Any) -> Any:
        main = main.reshape((2 * LAYERS, 4, FEATURES))

        def body(state: list[Any], pair: Any) -> tuple[list[Any], Any]:
            return step(xp, main, extra, state, *pair)

        _, terms = scan(body, [start[k] for k in range(2 * LAYERS)], (text[:-1], text[1:]))
        return -xp.sum(terms) / ((text.shape[0] - 1) * FEATURES)

    return loss


def by_hand(main: Any, extra: Any, start: Any, text: Any) -> tuple[np.ndarray, np.ndarray]:
    """The gradient by going back through time; what does not depend on states is computed at once."""
    count = text.shape[0] - 1
    shaped = main.reshape((LAYERS, 2, 4, FEATURES))
    layers, x = [], text[:-1] * extra[0]
    for k in range(LAYERS):
        layers.append(_layer_forward(*shaped[k], start[2 * k], start[2 * k + 1], x))
        x = layers[-1]["hidden"][1:]
    predicted = x * extra[1] + extra[2]
    shares = np.exp(predicted)
    shares /= shares.sum(1, keepdims=True) + 2.0
    slope = (text[1:].sum(1, keepdims=True) * shares - text[1:]) / (count * FEATURES)
    by_main, by_extra = np.empty_like(shaped), np.empty_like(extra)
    by_extra[2], by_extra[1] = slope.sum(0), (slope * x).sum(0)
    slope = slope * extra[1]
    for k in reversed(range(LAYERS)):
        by_main[k, 0], by_main[k, 1], slope = _layer_backward(*shaped[k], layers[k], slope)
    by_extra[0] = (slope * text[:-1]).sum(0)
    return by_main.reshape(main.shape), by_extra


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def _layer_forward(w: Any, b: Any, hidden: Any, memory: Any, x: Any) -> dict[str, np.ndarray]:
    forget, emit = _sigmoid(x * w[0] + b[0]), _sigmoid(x * w[2] + b[2])
    count = len(x)
    kept = {"x": x, "forget": forget, "emit": emit}
    kept |= {name: np.empty((count, FEATURES)) for name in ("admit", "change", "squashed")}
    kept |= {name: np.empty((count + 1, FEATURES)) for name in ("hidden", "memory")}
    kept["hidden"][0], kept["memory"][0] = hidden, memory
    for t in range(count):
        admit, change = _sigmoid(hidden * w[1] + b[1]), np.tanh(hidden * w[3] + b[3])
        memory = memory * forget[t] + admit * change
        squashed = np.tanh(memory)
        hidden = emit[t] * squashed
        kept["admit"][t], kept["change"][t], kept["squashed"][t] = admit, change, squashed
        kept["hidden"][t + 1], kept["memory"][t + 1] = hidden, memory
    return kept


def _layer_backward(w: Any, b: Any, kept: dict[str, np.ndarray], slope: Any) -> tuple[Any, Any, Any]:
    x, forget, emit, admit = (kept[name] for name in ("x", "forget", "emit", "admit"))
    change, squashed, hidden = kept["change"], kept["squashed"], kept["hidden"][:-1]
    to_memory = emit * (1.0 - squashed**2)
    by_admit, by_change = change * admit * (1.0 - admit), admit * (1.0 - change**2)
    back = by_admit * w[1] + by_change * w[3]
    by_hidden, by_memory = np.empty_like(slope), np.empty_like(slope)
    h, m = 0.0, 0.0
    for t in reversed(range(len(x))):
        by_hidden[t] = h = h + slope[t]
        by_memory[t] = m = m + h * to_memory[t]
        h = m * back[t]
        m = m * forget[t]
    gates = np.empty((4, *slope.shape))
    gates[0] = by_memory * kept["memory"][:-1] * forget * (1.0 - forget)
    gates[1], gates[3] = by_memory * by_admit, by_memory * by_change
    gates[2] = by_hidden * squashed * emit * (1.0 - emit)
    by_weights = np.stack([(gates[k] * (hidden if k % 2 else x)).sum(0) for k in range(4)])
    return by_weights, gates.sum(1), gates[0] * w[0] + gates[2] * w[2]


def data(count: int) -> tuple[np.ndarray, ...]:
    """Random weights, and characters as the bits that they are coded by."""
    random = np.random.default_rng(0)
    main = random.normal(size=(2 * LAYERS, 4 * FEATURES))
    extra, start = random.normal(size=(3, FEATURES)), random.normal(size=(2 * LAYERS, FEATURES))
    return main, extra, start, random.integers(0, 2, size=(count, FEATURES)).astype(float)


def case(count: int) -> Case:
    """A row."""
    return Case(
        "LSTM",
        f"l = {LAYERS}, c = {count:,}",
        GRADIENT,
        objective,
        data(count),
        2,
        by_hand=by_hand,
        scanned=scanned,
        is_compiled=count < 50,
    )


def cases() -> Iterator[Case]:
    """All rows."""
    yield from map(case, (11, 101, 1024))
