"""Operators of high order (`taylor`, `partial`, `laplacian`, …) against JAX, jet and mpmath."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import mpmath
import numpy as np
import pytest
import torch
from jax.experimental.jet import jet

import hesse
from hesse.calculus import Parameter, Propagation, along
from hesse.errors import ArgumentError
from hesse.frontends import Expression
from hesse.ir import delta, topological, uniform, variable
from oracles import assert_close, evaluate_jax
from test_operation_records import compiled
from test_taylor import nested_jvp

RANDOM = np.random.default_rng(5)
MATRIX = RANDOM.normal(size=(4, 4))
DATA = RANDOM.normal(size=(6, 4))
POINT = RANDOM.normal(size=4)
DIRECTION = RANDOM.normal(size=4)


def net(x: Any, xp: Any = np) -> Any:
    """A net with two outputs."""
    hidden = xp.tanh(x @ MATRIX)
    return xp.stack([xp.sum(xp.sin(hidden @ MATRIX)), hidden[0] * hidden[1]])


def likelihood(x: Any, xp: Any = np) -> Any:
    """That of a Gaussian process: Cholesky's factor, a triangular system, logarithms."""
    distances = xp.sum((DATA[:, None] - DATA[None]) ** 2 * xp.exp(x), -1)
    covariance = xp.exp(-0.5 * distances) + 0.3 * xp.eye(6)
    factor = xp.linalg.cholesky(covariance)
    white = xp.linalg.solve(factor, DATA[:, 0])
    return white @ white + 2.0 * xp.sum(xp.log(xp.diagonal(factor)))


def special(x: Any, xp: Any = np) -> Any:
    """Functions for which jet has no rules."""
    library = hesse if xp is np else SPECIAL
    positive = library.softplus(x) + 0.1
    rows = library.lgamma(positive) * library.relu(x + 1.0) + library.digamma(positive)
    return xp.sort(rows) * xp.cumsum(library.erf(x)) + library.logsumexp(x) * library.softmax(x)


class SPECIAL:
    softplus, relu, softmax = jax.nn.softplus, jax.nn.relu, jax.nn.softmax
    lgamma, digamma, erf, logsumexp = jsp.gammaln, jsp.digamma, jsp.erf, jsp.logsumexp


def spectrum(x: Any, xp: Any = np) -> Any:
    """Eigenvalues, determinants and inverses of a matrix that moves."""
    matrix = MATRIX + MATRIX.T + xp.diag(xp.exp(x)) + xp.outer(x, x)
    inverse = xp.linalg.inv(matrix)
    return xp.linalg.eigvalsh(matrix) * xp.linalg.det(inverse) + inverse[0]


def quotients(x: Any, xp: Any = np) -> Any:
    """Roots, powers, quotients and products of several factors."""
    size = xp.sqrt(1.0 + x * x)
    return xp.einsum("i,ij,j,jk->k", x / size, MATRIX, size**1.7, MATRIX) / (2.0 + xp.cos(x)) ** 3


ORDERS = {net: 5, quotients: 5, special: 3, likelihood: 3, spectrum: 3}


@pytest.mark.parametrize(("function", "order"), ORDERS.items(), ids=[f.__name__ for f in ORDERS])
def test_taylor_of_compositions(function: Callable[..., Any], order: int) -> None:
    found = hesse.taylor(function, order)(POINT, DIRECTION)
    expected = evaluate_jax(
        lambda x, v: nested_jvp(lambda t: function(x + t * v, jnp), order), POINT, DIRECTION
    )
    assert len(found) == order + 1
    for k in range(order + 1):
        assert_close(found[k], expected[k], f"order {k}", 1e-8)


@pytest.mark.parametrize("function", [net, quotients], ids=lambda function: function.__name__)
def test_taylor_of_curves_against_jet(function: Callable[..., Any]) -> None:
    directions = [DIRECTION, MATRIX[0], MATRIX[1]]
    found = hesse.taylor(function, 5, curve=3)(POINT, *directions)
    series = [*directions, np.zeros(4), np.zeros(4)]
    value, expected = jet(partial(function, xp=jnp), (POINT,), (series,))
    for order, reference in enumerate([value, *expected]):
        assert_close(found[order], np.asarray(reference), f"order {order}")


