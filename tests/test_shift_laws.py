"""Softmax, log_softmax and logsumexp in all their spellings are one node each; the shift is gone for good.

A spelling is a function of an array and an axis. Nodes are compared by identity, values and derivatives with
nested JAX, and where a law must not apply, what is computed is compared with the definition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
import naive
from hesse.calculus import reverse
from hesse.ir import Apply, Node, topological
from hesse.rewrite import shift_rules, simplify
from oracles import assert_close, evaluate_jax, jax_derivatives

Spelling = Callable[[Any, int], Any]


def largest(x: Any, axis: int) -> Any:
    return np.max(x, axis=axis, keepdims=True)


def shifted(x: Any, axis: int) -> Any:
    return x - largest(x, axis)


def total(x: Any, axis: int) -> Any:
    return np.sum(x, axis=axis, keepdims=True)


def log_total(x: Any, axis: int) -> Any:
    return np.log(total(np.exp(x), axis))


def finite(x: Any) -> Any:
    return hesse.stop_gradient(np.where(np.abs(x) < 1e300, x, 0.0))


def over(e: Any, axis: int) -> Any:
    return e / total(e, axis)


def transposed(function: Spelling) -> Spelling:
    """A function of the transposed array, along the same axis, transposed back."""
    return lambda x, axis: function(x.T, x.ndim - 1 - axis).T


def with_a_unit_axis(function: Spelling) -> Spelling:
    """A function of the array with one more axis, along the same axis."""
    return lambda x, axis: function(np.expand_dims(x, axis), axis + 1).squeeze(axis)


SOFTMAX: dict[str, Spelling] = {
    "exp(x)/sum": lambda x, axis: over(np.exp(x), axis),
    "exp(x - max)/sum": lambda x, axis: over(np.exp(shifted(x, axis)), axis),
    "exp(x - max())/sum": lambda x, axis: over(np.exp(x - x.max()), axis),
    "exp(x - sum())/sum": lambda x, axis: over(np.exp(x - np.sum(x)), axis),
    "exp(x - 3)/sum": lambda x, axis: over(np.exp(x - 3.0), axis),
    "exp(-(max - x))/sum": lambda x, axis: over(np.exp(-(largest(x, axis) - x)), axis),
    "exp((2x - 2max)/2)/sum": lambda x, axis: over(np.exp((2.0 * x - 2.0 * largest(x, axis)) / 2.0), axis),
    "shifted twice": lambda x, axis: over(np.exp(shifted(shifted(x, axis), axis)), axis),
    "e * (1/sum)": lambda x, axis: np.exp(shifted(x, axis)) * (1.0 / total(np.exp(shifted(x, axis)), axis)),
    "e / |sum|": lambda x, axis: np.exp(shifted(x, axis)) / np.abs(total(np.exp(shifted(x, axis)), axis)),
    "e / mean / n": lambda x, axis: (
        np.exp(shifted(x, axis)) / np.mean(np.exp(shifted(x, axis)), axis=axis, keepdims=True) / x.shape[axis]
    ),
    "stop_gradient(max)": lambda x, axis: over(np.exp(x - hesse.stop_gradient(largest(x, axis))), axis),
    "softmax(x - max)": lambda x, axis: hesse.softmax(shifted(x, axis), axis),
    "softmax(x + 1)": lambda x, axis: hesse.softmax(x + 1.0, axis),
    "exp(log_softmax)": lambda x, axis: np.exp(hesse.log_softmax(x, axis)),
    "exp(x - logsumexp)": lambda x, axis: np.exp(x - hesse.logsumexp(x, axis, keepdims=True)),
    "exp(x - max - log(sum))": lambda x, axis: np.exp(
        shifted(x, axis) - log_total(shifted(x, axis), axis),
    ),
    "transposed": transposed(lambda x, axis: over(np.exp(shifted(x, axis)), axis)),
    "softmax, transposed": transposed(lambda x, axis: hesse.softmax(shifted(x, axis), axis)),
    "a unit axis": with_a_unit_axis(lambda x, axis: over(np.exp(shifted(x, axis)), axis)),
    "softmax, a unit axis": with_a_unit_axis(lambda x, axis: hesse.softmax(shifted(x, axis), axis)),
}
LOG_SOFTMAX: dict[str, Spelling] = {
    "x - logsumexp": lambda x, axis: x - hesse.logsumexp(x, axis, keepdims=True),
    "x - max - log(sum)": lambda x, axis: shifted(x, axis) - log_total(shifted(x, axis), axis),
    "x - (max + log(sum))": lambda x, axis: x - (largest(x, axis) + log_total(shifted(x, axis), axis)),
    "x - max() - log(sum)": lambda x, axis: (x - x.max()) - log_total(x - x.max(), axis),
    "log(e) - log(sum)": lambda x, axis: np.log(np.exp(shifted(x, axis))) - log_total(shifted(x, axis), axis),
    "-(logsumexp - x)": lambda x, axis: -(hesse.logsumexp(x, axis, keepdims=True) - x),
    "log(e/sum)": lambda x, axis: np.log(over(np.exp(shifted(x, axis)), axis)),
    "log(softmax)": lambda x, axis: np.log(hesse.softmax(shifted(x, axis), axis)),
    "log_softmax(x - max)": lambda x, axis: hesse.log_softmax(shifted(x, axis), axis),
    "stop_gradient(max)": lambda x, axis: hesse.log_softmax(x - hesse.stop_gradient(x.max()), axis),
    "transposed": transposed(lambda x, axis: shifted(x, axis) - log_total(shifted(x, axis), axis)),
    "a unit axis": with_a_unit_axis(lambda x, axis: shifted(x, axis) - log_total(shifted(x, axis), axis)),
}
LOGSUMEXP: dict[str, Spelling] = {
    "log(sum(exp(x)))": lambda x, axis: np.log(np.sum(np.exp(x), axis=axis)),
    "log(|sum(exp(x))|)": lambda x, axis: np.log(np.abs(np.sum(np.exp(x), axis=axis))),
    "log(sum) + max": lambda x, axis: (
        np.log(np.sum(np.exp(shifted(x, axis)), axis=axis)) + np.max(x, axis=axis)
    ),
    "log(sum) + max, squeezed": lambda x, axis: (
        log_total(shifted(x, axis), axis) + largest(x, axis)
    ).squeeze(axis),
    "log(sum) + max[...]": lambda x, axis: (
        np.log(np.sum(np.exp(shifted(x, axis)), axis=axis)) + largest(x, axis).squeeze(axis)
    ),
    "log(sum) + max()": lambda x, axis: np.log(np.sum(np.exp(x - x.max()), axis=axis)) + x.max(),
    "log(sum) + 2": lambda x, axis: np.log(np.sum(np.exp(x - 2.0), axis=axis)) + 2.0,
    "stop_gradient(max)": lambda x, axis: (
        np.log(np.sum(np.exp(x - hesse.stop_gradient(largest(x, axis))), axis=axis))
        + hesse.stop_gradient(largest(x, axis)).squeeze(axis)
    ),
    "the maximum where it is finite": lambda x, axis: (
        np.log(np.abs(np.sum(np.exp(x - finite(largest(x, axis))), axis=axis)))
        + finite(largest(x, axis)).squeeze(axis)
    ),
    "logsumexp(x - max) + max": lambda x, axis: (
        hesse.logsumexp(shifted(x, axis), axis) + np.max(x, axis=axis)
    ),
    "max - -logsumexp": lambda x, axis: np.max(x, axis=axis) - -hesse.logsumexp(shifted(x, axis), axis),
    "a unit axis": lambda x, axis: (
        log_total(shifted(x[None], axis + 1), axis + 1) + largest(x[None], axis + 1)
    ).squeeze((0, axis + 1)),
    "a unit axis, and a maximum without it": lambda x, axis: (
        log_total(shifted(x[None], axis + 1), axis + 1).squeeze((0, axis + 1)) + np.max(x, axis=axis)
    ),
}
LIBRARY: dict[str, tuple[Spelling, Spelling, dict[str, Spelling]]] = {
    "softmax": (hesse.softmax, jax.nn.softmax, SOFTMAX),
    "log_softmax": (hesse.log_softmax, jax.nn.log_softmax, LOG_SOFTMAX),
    "logsumexp": (hesse.logsumexp, jax.scipy.special.logsumexp, LOGSUMEXP),
}
SPELLINGS = [(name, how) for name, (_, _, spellings) in LIBRARY.items() for how in spellings]
PLACES = [((4,), 0), ((3, 4), 0), ((3, 4), 1), ((3, 3), 0), ((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), 2)]
PLACES += [((3, 1, 4), 0), ((3, 1, 4), 2), ((1, 2, 1, 3), 3), ((1, 2, 1, 3), 1)]
IDS = [f"{name}: {how}" for name, how in SPELLINGS]


def simple(expression: Any) -> Node:
    return simplify([expression.node])[0]


def records(roots: list[Node]) -> set[str]:
    """The operations among the nodes below some roots."""
    return {node.name for node in topological(roots) if isinstance(node, Apply)}


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(("name", "how"), SPELLINGS, ids=IDS)
def test_every_spelling_is_the_node_of_the_library_function(
    name: str, how: str, place: tuple[tuple[int, ...], int]
) -> None:
    shape, axis = place
    library, _, spellings = LIBRARY[name]
    x = hesse.variable("x", shape)
    found = simple(spellings[how](x, axis))
    assert found is simple(library(x, axis)), hesse.Expression(found)
    assert simplify([found]) == [found]


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1, 2), (2, 0), (0, 1, 2)], ids=str)
def test_several_axes_are_one(axes: tuple[int, ...]) -> None:
    x = hesse.variable("x", (2, 3, 4))
    for largest in (np.max(x, axis=axes, keepdims=True), x.max(), np.max(x, axis=axes[::-1], keepdims=True)):
        e = np.exp(x - largest)
        total = np.log(np.sum(e, axis=axes, keepdims=True)) + largest
        assert simple(total) is simple(hesse.logsumexp(x, axes, keepdims=True))
        soft = e / np.sum(e, axis=axes, keepdims=True)
        assert simple(soft) is simple(np.exp(x) / np.sum(np.exp(x), axis=axes, keepdims=True))
        assert simple(x - total) is simple(np.log(soft))
        assert records([simple(soft), simple(x - total)]) == {"softmax", "log_softmax"}


@pytest.mark.parametrize("place", [((4,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 1, 3), 2)], ids=str)
@pytest.mark.parametrize(("name", "how"), SPELLINGS, ids=IDS)
def test_gradients_hold_no_trace_of_the_maximum(
    name: str, how: str, place: tuple[tuple[int, ...], int]
) -> None:
    shape, axis = place
    x = hesse.variable("x", shape)
    value = np.sum(np.sin(LIBRARY[name][2][how](x, axis)))
    output = simple(value)
    gradients = simplify(reverse(output, [x.node]))
    second = simplify(reverse(gradients[0], [x.node]))
    assert records([output, *gradients, *second]) <= {"softmax", "log_softmax", "logsumexp"}


POINTS = [np.random.default_rng(seed).normal(size=(2, 3)) for seed in (0, 1)]
LARGE = np.array([[1000.0, 999.0, -1000.0], [-1000.0, -1000.5, -999.0], [0.0, 1e-3, 1000.0]])


@functools.cache
def expected_derivatives(name: str, axis: int) -> list[Any]:
    reference = LIBRARY[name][1]
    return jax_derivatives(lambda v: jnp.sum(jnp.sin(reference(v, axis))), 3, 0, [POINTS[axis]])


@functools.cache
def expected_at_large_entries(name: str, axis: int) -> list[Any]:
    reference = LIBRARY[name][1]
    return jax_derivatives(lambda v: reference(v, axis), 1, 0, [LARGE])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "how"), SPELLINGS, ids=IDS)
def test_derivatives_to_order_three(name: str, how: str, axis: int) -> None:
    spellings = LIBRARY[name][2]
    x = POINTS[axis]
    references = expected_derivatives(name, axis)

    def function(v: Any) -> Any:
        return np.sum(np.sin(spellings[how](v, axis)))

    for order in (1, 2, 3):
        found = hesse.derivative(function, order=order)
        for _ in range(2):
            assert_close(np.asarray(found(x)), references[order], f"order {order}")
    value, gradient = hesse.value_and_grad(function)(x)
    assert_close(value, references[0], "value")
    assert_close(gradient, references[1], "gradient")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "how"), SPELLINGS, ids=IDS)
def test_values_and_jacobians_of_large_entries(name: str, how: str, axis: int) -> None:
    spellings, x = LIBRARY[name][2], LARGE
    expected = expected_at_large_entries(name, axis)
    value = spellings[how](hesse.variable("x", x.shape), axis).evaluate(x=x)
    assert_close(value, expected[0], "value", 1e-12)
    jacobian = hesse.jacobian(lambda v: spellings[how](v, axis))(x)
    assert_close(np.asarray(jacobian), expected[1], "jacobian", 1e-12)


# Where the laws must not apply.

x, y = hesse.variable("x", (3, 3)), hesse.variable("y", (3, 3))
rows, columns = hesse.variable("r", (3,)), hesse.variable("c", (3,))
MASK = np.tril(np.ones((3, 3)))
e = np.exp(x - np.max(x, axis=1, keepdims=True))
SHIFTED: dict[str, tuple[Any, Any]] = {
    "a shift for each column": (hesse.softmax(x + columns), hesse.softmax(x)),
    "a shift for each row, along the other axis": (hesse.softmax(x + rows[:, None], 0), hesse.softmax(x, 0)),
    "the maximum of the other axis": (hesse.softmax(x - np.max(x, axis=0)), hesse.softmax(x)),
    "a matrix": (hesse.softmax(x + y), hesse.softmax(x)),
    "a shift of one entry": (hesse.softmax(x + np.eye(3)), hesse.softmax(x)),
    "shifted rows, all but one": (hesse.softmax(x + np.diag([1.0, 1.0, 0.0]) @ np.ones((3, 3)) * columns), x),
    "sums of columns below rows": (e / np.sum(e, axis=0), hesse.softmax(x)),
    "sums along the rows below columns": (e / np.sum(e, axis=1), hesse.softmax(x)),
    "the sum of all": (e / np.sum(e), hesse.softmax(x)),
    "a part of the sum": (e / np.sum(e[:, :2], axis=1, keepdims=True), hesse.softmax(x)),
    "a mask above": (e * MASK / np.sum(e, axis=1, keepdims=True), hesse.softmax(x)),
    "a mask below": (e / np.sum(e * MASK, axis=1, keepdims=True), hesse.softmax(x)),
    "a masked argument": (hesse.softmax(np.where(MASK, x - x.max(), -50.0)), hesse.softmax(x)),
    "a product with a column": (hesse.softmax((x - x.max()) * columns), hesse.softmax(x * columns)),
    "other exponents below": (e / np.sum(np.exp(x - 1.0), axis=1, keepdims=True), hesse.softmax(x)),
    "logsumexp, shifted": (hesse.logsumexp(x - x.max(), 1), hesse.logsumexp(x, 1)),
    "logsumexp, another shift": (hesse.logsumexp(x - rows[:, None], 1) + columns, hesse.logsumexp(x, 1)),
    "logsumexp, a shift by columns": (hesse.logsumexp(x - columns, 1) + columns, hesse.logsumexp(x, 1)),
    "logsumexp, added on the wrong side": (
        hesse.logsumexp(x - np.max(x, axis=1, keepdims=True), 1) + np.max(x, axis=0),
        hesse.logsumexp(x, 1),
    ),
    "rows less the logsumexp of columns": (x - hesse.logsumexp(x, 0)[:, None], hesse.log_softmax(x, 0)),
    "columns less the logsumexp of rows": (x - hesse.logsumexp(x, 1), hesse.log_softmax(x, 1)),
    "the transposed": (x.T - hesse.logsumexp(x, 1)[:, None], hesse.log_softmax(x, 1).T),
    "plus the logsumexp": (x + hesse.logsumexp(x, 1)[:, None], hesse.log_softmax(x, 1)),
    "half of the logsumexp": (x - 0.5 * hesse.logsumexp(x, 1)[:, None], hesse.log_softmax(x, 1)),
    "another matrix less the logsumexp": (y - hesse.logsumexp(x, 1)[:, None], hesse.log_softmax(x, 1)),
    "picked elsewhere": (x[[1, 2, 0], [0, 1, 2]] - hesse.logsumexp(x, 1), x[:, 0]),
    "picked in columns": (x[[0, 1, 0], [0, 1, 2]] - hesse.logsumexp(x, 1), x[:, 0]),
    "picked from another": (y[[0, 1, 2], [0, 1, 0]] - hesse.logsumexp(x, 1), x[:, 0]),
    "1 + tanh(x) + y": (1 + np.tanh(x) + y, hesse.sigmoid(x)),
    "1 + 2tanh(x)": (1 + 2 * np.tanh(x), hesse.sigmoid(x)),
    "|x - max|": (np.abs(x - x.max()), x),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_what_only_looks_like_it_keeps_its_value(name: str) -> None:
    expression, other = SHIFTED[name]
    assert simple(expression) is not simple(other)
    random = np.random.default_rng(5)
    sizes = {"x": (3, 3), "y": (3, 3), "r": (3,), "c": (3,)}
    given = {key: random.normal(size=size) for key, size in sizes.items()}
    expected = naive.evaluate(expression.node, given)
    assert_close(naive.evaluate(simple(expression), given), expected, "simplified", 1e-12)
    assert_close(expression.evaluate(**given), expected, "compiled", 1e-12)


def test_an_infinite_shift_is_no_shift() -> None:
    """A row of -inf has no softmax, whatever was there before."""
    node = simple(hesse.softmax(x + np.array([[-np.inf], [0.0], [1.0]])))
    assert node is not simple(hesse.softmax(x))
    with np.errstate(invalid="ignore"):
        found = naive.evaluate(node, {"x": np.zeros((3, 3))})
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1:]).all()


def test_a_shift_that_nothing_takes_back_keeps_its_digits() -> None:
    x = np.array([1e9, 1e9 + 1.0, 1e9 - 2.0])
    found = hesse.variable("x", (3,))
    spelled = np.log(np.sum(np.exp(found - np.max(found))))
    expected = np.log(np.sum(np.exp([-1.0, 0.0, -3.0])))
    assert abs(spelled.evaluate(x=x) - expected) < 1e-15


def test_symbolic_sizes() -> None:
    for text, expected in {
        "log(sum(exp(x - max(x)))) + max(x)": "logsumexp(x)",
        "exp(x - sum(x))./sum(exp(x - sum(x)))": "softmax(x)",
        "exp(x - c)./sum(exp(x - c))": "softmax(x - c)",
        "x - logsumexp(x)": "log_softmax(x)",
        "A*x - logsumexp(y)": "A*x - logsumexp(y)",
        "softmax(A + A*y*vector(1)')": "softmax(A + A*y*vector(1)')",
        "log_softmax(A + vector(1)*y')": "log(softmax(A + vector(1)*y'))",
    }.items():
        assert simple(hesse.parse(text)) is simple(hesse.parse(expected)), text
        assert str(hesse.parse(text)) == str(hesse.parse(expected))


def test_no_law_goes_down_a_chain_of_sums() -> None:
    total = np.max(x, axis=1)
    for _ in range(2000):
        total = 0.5 * total + x[:, 0]
    expression = hesse.logsumexp(x - total[:, None], 1) + rows
    for rule in shift_rules.SHIFT_RULES:
        assert rule(expression.node) is None
        assert rule(total.node) is None
    shifted = hesse.logsumexp(x - total[:, None], 1) + total
    assert shift_rules.shift_beside_logsumexp(shifted.node) is hesse.logsumexp(x, 1).node


def test_shifts_of_other_variables_stay() -> None:
    """They may be infinite, or nan, and then the result is nan."""
    point, bias = np.arange(6.0).reshape(2, 3), np.array([[0.0], [-np.inf]])
    softmax = lambda z: np.exp(z) / np.sum(np.exp(z), -1, keepdims=True)  # noqa: E731
    with np.errstate(invalid="ignore"):
        found = hesse.compile(lambda x, b: softmax(x + b))(point, bias)
        np.testing.assert_allclose(found, softmax(point + bias))
        gradient = hesse.grad(lambda x, b: np.sum(softmax(x + b) ** 2))(point, bias)
        beside = hesse.compile(lambda x, b: np.log(np.sum(np.exp(x + b), -1)) - b[:, 0])(point, bias)
    assert np.isnan(gradient[1]).all()
    assert np.isnan(beside[1])


# Larger functions.


def cross_entropy(xp: Any) -> Any:
    """Softmax regression as it is written by hand."""

    def f(W: Any, X: Any, labels: Any) -> Any:
        z = X @ W
        z = z - z.max(axis=1, keepdims=True)
        return xp.mean(xp.log(xp.exp(z).sum(axis=1)) - z[np.arange(6), labels])

    return f


def cross_entropy_of_means(xp: Any) -> Any:
    def f(W: Any, X: Any, labels: Any) -> Any:
        z = X @ W
        z = z - z.max(axis=1, keepdims=True)
        return xp.mean(xp.log(xp.exp(z).sum(axis=1))) - xp.mean(z[np.arange(6), labels])

    return f


def means(xp: Any) -> Any:
    """Soft k-means."""

    def f(centres: Any, points: Any, labels: Any) -> Any:
        squares = -xp.sum((points[:, None, :] - centres.T[None, :, :]) ** 2, axis=-1)
        top = xp.max(squares, axis=1, keepdims=True)
        return -xp.sum(top[:, 0] + xp.log(xp.sum(xp.exp(squares - top), axis=1)))

    return f


def attention(xp: Any) -> Any:
    """Heads as an extra axis, scores scaled before and after the shift, normalised after the product."""

    def f(W: Any, X: Any, labels: Any) -> Any:
        heads = xp.reshape(X @ W, (1, 6, 2, 2))
        scores = xp.einsum("bihd,bjhd->bhij", heads, heads)
        scores = (scores - xp.max(scores, axis=-1, keepdims=True)) * 0.5
        e = xp.exp(scores)
        return xp.sum(
            xp.sin(xp.einsum("bhij,bjhd->bihd", e, heads) / xp.sum(e, -1).transpose(0, 2, 1)[..., None])
        )

    return f


@pytest.mark.parametrize("function", [cross_entropy, cross_entropy_of_means, means, attention])
def test_functions_without_a_maximum(function: Any) -> None:
    random = np.random.default_rng(3)
    W, X, labels = random.normal(size=(3, 4)), random.normal(size=(6, 3)), random.integers(0, 4, 6)
    derivative = hesse.value_and_grad(function(np))
    for shift in (0.0, 0.3):
        found = derivative(W + shift, X, labels)
        expected = evaluate_jax(
            jax.value_and_grad(lambda v: function(jnp)(v, jnp.asarray(X), labels)), W + shift
        )
        assert_close(found[0], expected[0], "value")
        assert_close(found[1], expected[1], "gradient")
    assert "argmax" not in derivative.explain(W, X, labels).source
    hessian = evaluate_jax(jax.hessian(lambda v: function(jnp)(v, jnp.asarray(X), labels)), W)
    assert_close(np.asarray(hesse.hessian(function(np))(W, X, labels)), hessian, "hessian")


@pytest.mark.parametrize("shift", [0.0, -40.0, 40.0])
def test_half_of_one_plus_tanh_is_a_sigmoid(shift: float) -> None:
    x = hesse.variable("x", (3,))
    for spelled in ((1 + np.tanh(x)) / 2, 0.5 * np.tanh(x) + 0.5, (np.tanh(x) + 1) * 0.5):
        assert simple(spelled) is simple(hesse.sigmoid(2 * x))
        found = spelled.evaluate(x=np.arange(3.0) + shift)
        assert_close(found / (1.0 / (1.0 + np.exp(-2.0 * (np.arange(3.0) + shift)))), np.ones(3), "", 1e-14)
    assert simple(1 - np.tanh(x)) is simple(2 * hesse.sigmoid(-2 * x))
    outer = 1 + np.tanh(x)[:, None] * np.ones((1, 4))
    assert simple(outer) is simple(2 * hesse.sigmoid(2 * x)[:, None] * np.ones((1, 4)))
