"""Foreign functions: custom derivatives of functions that are called, not traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import torch

import hesse
from oracles import fast_jit

MODES = ("auto", "forward", "reverse", "two-sided", "cross-country", "lowest-order-first")
RULES = ("jvp", "vjp", "both")
X = np.array([0.3, 1.2, 0.7])
Y = np.array([0.5, 0.9, 1.1])


def forbidden(*arguments: Any) -> Any:
    raise AssertionError("this rule must not be asked")


def product_sine(rules: str) -> Any:
    """sin(x) y, whose rules call it again and another function that has only the other kind of rule."""

    @hesse.custom_derivative
    def product(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    @hesse.custom_derivative
    def cosine(x: Any) -> Any:
        return np.array([math.cos(entry) for entry in x])

    def product_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return y * cosine(x) * dx + product(x, 1.0) * dy

    def product_vjp(primals: Any, result: Any, cotangent: Any) -> Any:
        x, y = primals
        return cosine(x) * y * cotangent, product(x, 1.0) * cotangent

    def cosine_jvp(primals: Any, tangents: Any) -> Any:
        return -product(primals[0], 1.0) * tangents[0]

    if rules in ("jvp", "both"):
        product.defjvp(product_jvp)
        cosine.defvjp(lambda primals, result, cotangent: -product(primals[0], 1.0) * cotangent)
    if rules in ("vjp", "both"):
        product.defvjp(product_vjp)
        cosine.defjvp(cosine_jvp)
    return product


def nested(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    for _ in range(order):
        f = jax.jacfwd(f)
    return fast_jit(f)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("mode", MODES)
def test_orders_against_jax(rules: str, mode: str, order: int) -> None:
    product = product_sine(rules)
    found = hesse.derivative(lambda x: np.sum(product(x, x * x) ** 2 * Y), order=order, mode=mode)
    expected = nested(lambda x: jnp.sum((jnp.sin(x) * x * x) ** 2 * Y), order)(X)
    for _ in range(2):
        np.testing.assert_allclose(found(X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rules", RULES)
def test_every_kind_of_derivative(rules: str) -> None:
    product = product_sine(rules)

    def f(x: Any, y: Any) -> Any:
        return np.sum(np.exp(product(x, y)) * x)

    def g(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.exp(jnp.sin(x) * y) * x)

    hessian = np.asarray(jax.hessian(g)(X, Y))
    close = np.testing.assert_allclose
    close(hesse.grad(f)(X, Y), jax.grad(g)(X, Y), rtol=1e-12)
    close(hesse.value_and_grad(f, argnums=1)(X, Y)[1], jax.grad(g, 1)(X, Y), rtol=1e-12)
    blocks = hesse.hessian(f, argnums=(0, 1))(X, Y)
    for own, theirs in zip(blocks, jax.hessian(g, (0, 1))(X, Y), strict=True):
        for block, expected in zip(own, theirs, strict=True):
            close(block, expected, rtol=1e-12, atol=1e-14)
    close(hesse.hvp(f)(X, Y, Y), hessian @ Y, rtol=1e-12)
    close(hesse.laplacian(f)(X, Y), np.trace(hessian), rtol=1e-12)
    close(hesse.diagonal(f)(X, Y), np.diag(hessian), rtol=1e-12)
    close(hesse.jvp(product)(X, Y, Y), np.cos(X) * Y * Y, rtol=1e-12)
    close(hesse.vjp(product, argnums=1)(X, Y, Y), np.sin(X) * Y, rtol=1e-12)
    assert hesse.check(f, X, Y, order=3)


def test_forward_asks_the_jvp_and_reverse_the_vjp() -> None:
    f = product_sine("both")
    f.defvjp(forbidden)
    np.testing.assert_allclose(hesse.jacobian(f, mode="forward")(X, Y), np.diag(np.cos(X) * Y))
    f = product_sine("both")
    f.defjvp(forbidden)
    np.testing.assert_allclose(hesse.jacobian(f, mode="reverse")(X, Y), np.diag(np.cos(X) * Y))


@pytest.mark.parametrize("rules", RULES)
def test_an_elementwise_rule_gives_a_diagonal(rules: str) -> None:
    f = product_sine(rules)
    many = np.linspace(0.1, 1.0, 2000)
    jacobian = hesse.jacobian(f, form="structured")(many, many)
    assert jacobian.solve_method() == "diagonal"
    np.testing.assert_allclose(jacobian.diagonal(), np.cos(many) * many, rtol=1e-12)
    hessian = hesse.hessian(lambda x: np.sum(f(x, x)), form="structured")(many)
    assert hessian.solve_method() == "diagonal"
    np.testing.assert_allclose(hessian.diagonal(), 2 * np.cos(many) - many * np.sin(many), rtol=1e-9)


def test_rules_are_traced_only_when_a_derivative_is_asked_for() -> None:
    @hesse.custom_derivative
    def f(x: Any) -> Any:
        return x * x

    f.defjvp(forbidden)
    f.defvjp(forbidden)
    derivative = hesse.grad(lambda x, y: np.sum(f(x) * y), argnums=1)
    np.testing.assert_allclose(derivative(X, Y), X * X)
    with pytest.raises(AssertionError, match="must not be asked"):
        hesse.grad(lambda x: np.sum(f(x)))(X)


def test_outside_of_tracing_it_is_the_function() -> None:
    seen: list[Any] = []

    @hesse.custom_derivative
    def double(x: Any, *, twice: bool = True) -> Any:
        """Twice."""
        seen.append(x)
        return [x, x] if twice else x

    array = np.ones(2)
    assert double("a") == ["a", "a"]
    assert double(array, twice=False) is array
    assert seen[1] is array
    assert (double.__name__, double.__doc__) == ("double", "Twice.")


# What functions are called with and give back.


def two_results() -> tuple[Any, list[int]]:
    calls: list[int] = []

    @hesse.custom_derivative
    def sine_cosine(x: Any) -> Any:
        calls.append(1)
        return np.sin(x), np.cos(x), np.argsort(-x), x > 0.5

    @sine_cosine.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        sine, cosine, *_ = sine_cosine(*primals)
        return cosine * tangents[0], -sine * tangents[0], 0.0, 0.0

    return sine_cosine, calls


def with_all_results(sine_cosine: Any, x: Any) -> Any:
    sine, cosine, order, large = sine_cosine(x)
    return (
        np.sum(sine * cosine * x)
        + np.sum((sine[order] * np.arange(3)) ** 2)
        + np.sum(np.where(large, x**3, 0))
    )


def with_all_results_in_jax(x: Any) -> Any:
    sine, cosine, order = jnp.sin(x), jnp.cos(x), jnp.argsort(-x)
    ordered = (sine[order] * jnp.arange(3)) ** 2
    return jnp.sum(sine * cosine * x) + jnp.sum(ordered) + jnp.sum(jnp.where(x > 0.5, x**3, 0))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_several_results_from_one_call(order: int) -> None:
    sine_cosine, calls = two_results()
    found = hesse.derivative(lambda x: with_all_results(sine_cosine, x), order=order)
    expected = nested(with_all_results_in_jax, order)(X)
    np.testing.assert_allclose(found(X), expected, rtol=1e-12, atol=1e-12)
    calls.clear()
    found(X + 0.01)
    assert len(calls) == 1


def test_several_results_with_a_vjp() -> None:
    @hesse.custom_derivative
    def polar(x: Any, y: Any) -> Any:
        return np.hypot(x, y), np.arctan2(y, x)

    @polar.defvjp
    def vjp(primals: Any, results: Any, cotangents: Any) -> Any:
        (x, y), (r, _), (cr, ca) = primals, results, cotangents
        return x / r * cr - y / r**2 * ca, y / r * cr + x / r**2 * ca

    def f(x: Any, y: Any) -> Any:
        r, angle = polar(x, y)
        return np.sum(r**3 * np.cos(2 * angle))

    def g(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.hypot(x, y) ** 3 * jnp.cos(2 * jnp.arctan2(y, x)))

    for order in (1, 2, 3):
        found = hesse.derivative(f, order=order, argnums=1)(X, Y)
        expected = g
        for _ in range(order):
            expected = jax.jacfwd(expected, 1)
        np.testing.assert_allclose(found, fast_jit(expected)(X, Y), rtol=1e-11, atol=1e-11)


def test_settings_index_arrays_and_masks_reach_the_function_as_they_are() -> None:
    seen: list[tuple[Any, ...]] = []

    @hesse.custom_derivative
    def pick(x: Any, where: Any, mask: Any, scale: int, name: str) -> Any:
        seen.append((where.dtype.kind, mask.dtype.kind, type(scale), name, x.flags.c_contiguous))
        return np.where(mask, x[where], 0.0) * scale

    @pick.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        _, where, mask, scale, _ = primals
        dx, *others = tangents
        assert others[-2:] == [0.0, 0.0]
        return np.where(mask, dx[where], 0.0) * scale

    places = np.array([2, 0, 1])
    f = hesse.jacobian(lambda x, p: pick(x.T[0] ** 2, p, x[:, 0] > 0.5, 3, "setting"))
    found = f(np.stack([X, Y], 1), places)
    expected = np.zeros((3, 3, 2))
    for k, place in enumerate(places):
        expected[k, place, 0] = 6 * X[place] * (X[k] > 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert set(seen) == {("i", "b", int, "setting", True)}


def test_arguments_may_be_changed_and_results_kept() -> None:
    kept: list[np.ndarray] = []

    @hesse.custom_derivative
    def f(x: Any) -> Any:
        x *= 2.0
        kept.append(x)
        return x

    f.defjvp(lambda primals, tangents: 2.0 * tangents[0])
    values = hesse.value_and_grad(lambda x: np.sum(f(x) * x))
    x = X.copy()
    for _ in range(2):
        value, gradient = values(x)
        np.testing.assert_allclose(value, 2 * X @ X)
        np.testing.assert_allclose(gradient, 4 * X)
        np.testing.assert_array_equal(x, X)
        for array in kept:
            array[...] = np.nan


def test_numbers_are_numbers() -> None:
    @hesse.custom_derivative
    def f(x: float) -> float:
        return math.exp(x) if x < 1 else 1.0

    f.defvjp(lambda primals, result, cotangent: result * cotangent)
    np.testing.assert_allclose(hesse.derivative(f, order=3)(0.5), math.exp(0.5))


def test_broadcasting_and_batches() -> None:
    @hesse.custom_derivative
    def outer_power(x: Any, y: Any) -> Any:
        return x[:, None] ** y

    @outer_power.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        power = outer_power(x, y)
        return power * (y / x[:, None] * dx[:, None] + np.log(x)[:, None] * dy)

    def f(x: Any, y: Any) -> Any:
        return np.sum(outer_power(x, y) * outer_power(x[::-1], 2 * y), axis=0)

    def g(x: Any, y: Any) -> Any:
        return jnp.sum(x[:, None] ** y * x[::-1, None] ** (2 * y), axis=0)

    y = np.array([0.5, 2.0])
    for argnum in (0, 1):
        for order in (1, 2, 3):
            expected = g
            for _ in range(order):
                expected = jax.jacfwd(expected, argnum)
            found = hesse.derivative(f, order=order, argnums=argnum)(X, y)
            np.testing.assert_allclose(found, fast_jit(expected)(X, y), rtol=1e-11, atol=1e-11)


def test_captured_arrays_methods_and_keywords() -> None:
    class Model:
        def __init__(self, weight: float) -> None:
            self.weight = weight

        @hesse.custom_derivative
        def scaled(self, x: Any, power: int = 2) -> Any:
            return self.weight * x**power

        @scaled.defjvp
        def jvp(primals: Any, tangents: Any) -> Any:  # type: ignore[misc]
            self, x, power = primals
            return power * self.weight * x ** (power - 1) * tangents[1]

    for weight in (2.0, 5.0):
        model = Model(weight)
        found = hesse.hessian(lambda x, model=model: np.sum(model.scaled(x * Y, power=3)))(X)
        np.testing.assert_allclose(found, np.diag(6 * weight * X * Y**3), rtol=1e-12)


# Functions that are linear: their rules call them on tangents.


def convolution(rules: str) -> Any:
    @hesse.custom_derivative
    def convolve(a: Any, b: Any) -> Any:
        return np.convolve(a, b)

    @hesse.custom_derivative
    def correlate(a: Any, b: Any) -> Any:
        return np.correlate(a, b, "valid")

    correlate.defjvp(lambda p, t: correlate(t[0], p[1]) + correlate(p[0], t[1]))
    if rules in ("jvp", "both"):
        convolve.defjvp(lambda p, t: convolve(t[0], p[1]) + convolve(p[0], t[1]))
    if rules in ("vjp", "both"):
        convolve.defvjp(lambda p, r, c: (correlate(c, p[1]), correlate(c, p[0])))
    return convolve


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("mode", MODES)
def test_tangents_that_pass_through_foreign_functions(rules: str, mode: str, order: int) -> None:
    convolve = convolution(rules)
    found = hesse.derivative(
        lambda x: np.sum(np.exp(convolve(np.sin(x), x**2) * 0.3)), order=order, mode=mode
    )
    expected = nested(lambda x: jnp.sum(jnp.exp(jnp.convolve(jnp.sin(x), x**2) * 0.3)), order)
    np.testing.assert_allclose(found(X), expected(X), rtol=1e-11, atol=1e-11)


def test_a_linear_function_is_called_on_one_tangent() -> None:
    calls: list[Any] = []

    @hesse.custom_derivative(shape=lambda shape: shape)
    def accumulate(x: Any) -> Any:
        calls.append(x)
        return np.cumsum(x)

    accumulate.defjvp(lambda primals, tangents: accumulate(tangents[0]))
    accumulate.defvjp(lambda primals, result, cotangent: accumulate(cotangent[::-1])[::-1])
    np.testing.assert_allclose(hesse.jvp(accumulate)(X, Y), np.cumsum(Y))
    np.testing.assert_allclose(hesse.vjp(accumulate)(X, Y), np.cumsum(Y[::-1])[::-1])
    assert len(calls) == 2
    np.testing.assert_allclose(hesse.jacobian(accumulate)(X), np.tri(3))
    f = hesse.jacobian(accumulate, mode="forward")
    assert f(X.astype(np.float32)).dtype == np.float32


# Wrapped kernels.


def bessel() -> Any:
    @hesse.custom_derivative
    def jv(order: int, x: Any) -> Any:
        return scipy.special.jv(order, x)

    @jv.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (order, x), (_, dx) = primals, tangents
        return (jv(order - 1, x) - jv(order + 1, x)) / 2 * dx

    return jv


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bessel_functions_of_scipy(order: int) -> None:
    jv = bessel()
    found = hesse.derivative(lambda x: jv(2, x), order=order, form="structured")(X)
    entry = found.dense()[(np.arange(3),) * (order + 1)]
    np.testing.assert_allclose(entry, scipy.special.jvp(2, X, order), rtol=1e-12)


def test_a_ufunc_can_be_wrapped_as_it_is() -> None:
    expit = hesse.custom_derivative(scipy.special.expit)
    expit.defvjp(lambda primals, result, cotangent: result * (1 - result) * cotangent)
    expected = nested(lambda x: jnp.sum(jax.nn.sigmoid(x) ** 2), 3)(X)
    found = hesse.derivative(lambda x: np.sum(expit(x) ** 2), order=3)(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    with pytest.raises(hesse.ArgumentError, match=r"expit has a custom derivative, .* pass dtype so, too"):
        hesse.grad(lambda x: np.sum(expit(x, dtype=float)))(X)


def test_a_kernel_of_numba() -> None:
    numba = pytest.importorskip("numba")

    @hesse.custom_derivative
    @numba.njit
    def last_below(x, limit):  # type: ignore[no-untyped-def]
        total, power = 0.0, 1.0
        while power < limit:  # decides by values
            total += (x * power).sum()
            power *= 1.5
        return total

    last_below.defjvp(lambda p, t: np.sum(t[0]) * last_below(np.ones(1), p[1]))
    assert hesse.check(lambda x: last_below(x, 7.0) ** 2, X, order=3)


def test_loops_that_decide_by_values() -> None:
    @hesse.custom_derivative
    def square_root(x: Any) -> Any:
        result = np.ones_like(x)
        while np.abs(result * result - x).max() > 1e-13:
            result = (result + x / result) / 2
        return result

    square_root.defvjp(lambda primals, result, cotangent: cotangent / (2 * result))
    found = hesse.derivative(lambda x: np.sum(square_root(x)), order=3)(X)
    expected = nested(lambda x: jnp.sum(jnp.sqrt(x)), 3)(X)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert hesse.check(square_root, X, order=2)


def test_the_check_finds_a_wrong_rule() -> None:
    @hesse.custom_derivative
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defjvp(lambda primals, tangents: np.sin(primals[0]) * tangents[0])
    assert not hesse.check(f, X).ok


# Other libraries and types.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_arrays_of_all_libraries(library: str, dtype: Any) -> None:
    sine_cosine, _ = two_results()
    jv = bessel()
    f = hesse.hessian(lambda x: with_all_results(sine_cosine, x) * np.sum(jv(1, x)))
    array = X.astype(dtype)
    given = {"numpy": array, "torch": torch.from_numpy(array), "jax": jnp.asarray(array)}[library]
    expected = f(X)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for _ in range(2):
        found = f(given)
        assert type(found) is type(given) or library == "jax"
        assert np.asarray(found).dtype == dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def test_short_types() -> None:
    product = product_sine("jvp")
    f = hesse.grad(lambda x: np.sum(product(x, x)))
    expected = f(X)
    for given in (torch.tensor(X, dtype=torch.bfloat16), jnp.asarray(X, jnp.bfloat16)):
        found = f(given)
        assert found.dtype == given.dtype
        found = found.float().numpy() if isinstance(found, torch.Tensor) else np.asarray(found, np.float64)
        np.testing.assert_allclose(found, expected, rtol=0.03)


def test_jax_can_jit_and_batch_but_not_differentiate() -> None:
    product = product_sine("jvp")
    f = hesse.hessian(lambda x: np.sum(product(x, x)))
    x = jnp.asarray(X)
    np.testing.assert_allclose(jax.jit(f)(x), f(X), rtol=1e-12)
    both = jax.vmap(f)(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(both, np.stack([f(X), f(2 * X)]), rtol=1e-12, atol=1e-12)
    with pytest.raises(hesse.DifferentiationError, match=r"JAX cannot differentiate .*native=True"):
        jax.grad(lambda x: f(x).sum())(x)


def test_autograd_is_refused_only_if_it_asks() -> None:
    product = product_sine("jvp")
    f = hesse.hessian(lambda x: np.sum(product(x, x)))
    x = torch.tensor(X, requires_grad=True)
    found = f(x)
    np.testing.assert_allclose(found.detach(), f(X), rtol=1e-12)
    with pytest.raises(hesse.DifferentiationError, match=r"PyTorch cannot differentiate.*native=True"):
        found.sum().backward()
    with pytest.raises(hesse.DifferentiationError, match="PyTorch cannot differentiate, transform"):
        torch.func.vmap(f)(torch.tensor(np.stack([X, X])))


def test_native_functions_are_seen_by_their_library() -> None:
    @hesse.custom_derivative(native=True, shape=lambda shape: shape)
    def sine(x: Any) -> Any:
        return torch.sin(x) if isinstance(x, torch.Tensor) else jnp.sin(x)

    @hesse.custom_derivative(native=True, shape=lambda shape: shape)
    def cosine(x: Any) -> Any:
        return torch.cos(x) if isinstance(x, torch.Tensor) else jnp.cos(x)

    sine.defjvp(lambda primals, tangents: cosine(primals[0]) * tangents[0])
    cosine.defjvp(lambda primals, tangents: -sine(primals[0]) * tangents[0])
    f = hesse.grad(lambda x: np.sum(sine(x)))
    expected = -np.sin(X)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(jnp.asarray(X)), expected, rtol=1e-12)
    x = torch.tensor(X, requires_grad=True)
    f(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, expected, rtol=1e-12)
    rows = torch.func.vmap(f)(torch.tensor(np.stack([X, Y])))
    np.testing.assert_allclose(rows, np.cos(np.stack([X, Y])), rtol=1e-12)