def test_taylor_of_containers_and_several_arguments() -> None:
    def function(p: Any, y: Any, xp: Any = np) -> Any:
        return {"a": p["w"] * y + xp.exp(p["b"]), "b": (xp.sum(p["w"] ** 3) * p["b"],)}

    p, y = {"w": POINT, "b": 0.4}, MATRIX[0]
    v = {"w": DIRECTION, "b": 2.0}, MATRIX[1]
    derivative = hesse.taylor(function, 3, argnums=(0, 1))
    for _ in range(2):  # the second call is found by its signature
        found = derivative(p, y, v)
        assert [part["b"][0].shape for part in found] == [()] * 4

    def in_jax(t: Any) -> Any:
        return function({"w": POINT + t * v[0]["w"], "b": 0.4 + t * 2.0}, y + t * v[1], jnp)

    for leaf in (lambda tree: tree["a"], lambda tree: tree["b"][0]):
        expected = nested_jvp(lambda t, leaf=leaf: leaf(in_jax(t)), 3)
        for order in range(4):
            assert_close(leaf(found[order]), np.asarray(expected[order]), f"order {order}")


def test_taylor_for_arrays_of_all_libraries() -> None:
    expected = hesse.taylor(quotients, 4)(POINT, DIRECTION)
    derivative = hesse.taylor(quotients, 4)
    in_torch = derivative(torch.tensor(POINT), torch.tensor(DIRECTION))
    in_jax = derivative(jnp.asarray(POINT), jnp.asarray(DIRECTION))
    single = derivative(POINT.astype(np.float32), DIRECTION.astype(np.float32))
    assert {part.dtype for part in single} == {np.dtype(np.float32)}
    for order in range(5):
        assert isinstance(in_torch[order], torch.Tensor)
        assert_close(in_torch[order].numpy(), expected[order])
        assert_close(np.asarray(in_jax[order]), expected[order])
        assert_close(single[order], expected[order], tolerance=1e-4)
    jitted = jax.jit(lambda x, v: derivative(x, v)[3])
    assert_close(np.asarray(jitted(POINT, DIRECTION)), expected[3])


def test_high_derivatives_against_mpmath() -> None:
    def function(x: Any) -> Any:
        return np.exp(np.sin(x)) / (1.0 + x**2) + hesse.lgamma(2.0 + x)

    def in_mpmath(x: Any) -> Any:
        return mpmath.exp(mpmath.sin(x)) / (1 + x**2) + mpmath.loggamma(2 + x)

    with mpmath.workdps(60):
        for order in (2, 5, 8):
            expected = float(mpmath.diff(in_mpmath, mpmath.mpf("0.7"), order))
            assert_close(hesse.derivative(function, order=order)(0.7), expected, f"order {order}")
            assert_close(hesse.partial(function, order)(0.7), expected, f"order {order}")


def test_derivatives_by_a_number() -> None:
    """Results of any shape, containers, structured ones; what vanishes is found to vanish."""

    def function(x: Any) -> Any:
        return {"a": np.sin(x * POINT), "b": x**3}

    found = hesse.derivative(function, order=4)(0.3)
    assert_close(found["a"], POINT**4 * np.sin(0.3 * POINT))
    assert_close(found["b"], np.float64(0.0))
    explained = hesse.derivative(lambda x: x**3, order=4).explain(0.3)
    assert explained.formula == "0"
    tensor = hesse.derivative(lambda x: np.sin(x * POINT), order=3, form="structured")(0.3)
    assert_close(tensor.dense(), -(POINT**3) * np.cos(0.3 * POINT))
    by_both = hesse.derivative(lambda x, y: np.sin(x) * y**2, order=2, argnums=(0, 1))(0.3, 2.0)
    assert_close(by_both[0][1], np.float64(4.0 * np.cos(0.3)))


