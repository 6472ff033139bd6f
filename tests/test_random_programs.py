"""Random programs of NumPy: in-place updates, views, lists, loops, and closures that change between calls.

Each program is run by NumPy itself. hesse must give the same value and the gradient that differences have, at
the first call and at the second one, for which what the program closes over has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hesse

SIZE = 4
State = dict[str, Any]
"""The arrays of a program by name, and `outside`: what it closes over."""
Step = tuple[str, str, str, int]
"""What is done, the arrays that it writes to and reads, and a number."""
NAMES = ("x", "a", "b", "v")
SLICES = (slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(0, SIZE, 2))


def matched(state: State, name: str, length: int) -> Any:
    """As many entries of an array as another one has."""
    value = state[name]
    return value[:length] if len(value) >= length else np.concatenate([value, value])[:length]


def add_in_place(state: State, to: str, of: str, k: int) -> None:
    target = state[to]
    target += matched(state, of, len(target)) * 0.5


def scale_in_place(state: State, to: str, of: str, k: int) -> None:
    target = state[to]
    target *= np.cos(matched(state, of, len(target)))


def divide_in_place(state: State, to: str, of: str, k: int) -> None:
    target = state[to]
    target /= 2.0 + matched(state, of, len(target)) ** 2


def write_entry(state: State, to: str, of: str, k: int) -> None:
    state[to][k % len(state[to])] = np.sin(state[of][0]) + state["outside"][k % 3]


def write_slice(state: State, to: str, of: str, k: int) -> None:
    part = state[to][SLICES[k % 5]]
    state[to][SLICES[k % 5]] = matched(state, of, len(part)) * 0.7


def write_where(state: State, to: str, of: str, k: int) -> None:
    mask = np.arange(len(state[to])) % 2 == k % 2
    state[to][mask] = state[of][k % len(state[of])]


def make_view(state: State, to: str, of: str, k: int) -> None:
    state["v"] = state[of][SLICES[k % 5]]


def make_copy(state: State, to: str, of: str, k: int) -> None:
    state[to] = state[of].copy()


def rebind(state: State, to: str, of: str, k: int) -> None:
    state[to] = np.tanh(state[of]) * state["outside"][k % 3]


def through_a_list(state: State, to: str, of: str, k: int) -> None:
    values = [value * (1.0 + 0.1 * i) for i, value in enumerate(state[of])]
    values.append(values[0] * values[-1])
    state[to] = np.stack(values[::-1])[:SIZE]


def through_an_array_of_entries(state: State, to: str, of: str, k: int) -> None:
    values = np.array([state[of][0] ** 2, state[to][-1], 0.3])
    values[1:] *= state[of][k % len(state[of])]
    state[to][0] = np.sum(values)


def scatter(state: State, to: str, of: str, k: int) -> None:
    np.add.at(state[to], [0, k % len(state[to]), 0], 0.3 * state[of][:1])


def helper(state: State, to: str, of: str, k: int) -> None:
    def normalise(w: Any) -> None:
        w /= 1.0 + np.sum(w**2)

    normalise(state[to])


def loop(state: State, to: str, of: str, k: int) -> None:
    total = 0.0
    for i in range(len(state[of]) - 1):
        total += state[of][i] * state[of][i + 1]
        state[to][i % len(state[to])] -= 0.1 * total


STEPS: dict[str, Callable[[State, str, str, int], None]] = {
    step.__name__: step
    for step in (
        *(add_in_place, scale_in_place, divide_in_place, write_entry, write_slice, write_where, make_view),
        *(make_copy, rebind, through_a_list, through_an_array_of_entries, scatter, helper, loop),
    )
}
WEIGHTS = np.array([0.7, -1.3, 0.4, 1.1])


def program(steps: list[Step], outside: Any) -> Callable[[Any], Any]:
    """A function that does the steps one after the other."""

    def run(x: Any) -> Any:
        state: State = {"x": x, "a": x * 1.0, "b": np.sin(x), "v": x * 2.0, "outside": outside}
        for name, to, of, k in steps:
            STEPS[name](state, to, of, k)
        parts = [np.sum(np.sin(state[name]) * WEIGHTS[: len(state[name])]) for name in NAMES]
        return parts[0] + 2.0 * parts[1] - parts[2] + 0.5 * parts[3]

    return run


def differences(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """The gradient by central differences; the function may change its argument."""
    units = 1e-5 * np.eye(len(x))
    return np.array([(function(x + unit) - function(x - unit)) / 2e-5 for unit in units])


steps = st.lists(
    st.tuples(
        st.sampled_from(sorted(STEPS)),
        st.sampled_from(("a", "b", "v")),
        st.sampled_from(NAMES),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=6,
)


@given(steps=steps, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_random_programs(steps: list[Step], seed: int) -> None:
    generator = np.random.default_rng(seed)
    outside = generator.normal(size=3)
    function = program(steps, outside)
    value, gradient = hesse.compile(function), hesse.grad(function)
    for _ in range(2):
        x = generator.normal(size=SIZE)
        given_x = x.copy()
        np.testing.assert_allclose(value(given_x), function(x.copy()), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradient(given_x), differences(function, x), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(given_x, x)
        outside += 0.5  # what the function closes over changes in place
