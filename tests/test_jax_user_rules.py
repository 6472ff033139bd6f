"""Rules of users for functions of JAX that are not the derivatives of these functions, as in nested JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import hesse
from oracles import assert_close

X = jnp.array([0.3, -0.7, 1.2])
V = jnp.array([1.0, 2.0, -1.0])


def _changed(change: Callable[[Any], Any]) -> Any:
    """The identity, with a gradient that is changed on its way back."""
    function = jax.custom_vjp(lambda x: x)
    function.defvjp(lambda x: (x, None), lambda _, g: (change(g),))
    return function


@jax.custom_jvp
def rounded(x: Any) -> Any:
    return jnp.round(x)


rounded.defjvp(lambda primals, tangents: (jnp.round(primals[0]), tangents[0]))


@jax.custom_vjp
def product(x: Any, y: Any) -> Any:
    return x * jnp.sin(y)


product.defvjp(
    lambda x, y: (product(x, y), (x, y)),
    lambda kept, g: (g * jnp.sin(kept[1]), g * kept[0] * jnp.cos(kept[1])),
)


@jax.custom_jvp
def all_or_nothing(x: Any, y: Any) -> Any:
    return x * jnp.sin(y)


def _all_or_nothing(primals: Any, tangents: Any) -> Any:
    """A rule that looks at what moves, as those of equinox do."""
    (x, y), value = primals, all_or_nothing(*primals)
    if any(isinstance(one, jax.custom_derivatives.SymbolicZero) for one in tangents):
        return value, jnp.zeros_like(value)
    return value, jnp.sin(y) * tangents[0] + x * jnp.cos(y) * tangents[1]


all_or_nothing.defjvp(_all_or_nothing, symbolic_zeros=True)


@jax.custom_jvp
def held(x: Any, y: Any) -> Any:
    return x * jnp.sin(y)


def _held(primals: Any, tangents: Any) -> Any:
    """A rule that wants one operand to be held constant, as those of lineax do."""
    assert isinstance(tangents[1], jax.custom_derivatives.SymbolicZero)
    return held(*primals), jnp.cos(primals[1]) * tangents[0]


held.defjvp(_held, symbolic_zeros=True)


@jax.custom_vjp
def held_back(x: Any, y: Any) -> Any:
    return x * jnp.sin(y)


def _held_back(x: Any, y: Any) -> Any:
    assert not y.perturbed
    return held_back(x.value, y.value), (x.value, y.value)


held_back.defvjp(
    _held_back, lambda kept, g: (g * jnp.cos(kept[0]) * kept[1], jnp.zeros_like(kept[1])), symbolic_zeros=True
)
reversed_ = _changed(lambda g: -2.0 * g)
clipped = _changed(lambda g: jnp.clip(g, -0.5, 0.5))
shortened = _changed(lambda g: g / jnp.maximum(1.0, jnp.linalg.norm(g)))


def looped(x: Any) -> Any:
    return jnp.sum(lax.scan(lambda c, t: (product(c, x) + t, None), x, jnp.arange(30.0) / 30)[0])


RULES: dict[str, Callable[[Any], Any]] = {
    "reversed": lambda x: jnp.sum(jnp.sin(reversed_(x**2)) ** 3),
    "straight through": lambda x: jnp.sum(rounded(x) ** 3 * x),
    "one inside of another": lambda x: jnp.sum(reversed_(jnp.sin(reversed_(x))) ** 2 * rounded(3 * x)),
    "clipped": lambda x: jnp.sum(clipped(x) ** 3),
    "clipped one by one": lambda x: jnp.sum(jax.vmap(clipped)(x) ** 4),
    "shortened": lambda x: jnp.sum(shortened(x) ** 3),
    "of all that moves": lambda x: jnp.sum(all_or_nothing(x, x**2) ** 2),
    "of an operand held constant": lambda x: jnp.sum(held(x**2, lax.stop_gradient(x) + 1.0) ** 2),
    "backward, of an operand held constant": lambda x: jnp.sum(
        held_back(x**2, lax.stop_gradient(jnp.sin(x))) ** 2
    ),
    "in a loop": looped,
    "in a branch": lambda x: lax.cond(x[0] > 0, lambda y: jnp.sum(product(y, y)), jnp.sum, x),
}


@pytest.mark.parametrize("name", RULES)
def test_derivatives(name: str) -> None:
    """All operators, against reverse mode of JAX again and again."""
    f = RULES[name]
    gradient = jax.jacrev(f)
    first, second, third = (jax.jit(one)(X) for one in (gradient, jax.jacrev(gradient), _third(f)))
    assert_close(hesse.grad(f)(X), first)
    assert_close(hesse.hessian(f)(X), second)
    assert_close(hesse.derivative(f, 3)(X), third)
    assert_close(hesse.hvp(f)(X, V), second @ V)
    assert_close(hesse.laplacian(f)(X), jnp.trace(second))
    assert_close(hesse.diagonal(f, order=3)(X), jnp.einsum("iii->i", third))
    along = first @ V, V @ second @ V, jnp.einsum("ijk,i,j,k", third, V, V, V)
    for one, other in zip(hesse.taylor(f, 3)(X, V)[1:], along, strict=True):
        assert_close(one, other)
    assert_close(jax.vmap(hesse.grad(f))(jnp.stack([X, V])), jax.vmap(gradient)(jnp.stack([X, V])))


def _third(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.jacrev(jax.jacrev(jax.jacrev(f)))


@pytest.mark.parametrize("name", ["reversed", "straight through"])
def test_partial_derivatives_and_biharmonic_operators(name: str) -> None:
    f = RULES[name]
    assert_close(hesse.partial(f, (2, 0, 1))(X), _third(f)(X)[0, 0, 2])
    fourth = jax.jacrev(_third(f))(X)
    assert_close(hesse.biharmonic(f)(X), jnp.einsum("iijj", fourth))


def test_along_a_curve() -> None:
    f = RULES["reversed"]
    first, second = jax.jacrev(f)(X), jax.jacrev(jax.jacrev(f))(X)
    assert_close(hesse.taylor(f, 2, curve=2)(X, V, X)[2], V @ second @ V + first @ X)


def test_gradients_of_several_numbers_are_changed_together() -> None:
    with pytest.raises(hesse.DifferentiationError, match="not linear in the tangents"):
        hesse.jacobian(lambda x: clipped(x) ** 3)(X)
