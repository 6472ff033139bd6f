"""Keys of random numbers as arguments of JAX functions: the numbers are drawn in every call, by the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import hesse
from hesse.errors import ArgumentError, TracingError
from oracles import assert_close, fast_jit, nested_jax

X = jnp.array([0.3, -0.8, 1.2, 0.5])


def layers(x: Any, key: Any) -> Any:
    """A net with dropout and noise."""
    for own in random.split(key, 2):
        kept = random.bernoulli(own, 0.7, x.shape)
        x = jnp.tanh(jnp.where(kept, x / 0.7, 0.0)) + 0.1 * random.normal(random.fold_in(own, 3), x.shape)
    return jnp.sum(x**2)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda x, key: jnp.sum(x**3 * random.normal(key, (4,))),
    "uniform": lambda x, key: jnp.sum(jnp.sin(x * random.uniform(key, (4,), minval=0.5, maxval=2.0))),
    "uniform of variable ends": lambda x, key: jnp.sum(
        random.uniform(key, (4,), minval=x, maxval=x**2 + 2) ** 2
    ),
    "reparametrised": lambda x, key: jnp.sum((x + jnp.exp(x) * random.normal(key, (4,))) ** 4),
    "layers": layers,
    "noise inside": lambda x, key: jnp.sum(
        jnp.sin(random.normal(key, (4,)) @ random.normal(key, (4, 4)) * x)
    ),
    "chosen": lambda x, key: jnp.sum(x[random.permutation(key, 4)] ** jnp.arange(1.0, 5.0)),
    "whole numbers": lambda x, key: jnp.sum(x[random.randint(key, (3,), 0, 4)] ** 3),
    "Gumbel": lambda x, key: jax.nn.logsumexp(x + random.gumbel(key, (4,))),
    "mapped": lambda x, key: jnp.sum(jax.vmap(lambda a, k: a**2 * random.normal(k))(x, random.split(key, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_drawn_in_every_call(name: str) -> None:
    function = CASES[name]
    grad, hessian = hesse.grad(function), hesse.hessian(function)
    first, second = fast_jit(jax.grad(function)), fast_jit(jax.hessian(function))
    for seed in (0, 1):
        key = random.PRNGKey(seed)
        assert_close(grad(X, key), first(X, key))
        assert_close(hessian(X, key), second(X, key))
    assert_close(jax.jit(grad)(X, random.PRNGKey(2)), first(X, random.PRNGKey(2)))


def test_in_single_precision() -> None:
    """Whole numbers of 32 bits stay as they are."""
    with jax.enable_x64(False):
        x, key = X.astype(jnp.float32), random.PRNGKey(5)
        for function in (CASES["normal"], layers):
            assert_close(hesse.grad(function)(x, key), jax.grad(function)(x, key), "", 1e-5)


def test_captured_keys_are_constants() -> None:
    keys = [random.key(0)]

    def function(x: Any) -> Any:
        return jnp.sum(x**2 * random.normal(keys[0], (4,)))

    grad = hesse.grad(function)
    assert_close(grad(X), jax.grad(function)(X))
    keys[0] = random.key(1)
    assert_close(grad(X), jax.grad(function)(X))


def test_refused() -> None:
    with pytest.raises(ArgumentError, match=r"argument key is a key of random numbers.*key_data\(key\)"):
        hesse.grad(CASES["normal"])(X, random.key(0))
    with pytest.raises(TracingError, match="a key of random numbers in a loop or a result"):
        hesse.grad(lambda x, key: (jnp.sum(x), random.wrap_key_data(key)), has_aux=True)(X, random.PRNGKey(0))


@jax.custom_jvp
def tripled(x: Any) -> Any:
    return x**2


tripled.defjvp(lambda primals, tangents: (tripled(*primals), 3 * primals[0] * tangents[0]))


def walk(x: Any) -> Any:
    """A loop that is left to JAX, with keys that are known."""
    return jax.lax.fori_loop(
        0, 60, lambda k, s: 0.9 * s + x * random.uniform(random.fold_in(random.PRNGKey(3), k)), x
    )


@pytest.mark.parametrize(
    "function", [walk, lambda x: tripled(x) * random.normal(random.key(0), (4,))], ids=["loop", "rule"]
)
def test_known_keys_beside_rules_of_jax(function: Callable[[Any], Any]) -> None:
    """Each trace has rules of its own; they are the same draws."""
    for order in (1, 2):
        expected = fast_jit(nested_jax(lambda x: function(x) ** 2, order))(X)
        assert_close(hesse.derivative(lambda x: function(x) ** 2, order)(X), expected)


def test_draws_beside_rules_of_jax_are_refused() -> None:
    with pytest.raises(TracingError, match="draws random numbers"):
        hesse.grad(lambda x: jnp.sum(walk(x) * np.random.default_rng().normal()))(X)
