"""Structured Jacobians of many points: terms in the same diagonal blocks as one array; parts in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.backends.jax.machine import JAX_MACHINE
from hesse.backends.target import Target, as_target

COUNT = 30
MAKE: dict[str, Callable[..., Any]] = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": jnp.asarray}


def joining(library: str, largest: int) -> Target:
    """A back end that joins blocks of at most so many entries."""
    target = as_target(library)
    return target.configured(machine=replace(target.machine, largest_joined=largest))


def turned(xp: Any) -> Callable[..., Any]:
    """Points seen after a small rotation: nothing of one depends on another."""

    def f(axes: Any, points: Any) -> Any:
        pairs = ((1, 2), (2, 0), (0, 1))
        across = xp.stack([axes[:, i] * points[:, j] - axes[:, j] * points[:, i] for i, j in pairs], 1)
        seen = points + across * xp.sin(xp.sum(axes**2, 1))[:, None]
        return seen[:, :2] / seen[:, 2:]

    return f


def beside(xp: Any) -> Callable[..., Any]:
    """Neighbours in a row, with a product of each point's own coordinates."""

    def f(axes: Any, points: Any) -> Any:
        own = points[:, :1] * points[:, 1:2]
        return xp.concatenate([own[1:] * axes[1:, :1], points[1:, :1] * axes[:-1, :1] ** 2], 1)

    return f


def lower(xp: Any) -> Callable[..., Any]:
    """Blocks that begin after the first row and the first column."""

    def f(axes: Any, points: Any) -> Any:
        a, b, c = axes[:, 1:2], axes[:, 2:], points[:, 2:]
        return xp.concatenate([points[:, :1] * 0.0, a * b * c + c**2, xp.sin(a * c) + b**2], 1)

    return f


def ends(xp: Any) -> Callable[..., Any]:
    """Two entries at the corners of a large block."""

    def f(axes: Any, points: Any) -> Any:
        zeros = points[:, :1] * 0.0
        return xp.concatenate([axes[:, :1] ** 3, *[zeros] * 6, xp.sin(axes[:, 2:])], 1) + 0.0 * points[:, :1]

    return f


def data() -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(5)
    return random.normal(size=(COUNT, 3)), random.normal(size=(COUNT, 3)) + np.array([0.0, 0.0, 6.0])


@pytest.mark.parametrize("largest", [0, 10**6])
@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("problem", [turned, lower, beside, ends])
def test_blocks_are_those_of_nested_jax(problem: Any, library: str, largest: int) -> None:
    f = problem(jnp if library == "jax" else np)
    derivative = hesse.jacobian(f, argnums=(0, 1), form="structured").compile(joining(library, largest))
    arrays = [MAKE[library](array) for array in data()]
    expected = jax.jacrev(problem(jnp), argnums=(0, 1))(*map(jnp.asarray, data()))
    for tensor, dense in zip(derivative(*arrays), expected, strict=True):
        np.testing.assert_allclose(np.asarray(tensor), dense, atol=1e-12)
        direction = np.random.default_rng(6).normal(size=(COUNT, 3))
        product = np.asarray(tensor @ MAKE[library](direction))
        np.testing.assert_allclose(product, np.tensordot(dense, direction, 2), atol=1e-12)
        np.testing.assert_allclose(np.asarray(tensor.T), np.transpose(dense, (2, 3, 0, 1)), atol=1e-12)


def test_terms_in_blocks_are_one_array() -> None:
    find = hesse.jacobian(turned(np), argnums=(0, 1), form="structured")
    many, few = (find.compile(joining("numpy", largest))(*data()) for largest in (0, COUNT * 6))
    for terms, joined in zip(many, few, strict=True):
        assert len(terms.terms) > 3
        assert len(joined.terms) == 1
        (part,) = joined.parts.values()
        assert part.shape == (COUNT, 2, 3)
        assert joined.nbytes <= terms.nbytes
        np.testing.assert_array_equal(joined.dense() == 0, terms.dense() == 0)


def test_large_blocks_stay_terms() -> None:
    find = hesse.jacobian(turned(np), argnums=(0, 1), form="structured")
    for tensor in find.compile(joining("numpy", COUNT * 6 - 1))(*data()):
        assert len(tensor.terms) > 3


def test_blocks_with_more_entries_than_their_terms_stay_terms() -> None:
    find = hesse.jacobian(ends(np), form="structured").compile(joining("numpy", 10**6))
    assert len(find(*data()).terms) == 2


def test_diagonals_beside_each_other_stay_terms() -> None:
    find = hesse.jacobian(beside(np), form="structured").compile(joining("numpy", 10**6))
    assert len(find(*data()).terms) == 2


def test_blocks_are_joined_for_jax() -> None:
    find = hesse.jacobian(turned(jnp), argnums=(0, 1), form="structured")
    assert JAX_MACHINE.largest_joined >= COUNT * 6
    assert all(len(tensor.terms) == 1 for tensor in find(*map(jnp.asarray, data())))
    many = [jnp.tile(jnp.asarray(array), (JAX_MACHINE.largest_joined // COUNT, 1)) for array in data()]
    assert all(len(tensor.terms) > 1 for tensor in find(*many))


@pytest.mark.parametrize("library", MAKE)
def test_parts_in_common_are_computed_once(library: str) -> None:
    f = lambda x, y: np.sum(np.sin(x * y))  # noqa: E731
    find = hesse.hessian(f, argnums=(0, 1), form="structured")
    arrays = [MAKE[library](array) for array in data()]
    for _ in range(2):
        (_, first), (second, _) = find(*arrays)
        np.testing.assert_allclose(
            np.asarray(first), np.transpose(np.asarray(second), (2, 3, 0, 1)), atol=1e-14
        )
    if library == "numpy":
        (one,), (other,) = first.parts.values(), second.parts.values()
        assert np.shares_memory(one, other)
        ((own,),) = [second.copy().parts.values()]
        assert not np.shares_memory(one, own)
