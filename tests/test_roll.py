"""Loops in Python are rolled up: what is written number by number is computed over arrays.

Values are compared with the definition (`naive`), derivatives with JAX, and the programs are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
import naive
from hesse.calculus import differentiate, families
from hesse.calculus.rolling import rolled
from hesse.frontends import as_node
from hesse.ir import Node, add, multiply, select, topological, variable
from hesse.ops.registry import elementwise
from hesse.rewrite import simplify
from oracles import assert_close, evaluate_jax

COUNT = 40
ARRAYS = {
    "x": np.random.default_rng(1).normal(size=(2 * COUNT,)),
    "A": np.random.default_rng(2).normal(size=(COUNT, COUNT)) / 4,
    "w": np.random.default_rng(3).normal(size=(3,)),
    "D": np.random.default_rng(4).normal(size=(COUNT, 3)),
}


def in_a_loop(term: Callable[..., Any]) -> Callable[..., Any]:
    def function(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
        total = 0.0
        for k in range(COUNT):
            total = total + term(xp, k, x, A, w, D)
        return total

    return function


def stacked(term: Callable[..., Any]) -> Callable[..., Any]:
    def function(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
        return xp.stack([term(xp, k, x, A, w, D) for k in range(COUNT)])

    return function


def pairs(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    total = 0.0
    for i in range(17):
        for j in range(18):
            total = total + xp.sin(A[i, j] * x[i] - x[COUNT + j])
    return total


def below_the_diagonal(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    total = 0.0
    for i in range(18):
        for j in range(i):
            total = total + xp.exp(A[i, j] * x[i])
    return total


def with_gaps(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    return sum(xp.sin(x[k]) for k in [0, 3, *range(10, 40), 41, 43, *range(50, 70, 1)])


ORDER = np.random.default_rng(5).permutation(2 * COUNT)
NUMBERS = np.random.default_rng(6).normal(size=(COUNT, 3))


def each_with_each(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    """A triangle of pairs of points, from coordinates that many pairs read."""
    points = [D[k] * w for k in range(20)]
    total = 0.0
    for i in range(20):
        for j in range(i):
            total = total + 1 / (1 + xp.sum((points[i] - points[j]) ** 2))
    return total


def sums_of_sums(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    total = 0.0
    for i in range(20):
        inner = 0.0
        for j in range(18):
            inner = inner + xp.exp(A[i, j] - x[j])
        total = total + xp.log(inner) * x[i]
    return total


def small_vectors(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    total = 0.0
    for k in range(COUNT):
        corner = xp.stack([xp.cos(x[k]), xp.sin(x[k + 1]), x[k] * x[k + 1]])
        total = total + xp.sqrt(1 + xp.sum((corner - D[k] - NUMBERS[k]) ** 2))
    return total


def an_array_of_arrays(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    return xp.array([[xp.sin(x[i] * x[j]) + 0.1 * i for j in range(6)] for i in range(7)])


def states_in_between(xp: Any, x: Any, A: Any, w: Any, D: Any) -> Any:
    """Two loops: the second one reads what the first one made, and its sum."""
    slopes = [xp.tanh(x[k + 1] - x[k]) for k in range(COUNT)]
    scale = sum(slope**2 for slope in slopes)
    return sum((slopes[k + 1] - slopes[k]) ** 2 / (1 + scale) for k in range(COUNT - 1)) + slopes[3]


class Loop(NamedTuple):
    name: str
    function: Callable[..., Any]
    most_nodes: int


LOOPS = [
    Loop("losses of points", in_a_loop(lambda xp, k, x, A, w, D: xp.log1p(xp.exp(-x[k] * (D[k] @ w)))), 10),
    Loop("entries", in_a_loop(lambda xp, k, x, A, w, D: x[k]), 4),
    Loop("neighbours", in_a_loop(lambda xp, k, x, A, w, D: (x[k + 1] - x[k] ** 2) ** 2), 14),
    Loop("steps", in_a_loop(lambda xp, k, x, A, w, D: xp.tanh(x[2 * k] * x[2 * k + 1])), 10),
    Loop("backwards", in_a_loop(lambda xp, k, x, A, w, D: xp.exp(x[k]) * xp.sin(x[-1 - k])), 12),
    Loop("a diagonal", in_a_loop(lambda xp, k, x, A, w, D: xp.sin(A[k, k]) * x[k]), 8),
    Loop("slices", in_a_loop(lambda xp, k, x, A, w, D: xp.sum(xp.sin(x[k : k + 5]) * x[k])), 10),
    Loop("something in common", in_a_loop(lambda xp, k, x, A, w, D: xp.sin(x[k] * xp.sum(xp.exp(w)))), 10),
    Loop("twice the same", in_a_loop(lambda xp, k, x, A, w, D: xp.sin(x[k]) * xp.exp(xp.sin(x[k]))), 10),
    Loop("rows of a sum", in_a_loop(lambda xp, k, x, A, w, D: xp.sin(D[k] + w * x[k])), 12),
    Loop("pairs", pairs, 100),
    Loop("below the diagonal", below_the_diagonal, 12),
    Loop("with gaps", with_gaps, 8),
    Loop("in any order", in_a_loop(lambda xp, k, x, A, w, D: x[k] * xp.sin(x[ORDER[k]])), 10),
    Loop("windows", in_a_loop(lambda xp, k, x, A, w, D: xp.sin(x[ORDER[k] // 2 :][:4] @ x[k : k + 4])), 12),
    Loop("numbers", in_a_loop(lambda xp, k, x, A, w, D: (0.5 * k + 1) * xp.cos(x[k] - 0.1 * k)), 10),
    Loop("known rows", in_a_loop(lambda xp, k, x, A, w, D: xp.exp(NUMBERS[k] @ w) * x[k]), 10),
    Loop("each with each", each_with_each, 20),
    Loop("sums of sums", sums_of_sums, 16),
    Loop("small vectors", small_vectors, 26),
    Loop("an array of arrays", an_array_of_arrays, 22),
    Loop("states in between", states_in_between, 24),
    Loop(
        "a determinant",
        in_a_loop(lambda xp, k, x, A, w, D: xp.linalg.det(A[:3, k : k + 3][:, :1] * D[k] + xp.eye(3))),
        20,
    ),
    Loop(
        "solutions",
        in_a_loop(lambda xp, k, x, A, w, D: xp.linalg.solve(A[:3, :3] + 3 * xp.eye(3), D[k] * w)),
        20,
    ),
    Loop("running sums", in_a_loop(lambda xp, k, x, A, w, D: xp.cumsum(xp.sin(D[k])) * x[k]), 16),
    Loop("maxima", in_a_loop(lambda xp, k, x, A, w, D: xp.max(D[k] * w)), 30),
    Loop(
        "chosen entries", in_a_loop(lambda xp, k, x, A, w, D: xp.sum(xp.sin(x[np.array([k, 3, 2 * k])]))), 12
    ),
    Loop("a stack in any order", stacked(lambda xp, k, x, A, w, D: xp.sin(x[ORDER[k]]) * x[k]), 12),
    Loop("a stack of numbers", stacked(lambda xp, k, x, A, w, D: xp.sin(x[k + 1]) - x[k] ** 2), 12),
    Loop("a stack of vectors", stacked(lambda xp, k, x, A, w, D: xp.sin(D[k] * w) * x[COUNT - k]), 12),
    Loop("a stack of matrices", stacked(lambda xp, k, x, A, w, D: xp.exp(A[:3, k : k + 1] * D[k])), 12),
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_values_and_sizes(loop: Loop) -> None:
    arguments = [hesse.variable(name, array.shape) for name, array in ARRAYS.items()]
    written = as_node(loop.function(np, *arguments))
    (joined,) = simplify(rolled([written]))
    assert len(topological([joined])) <= loop.most_nodes
    expected = np.asarray(loop.function(np, *ARRAYS.values()))
    np.testing.assert_allclose(naive.evaluate(joined, ARRAYS), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_derivatives_are_those_of_jax(loop: Loop) -> None:
    arguments = tuple(ARRAYS.values())
    jacobian = jax.jacrev(lambda *given: loop.function(jnp, *given), argnums=(0, 1, 2, 3))
    expected = evaluate_jax(jacobian, *arguments)
    found = hesse.jacobian(lambda *given: loop.function(np, *given), argnums=(0, 1, 2, 3))
    for _ in range(2):
        for one, other in zip(found(*arguments), expected, strict=True):
            assert_close(np.asarray(one), other, loop.name)


@pytest.mark.parametrize(
    "name",
    ["losses of points", "neighbours", "each with each", "small vectors", "sums of sums", "in any order"],
)
def test_second_derivatives_are_those_of_jax(name: str) -> None:
    (loop,) = (loop for loop in LOOPS if loop.name == name)
    arguments = tuple(ARRAYS.values())
    expected = evaluate_jax(jax.hessian(lambda *given: loop.function(jnp, *given)), *arguments)
    assert_close(
        np.asarray(hesse.hessian(lambda *given: loop.function(np, *given))(*arguments)), expected, name
    )


def selected(count: int = COUNT) -> list[Node]:
    x = variable("x", (2 * COUNT,))
    return [select(x, (k,)) for k in range(count)]


def test_what_others_use_is_not_computed_again() -> None:
    """Each of these numbers is a result, too: all are computed at once, and read from there."""
    sines = [elementwise("sin", entry) for entry in selected()]
    whole = simplify(rolled([*sines, add([multiply(sine, sine) for sine in sines], ())]))
    assert sum(getattr(node, "name", "") == "sin" for node in topological(whole)) == 1
    for k, node in enumerate(whole[:-1]):
        np.testing.assert_allclose(naive.evaluate(node, ARRAYS), np.sin(ARRAYS["x"][k]))


def test_short_sums_stay_as_they_are_written() -> None:
    terms = [elementwise("sin", entry) for entry in selected(families.FEWEST - 1)]
    whole = add(terms, ())
    assert rolled([whole]) == [whole]


def test_large_tensors_are_put_side_by_side_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    D, w = variable("D", (COUNT, 3)), variable("w", (3,))
    terms = [elementwise("sin", multiply(select(D, (k, slice(None))), w)) for k in range(COUNT)]
    monkeypatch.setattr(families, "MOST_ENTRIES", 3 * COUNT // 2)
    (halves,) = rolled([add(terms, (3,))])
    assert max(math.prod(node.shape) for node in topological([halves])[2:]) <= 3 * COUNT // 2 + 3
    values = {name: ARRAYS[name] for name in "Dw"}
    expected = np.sin(values["D"] * values["w"]).sum(axis=0)
    np.testing.assert_allclose(naive.evaluate(halves, values), expected, rtol=1e-12)


def test_terms_of_many_nodes_that_are_shared() -> None:
    """Squares of squares read an entry two to the number of squares times: each is looked at once."""
    squares = selected()
    for _ in range(60):
        squares = [elementwise("hypot", square, square) for square in squares]
    (joined,) = rolled([add(squares, ())])
    assert len(topological([joined])) == 63


def test_the_order_of_a_loop_does_not_matter() -> None:
    terms = [elementwise("sin", entry) for entry in selected()]
    order = np.random.default_rng(0).permutation(COUNT)
    assert rolled([add(terms, ())]) == rolled([add([terms[k] for k in order], ())])


# Random loops


@st.composite
def random_term(draw: st.DrawFn, depth: int = 3) -> Callable[..., Any]:
    """A number or a vector of three, for a step of a loop."""
    offset, stride = draw(st.integers(0, 3)), draw(st.sampled_from([-1, 0, 1, 2]))
    kinds = ["entry", "row", "any", "number", "known", "column"]
    kind = draw(st.sampled_from(kinds if depth == 0 else [*kinds, "sin", "plus", "times", "dot", "stack"]))
    leaves: dict[str, Callable[..., Any]] = {
        "entry": lambda k, x, D: x[offset + stride * k + (STEPS if stride < 0 else 0)],
        "row": lambda k, x, D: D[k] * NUMBERS[offset],
        "any": lambda k, x, D: x[ORDER[k + offset]],
        "number": lambda k, x, D: x[0] * (k % 3 - 1) + 0.5 * k,
        "known": lambda k, x, D: D[offset] + NUMBERS[k],
        "column": lambda k, x, D: D[k, 1] * x[3],
    }
    if kind in leaves:
        return leaves[kind]
    one, other = draw(random_term(depth - 1)), draw(random_term(depth - 1))
    inner: dict[str, Callable[..., Any]] = {
        "sin": lambda *given: np.sin(one(*given)),
        "plus": lambda *given: one(*given) + other(*given),
        "times": lambda *given: one(*given) * other(*given),
        "dot": lambda *given: np.sum(one(*given) * other(*given)),
        "stack": lambda *given: np.stack([np.sum(one(*given)), np.sum(other(*given)), given[1][offset]]),
    }
    return inner[kind]


STEPS = families.FEWEST + 2


@given(random_term(), st.sampled_from(["sum", "stack", "filled", "pairs", "twice"]))
@settings(max_examples=60, deadline=None)
def test_random_loops_mean_what_they_mean_unrolled(term: Callable[..., Any], way: str) -> None:
    x, D = hesse.variable("x", (2 * COUNT,)), hesse.variable("D", (COUNT, 3))
    terms = [np.sum(np.tanh(term(k, x, D))) for k in range(STEPS)]
    if way == "sum":
        whole = sum(terms)
    elif way == "stack":
        whole = np.sum(np.stack(terms) ** 2 * x[:STEPS])
    elif way == "filled":
        whole = x.copy()
        for k in range(STEPS):
            whole[ORDER[k]] = terms[k] * x[k]
        whole = np.sum(whole * x)
    elif way == "pairs":
        whole = sum(np.exp(-((terms[i] - terms[j]) ** 2)) for i in range(STEPS) for j in range(i))
    else:
        whole = sum(terms) * terms[3] + sum(t * terms[2] for t in terms[4:])
    (joined,) = rolled([whole.node])
    values = {"x": ARRAYS["x"], "D": ARRAYS["D"]}
    by = [node for node in (x.node, D.node) if node in topological([whole.node])]
    for name in ("value", "slope"):
        old, new = (
            ([whole.node], [joined])
            if name == "value"
            else (differentiate(n, by) for n in (whole.node, joined))
        )
        for one, two in zip(old, new, strict=True):
            expected = naive.evaluate(one, values)
            np.testing.assert_allclose(naive.evaluate(two, values), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize(
    "name", ["each with each", "small vectors", "sums of sums", "in any order", "maxima"]
)
def test_arguments_of_other_libraries(library: str, name: str) -> None:
    (loop,) = (loop for loop in LOOPS if loop.name == name)
    converted = torch.asarray if library == "torch" else jnp.asarray

    def function(*given: Any) -> Any:
        return np.sum(loop.function(np, *given) ** 2)

    with jax.enable_x64(True):
        found = hesse.grad(function, argnums=(0, 3))
        expected = found(*ARRAYS.values())
        for _ in range(2):
            for one, other in zip(found(*map(converted, ARRAYS.values())), expected, strict=True):
                assert type(one) is type(converted(np.ones(3)))
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-9, atol=1e-9)
