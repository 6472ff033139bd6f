"""Many products that are small matrices: all their entries are summed in one loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.backends.jax.small import small_products

SIZES = {"n": 6, "m": 4, "k": 9, "l": 2, "i": 3, "j": 2}
PRODUCTS = ("nik,njk->nij", "nki,nkj->nji", "kni,njk->inj", "nmikl,mnljk->mijn", "nk,njk->jn", "nik,knj->nij")


def operands(text: str) -> tuple[list[tuple[int, ...]], list[jax.Array]]:
    """The labels of both operands and of the product, and two arrays."""
    inputs, result = text.split("->")
    names = [*inputs.split(","), result]
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.normal(size=[SIZES[label] for label in each])) for each in names[:2]]
    return [tuple(map(ord, each)) for each in names], arrays


@pytest.mark.parametrize("text", PRODUCTS)
def test_values_and_derivatives_in_each_mode_and_mapped(text: str) -> None:
    labels, (a, b) = operands(text)

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return small_products(a, b, *labels)

    def cubes(function: object) -> object:
        return lambda a, b: jnp.sum(function(a, b) ** 3)  # type: ignore[operator]

    def plain(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.einsum(text, a, b)

    np.testing.assert_allclose(product(a, b), plain(a, b), rtol=1e-13, atol=1e-14)
    for transformed in (
        lambda f: jax.jacfwd(f, argnums=(0, 1)),
        lambda f: jax.jacrev(f, argnums=(0, 1)),
        lambda f: jax.hessian(cubes(f), argnums=(0, 1)),
        lambda f: lambda a, b: jax.vmap(f, in_axes=(0, None))(jnp.stack([a, 2 * a]), b),
        lambda f: lambda a, b: jax.vmap(f, in_axes=(None, 1))(a, jnp.stack([b, 2 * b], 1)),
    ):
        found, expected = (jax.tree.leaves(jax.jit(transformed(f))(a, b)) for f in (product, plain))
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-11)


def blocks(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A 2 by 3 matrix for each of many points."""
    return np.einsum("nki,nkj->nij", np.sin(x), w)


@pytest.mark.parametrize(("points", "is_one_loop"), [(2_000, True), (20, False)])
def test_programs_with_many_of_them_have_one_sum(points: int, is_one_loop: bool) -> None:
    random = np.random.default_rng(0)
    x, w = random.normal(size=(points, 12, 2)), random.normal(size=(points, 12, 3))
    function = hesse.compile(blocks, backend="jax")
    np.testing.assert_allclose(function(x, w), blocks(x, w), rtol=1e-12, atol=1e-12)
    assert ("small_products" in function.explain(x, w).source) == is_one_loop
    gradient = hesse.grad(lambda x, w: np.sum(blocks(x, w) ** 2), backend="jax")
    expected = 2 * np.einsum("nij,nkj->nki", blocks(x, w), w) * np.cos(x)
    np.testing.assert_allclose(gradient(x, w), expected, rtol=1e-11, atol=1e-11)


def test_sums_in_half_precision_stay_as_long_as_those_of_jax() -> None:
    x, w = jnp.full((2_000, 600, 2), 0.01, jnp.bfloat16), jnp.ones((2_000, 600, 3), jnp.bfloat16)
    found = hesse.compile(lambda x, w: jnp.einsum("nki,nkj->nij", x, w))(x, w)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(float), 6.0, rtol=1e-2)  # added one by one they end at 4
