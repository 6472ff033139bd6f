"""Losses with derivatives of high order inside: reverse mode goes back through series by shortcuts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.calculus import Parameter, Propagation, enter_compositions, pull_back
from hesse.ir import (
    Shortcut,
    enter_shortcuts,
    map_,
    shortcuts,
    shortcuts_kept,
    shortcuts_wanted,
    uniform,
    variable,
)
from naive import evaluate

ROWS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "tanh": lambda xp: xp.tanh,
    "sin": lambda xp: xp.sin,
    "exp": lambda xp: lambda x: xp.exp(0.3 * x),
    "sigmoid": lambda xp: lambda x: 1.0 / (1.0 + xp.exp(-x)),
    "softplus": lambda xp: lambda x: xp.log1p(xp.exp(x)),
    "root": lambda xp: lambda x: xp.sqrt(2.0 + xp.sin(x)),
    "arctan": lambda xp: xp.arctan,
    "power": lambda xp: lambda x: (2.0 + xp.sin(x)) ** 1.5,
}
random = np.random.default_rng(0)
POINTS = random.uniform(-1.0, 1.0, (5, 1))
PARAMETERS = [random.normal(size=shape) * 0.6 for shape in ((1, 4), (4,), (4, 4), (4,), (4, 1))]


def net(xp: Any, row: Callable[[Any], Any], parameters: Any, x: Any) -> Any:
    first, bias, second, other, last = parameters
    return row(row(x @ first + bias) @ second + other) @ last + x * x


def by_hesse(row: str, order: int, further: bool = False) -> Callable[..., Any]:
    def loss(*parameters: Any) -> Any:
        def total(x: Any) -> Any:
            return np.sum(net(np, ROWS[row](np), parameters, x))

        high = hesse.diagonal(total, order=order, mode="taylor")(POINTS)
        value = np.mean((high - np.sin(POINTS)) ** 2)
        if further:
            lower = hesse.diagonal(total, order=order - 1)(POINTS)
            value = value + np.mean(lower * net(np, np.tanh, parameters, POINTS))
        return value

    return loss


def by_jax(row: str, order: int, further: bool = False) -> Callable[..., Any]:
    def loss(*parameters: Any) -> Any:
        def at_point(x: Any) -> Any:
            return net(jnp, ROWS[row](jnp), parameters, x.reshape(1, 1))[0, 0]

        def derivative(count: int) -> Any:
            f = at_point
            for _ in range(count):
                f = jax.jacfwd(f)
            return jax.vmap(f)(POINTS[:, 0])[:, None]

        value = jnp.mean((derivative(order) - jnp.sin(POINTS)) ** 2)
        if further:
            value = value + jnp.mean(derivative(order - 1) * net(jnp, jnp.tanh, parameters, POINTS))
        return value

    return loss


def assert_equal(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


EVERY = tuple(range(len(PARAMETERS)))


@pytest.mark.parametrize("row", ROWS)
def test_gradients_of_losses_with_fourth_derivatives(row: str) -> None:
    gradient = hesse.grad(by_hesse(row, 4), argnums=EVERY)
    expected = jax.grad(by_jax(row, 4), argnums=EVERY)(*PARAMETERS)
    assert_equal(gradient(*PARAMETERS), expected)
    assert_equal(gradient(*PARAMETERS), expected)


@pytest.mark.parametrize("order", range(1, 9))
def test_every_order(order: int) -> None:
    found = hesse.grad(by_hesse("tanh", order), argnums=EVERY)(*PARAMETERS)
    assert_equal(found, jax.grad(by_jax("tanh", order), argnums=EVERY)(*PARAMETERS))


def test_single_precision() -> None:
    single = [parameter.astype(np.float32) for parameter in PARAMETERS]
    found = hesse.grad(by_hesse("tanh", 3), argnums=EVERY)(*single)
    assert_equal(found, jax.grad(by_jax("tanh", 3), argnums=EVERY)(*PARAMETERS), 1e-3)


def test_several_derivatives_in_one_loss() -> None:
    found = hesse.grad(by_hesse("tanh", 4, True), argnums=EVERY)(*PARAMETERS)
    assert_equal(found, jax.grad(by_jax("tanh", 4, True), argnums=EVERY)(*PARAMETERS))


def test_derivatives_of_the_gradient() -> None:
    hessian = hesse.hessian(by_hesse("sin", 3), argnums=2)(*PARAMETERS)
    np.testing.assert_allclose(
        hessian, jax.hessian(by_jax("sin", 3), argnums=2)(*PARAMETERS), rtol=1e-8, atol=1e-8
    )


def test_laplacians_and_directions() -> None:
    points = random.normal(size=(3, 2))

    def loss(xp: Any, laplacian: Any, along: Any) -> Callable[..., Any]:
        return lambda a, b: xp.sum(laplacian(a, b) ** 2) + xp.sum(along(a, b) ** 3)

    def value(xp: Any, a: Any, b: Any, x: Any) -> Any:
        return xp.tanh(xp.tanh(x @ a) @ b)

    a, b, v = random.normal(size=(2, 4)), random.normal(size=4), random.normal(size=(3, 2))
    found = hesse.grad(
        loss(
            np,
            lambda a, b: hesse.laplacian(lambda x: value(np, a, b, x), mode="taylor")(points),
            lambda a, b: hesse.taylor(lambda x: value(np, a, b, x), 3)(points, v)[3],
        ),
        argnums=(0, 1),
    )(a, b)

    def laplacian(a: Any, b: Any) -> Any:
        return jax.vmap(lambda x: jnp.trace(jax.hessian(lambda x: value(jnp, a, b, x))(x)))(points)

    def along(a: Any, b: Any) -> Any:
        f = lambda t: value(jnp, a, b, points + t * v)  # noqa: E731
        return jax.jacfwd(jax.jacfwd(jax.jacfwd(f)))(0.0)

    assert_equal(found, jax.grad(loss(jnp, laplacian, along), argnums=(0, 1))(a, b))


def test_what_is_between_can_be_asked_for() -> None:
    """A shortcut passes by the value of tanh; a derivative by that value does not take it."""
    x = variable("x", (3,))
    value = map_("tanh", x)
    with shortcuts_kept(), shortcuts_wanted():
        propagation = Propagation([Parameter(2)], {x: {(1,): uniform(1.0, (3,))}})
        second = propagation.coefficient(value, (2,))
        enter_compositions(propagation)
        assert shortcuts()
        short = pull_back(second, uniform(1.0, (3,)), [x])[0]
        (between,) = pull_back(second, uniform(1.0, (3,)), [value])
    assert not shortcuts()
    point = np.array([0.3, -0.5, 1.1])
    y = np.tanh(point)
    # the second derivative is -2·y·(1 - y²)
    np.testing.assert_allclose(evaluate(between, {"x": point}), -2.0 + 6.0 * y**2)
    np.testing.assert_allclose(evaluate(short, {"x": point}), (-2.0 + 6.0 * y**2) * (1.0 - y**2))


def test_fewer_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def operations() -> float:
        found = hesse.grad(by_hesse("tanh", 4), argnums=EVERY).explain(*PARAMETERS)
        return float(found.flops)

    few = operations()
    monkeypatch.setattr("hesse.calculus.compositions.are_shortcuts_wanted", lambda: False)
    assert few < 0.8 * operations()


def test_nothing_is_remembered() -> None:
    """The gradient of a function that is no derivative is the same, whatever was computed before."""

    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * (1.0 - np.tanh(x) ** 2))

    before = str(hesse.grad(f).explain(np.ones(3)).formula)
    hesse.grad(lambda x: np.sum(hesse.diagonal(lambda x: np.sum(np.tanh(x)), order=3)(x) ** 2))(np.ones(3))
    assert str(hesse.grad(f).explain(np.ones(3)).formula) == before
    assert not shortcuts()
    assert math.isfinite(float(hesse.grad(f)(np.ones(3))[0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_on_an_equation_of_order_four(dtype: torch.dtype) -> None:
    """The losses of all steps are those of nested autograd, and Taylor mode is chosen by itself."""
    points = torch.as_tensor(POINTS, dtype=dtype)

    def nested(*parameters: torch.Tensor) -> torch.Tensor:
        x = points.clone().requires_grad_(True)
        high = net(torch, torch.tanh, parameters, x)
        for _ in range(4):
            (high,) = torch.autograd.grad(high.sum(), x, create_graph=True)
        return ((high - torch.sin(points)) ** 2).mean()

    def loss(*parameters: Any) -> Any:
        high = hesse.diagonal(lambda x: net(torch, torch.tanh, parameters, x).sum(), order=4)(points)
        return ((high - torch.sin(points)) ** 2).mean()

    def curve(step: Callable[..., Any]) -> list[float]:
        parameters = [torch.tensor(parameter, dtype=dtype) for parameter in PARAMETERS]
        losses = []
        for _ in range(10):
            value, gradients = step(*parameters)
            losses.append(float(value.detach()))
            pairs = zip(parameters, gradients, strict=True)
            parameters = [parameter - 1e-4 * gradient for parameter, gradient in pairs]
        return losses

    def by_autograd(*parameters: torch.Tensor) -> Any:
        leaves = [parameter.clone().requires_grad_(True) for parameter in parameters]
        value = nested(*leaves)
        return value, torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)

    found = curve(hesse.value_and_grad(loss, argnums=EVERY))
    np.testing.assert_allclose(found, curve(by_autograd), rtol=1e-10 if dtype == torch.float64 else 1e-3)
    assert found[-1] < found[0]


def test_a_coefficient_that_is_its_own_operand() -> None:
    """No shortcut leads from a node to itself: what is collected there would be lost."""
    x = variable("x", (3,))
    with shortcuts_kept():
        enter_shortcuts(x, [Shortcut(x, x, variable("a change", (3,)))])
        assert not shortcuts()