@pytest.mark.parametrize("orders", [(2, 0, 2), (1, 1, 1), (0, 3, 1), (0, 0, 0)])
def test_partial(orders: tuple[int, ...]) -> None:
    def function(x: Any, xp: Any = np) -> Any:
        hidden = xp.tanh(x @ MATRIX[:3])
        return xp.sum(hidden * xp.exp(0.3 * hidden), -1) + x[..., 0] ** 2 * x[..., 2] ** 3

    def in_jax(x: Any) -> Any:
        def derivative(*entries: Any) -> Any:
            return function(jnp.stack(entries), jnp)

        for k, order in enumerate(orders):
            for _ in range(order):
                derivative = jax.jacfwd(derivative, k)
        return derivative(*x)

    rows = RANDOM.normal(size=(5, 3))
    expected = evaluate_jax(jax.vmap(in_jax), rows)
    derivative = hesse.partial(function, orders)
    assert_close(derivative(rows[0]), expected[0])
    assert_close(derivative(rows), expected)
    assert_close(hesse.partial(function, np.array(orders), backend="jax")(rows), expected)


def in_steps(function: Callable[..., Any], x: np.ndarray, times: int) -> Any:
    """The Laplacian, so many times, from whole derivatives by JAX."""
    derivative = function
    for _ in range(times):
        derivative = partial(
            lambda inner, x: jnp.trace(jax.hessian(inner)(x), axis1=-2, axis2=-1), derivative
        )
    return evaluate_jax(derivative, x)


@pytest.mark.parametrize("function", [net, special, quotients], ids=lambda function: function.__name__)
def test_laplacians(function: Callable[..., Any]) -> None:
    expected = in_steps(partial(function, xp=jnp), POINT, 1)
    for mode in ("auto", "taylor", "forward", "reverse"):
        assert_close(hesse.laplacian(function, mode=mode)(POINT), expected, mode)
        assert_close(hesse.diagonal(function, mode=mode)(POINT).sum(-1), expected, mode)


def test_conditions_and_functions_of_functions() -> None:
    """An operand that is its own condition; laws that look into the operand of a function."""

    def function(x: Any, xp: Any = np) -> Any:
        chosen = xp.where(xp.sin(x), xp.sin(x), 0.0) * xp.exp(xp.log(9.0 + x[0] * x))
        return 1.0 / xp.sqrt(1.0 + x @ x) * xp.sum(chosen) + xp.log(xp.exp(x) / xp.sum(xp.exp(x)))

    expected = in_steps(partial(function, xp=jnp), POINT, 1)
    assert_close(hesse.laplacian(function, mode="taylor")(POINT), expected)
    assert_close(hesse.diagonal(function, mode="taylor")(POINT).sum(-1), expected)


def test_biharmonic() -> None:
    def function(x: Any, xp: Any = np) -> Any:
        return xp.tanh(x @ MATRIX[:3, :2]) / xp.sqrt(1.0 + x[0] ** 2 * x[1])

    point = np.abs(POINT[:3])
    expected = in_steps(partial(function, xp=jnp), point, 2)
    for mode in ("auto", "taylor", "reverse"):
        derivative = hesse.biharmonic(function, mode=mode)
        assert_close(derivative(point), expected, mode)
        assert_close(derivative(point), expected, mode)


def test_operators_of_containers() -> None:
    def function(p: Any, xp: Any = np) -> Any:
        return {"r": xp.sum(xp.sin(p["a"] * p["b"]) * xp.exp(p["a"][0]))}

    p = {"a": POINT[:2], "b": POINT[2:]}
    flat = lambda x: function({"a": x[:2], "b": x[2:]}, jnp)["r"]  # noqa: E731
    for mode in ("auto", "taylor"):
        assert_close(hesse.laplacian(function, mode=mode)(p)["r"], in_steps(flat, POINT, 1))
        assert_close(hesse.biharmonic(function, mode=mode)(p)["r"], in_steps(flat, POINT, 2))


@pytest.mark.parametrize("mode", ["auto", "taylor"])
def test_operators_of_many_points(mode: str) -> None:
    """Where each row of the result depends on its own row, rows are not multiplied with each other."""

    def rows(x: Any, xp: Any = np) -> Any:
        return xp.sum(xp.tanh(x @ MATRIX) ** 2, -1)

    points = RANDOM.normal(size=(7, 4))
    expected = np.array([in_steps(partial(rows, xp=jnp), point, 1) for point in points])
    derivative = hesse.laplacian(rows, mode=mode)
    assert_close(derivative(points), expected)
    many = hesse.laplacian(rows, mode=mode).explain(np.zeros((70, 4))).flops
    assert many < 12 * derivative.explain(points).flops


def test_diagonals_of_high_order() -> None:
    def function(x: Any, xp: Any = np) -> Any:
        return xp.sum(xp.sin(x) * x[0]) + xp.exp(x @ MATRIX[0])

    expected = evaluate_jax(
        lambda x: [nested_jvp(lambda t, k=k: function(x + t * jnp.eye(4)[k], jnp), 4)[4] for k in range(4)],
        POINT,
    )
    for mode in ("auto", "taylor"):
        assert_close(hesse.diagonal(function, order=4, mode=mode)(POINT), np.array(expected))


def test_the_cheaper_way_is_taken() -> None:
    """Taylor mode for nets; not for a polynomial, whose derivatives vanish."""
    weights = RANDOM.normal(size=(10, 32)), RANDOM.normal(size=(32, 32))

    def deep(x: Any) -> Any:
        for weight in weights:
            x = np.tanh(x @ weight)
        return np.sum(np.tanh(x))

    x = RANDOM.normal(size=10)
    chosen = hesse.laplacian(deep).explain(x)
    assert chosen.modes[0].startswith("taylor")
    assert all(
        chosen.flops < hesse.laplacian(deep, mode=mode).explain(x).flops for mode in ("forward", "reverse")
    )
    assert hesse.derivative(lambda t: deep(t * x), order=6).explain(0.5).modes == ("taylor",)
    assert hesse.laplacian(lambda x: np.sum(x**2)).explain(x).formula == "20"


def test_nodes_grow_like_the_square_of_the_order() -> None:
    x = variable("x", ())
    node = np.tanh(np.sin(np.tanh(Expression(x)))).node
    counts = []
    for order in (6, 12):
        (root,) = along(node, [({x: uniform(1.0)}, order)]).derivatives
        counts.append(len(topological([root])))
    assert counts[1] < 5 * counts[0]


def test_deep_expressions() -> None:
    """No recursion over the depth of an expression."""

    def deep(x: Any) -> Any:
        for _ in range(400):
            x = x + 0.001 * np.sin(x)
        return x

    value, first, second = hesse.taylor(deep, 2)(0.5, 1.0)
    below, above = hesse.taylor(deep, 1)(0.5 - 1e-4, 1.0), hesse.taylor(deep, 1)(0.5 + 1e-4, 1.0)
    assert_close(second, (above[1] - below[1]) / 2e-4, tolerance=1e-6)
    assert_close(first, (above[0] - below[0]) / 2e-4, tolerance=1e-6)
    assert value == deep(0.5)


def _custom(rules: str) -> Any:
    @hesse.custom_derivative
    def wave(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    if rules == "jvp":

        @wave.defjvp
        def tangent(primals: Any, tangents: Any) -> Any:
            (x, y), (dx, dy) = primals, tangents
            return np.cos(x) * y * dx + wave(x, np.ones(4)) * dy

    elif rules == "vjp":

        @wave.defvjp
        def cotangent(primals: Any, result: Any, u: Any) -> Any:
            x, y = primals
            return u * np.cos(x) * y, u * wave(x, np.ones(4))

    else:  # the tangent itself passes through a function that cannot be traced

        @wave.defjvp
        def through(primals: Any, tangents: Any) -> Any:
            (x, y), (dx, dy) = primals, tangents
            return wave(x + np.pi / 2, y * dx) + wave(x, dy)

    return wave


@pytest.mark.parametrize("rules", ["jvp", "vjp", "foreign"])
def test_foreign_functions(rules: str) -> None:
    wave = _custom(rules)

    def function(x: Any) -> Any:
        return np.exp(wave(x, x**2)) * x

    def in_jax(x: Any) -> Any:
        return jnp.exp(jnp.sin(x) * x**2) * x

    found = hesse.taylor(function, 3)(POINT, DIRECTION)
    expected = evaluate_jax(lambda x: nested_jvp(lambda t: in_jax(x + t * DIRECTION), 3), POINT)
    for order in range(4):
        assert_close(found[order], expected[order], f"order {order}")
    assert_close(
        hesse.laplacian(lambda x: np.sum(function(x)), mode="taylor")(POINT),
        in_steps(lambda x: jnp.sum(in_jax(x)), POINT, 1),
    )


def test_operators_of_derivatives() -> None:
    """A Laplacian inside of a function that is differentiated, and a derivative inside of a Laplacian."""

    def energy(x: Any) -> Any:
        return hesse.laplacian(lambda x: np.sum(np.tanh(x @ MATRIX)), mode="taylor")(x) ** 2

    def in_jax(x: Any) -> Any:
        return jnp.trace(jax.hessian(lambda x: jnp.sum(jnp.tanh(x @ MATRIX)))(x)) ** 2

    assert_close(hesse.grad(energy)(POINT), evaluate_jax(jax.grad(in_jax), POINT))
    inner = hesse.taylor(lambda x: np.sum(np.sin(x) * x[0]), 2)
    found = hesse.laplacian(lambda x: inner(x, DIRECTION)[2])(POINT)

    def second(x: Any) -> Any:
        return nested_jvp(lambda t: jnp.sum(jnp.sin(x + t * DIRECTION) * (x + t * DIRECTION)[0]), 2)[2]

    assert_close(found, in_steps(second, POINT, 1))
    assert_close(np.asarray(jax.grad(energy)(jnp.asarray(POINT))), hesse.grad(energy)(POINT))


def test_mixed_directions_and_sums() -> None:
    """Parameters of which one is summed over its directions and the other is not."""
    x = variable("x", (3,))
    node = np.sum(np.exp(Expression(x) @ MATRIX[:3])).node
    parameters = [Parameter(2, x.shape, is_summed=True), Parameter(2, x.shape)]
    seeds = {x: {(1, 0): delta(x.shape), (0, 1): delta(x.shape)}}
    found = compiled(Propagation(parameters, seeds).coefficient(node, (2, 2)), x=POINT[:3])
    fourth = evaluate_jax(jax.hessian(jax.hessian(lambda x: jnp.sum(jnp.exp(x @ MATRIX[:3])))), POINT[:3])
    assert_close(found, np.einsum("iijj->j", fourth))


ERRORS: dict[str, Callable[[], Any]] = {
    "order must be an integer of at least 1, not 0": lambda: hesse.taylor(net, 0),
    "curve must be an integer of at least 1, not 2.0": lambda: hesse.taylor(net, 2, curve=2.0),
    "not array([1.]); the arguments of f are given to what this returns, as in hesse.grad(f)(x)": (
        lambda: hesse.taylor(net, np.ones(1))
    ),
    "v has shape (3,), but x has shape (4,)": lambda: hesse.taylor(net, 2)(POINT, DIRECTION[:3]),
    "v2 has shape (3,), but x has shape (4,)": lambda: hesse.taylor(net, 2, curve=2)(POINT, POINT, POINT[:3]),
    "orders must be integers of at least 0, one for each entry, not (1, -1)": lambda: hesse.partial(
        net, (1, -1)
    ),
    "orders must be integers of at least 0, one for each entry, not True": lambda: hesse.partial(net, True),
    "orders must be integers of at least 0, one for each entry, not ()": lambda: hesse.partial(net, ()),
    "orders has 3 entries, but x has shape (4,): there must be one for each": (
        lambda: hesse.partial(net, (1, 0, 2))(POINT)
    ),
    'partial needs one array to differentiate by, not p["a"], p["b"]': (
        lambda: hesse.partial(lambda p: p["a"] * p["b"], (1,))({"a": 1.0, "b": 2.0})
    ),
    "mode='taylor' makes derivatives along directions": (
        lambda: hesse.derivative(net, order=2, mode="taylor")(POINT)
    ),
    "'lowest-order-first', not 'taylor'": lambda: hesse.jacobian(net, mode="taylor"),
    "argnums must be one int here, not (0, 1)": lambda: hesse.biharmonic(net, argnums=(0, 1)),
}


@pytest.mark.parametrize(("message", "call"), ERRORS.items(), ids=itertools.count(1))
def test_errors(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert message in str(caught.value)
