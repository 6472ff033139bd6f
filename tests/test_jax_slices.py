"""JAX on a processor computes large intermediates some rows at a time, where sums read them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.backends.jax import JaxTarget
from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.runtime import in_slices
from oracles import assert_close
from test_slices import CASES, DTYPE, pairs, plain_plan, random_roots, values

jax.config.update("jax_enable_x64", True)

EVERYTHING_SLICED = JaxTarget(
    machine=JaxMachine(
        least_saved=1,
        small_instruction=0,
        slice_entries=8,
        fewest_rows=1,
        smallest_slice=1,
        largest_whole=2**13,
        fuses=False,
    )
)
"""Slices of a few rows, however small the tensors are."""
is_alone = pytest.mark.skipif(jax.device_count() > 1, reason="nothing is sliced on several devices")


@is_alone
def test_random_programs() -> None:
    found = 0
    for seed in range(40):
        roots, inputs = random_roots(seed)
        straight = plain_plan(roots)
        program = EVERYTHING_SLICED.passes(straight)
        if program.slices is None:
            continue
        found += 1
        arrays = [term.value for term in inputs]
        run = EVERYTHING_SLICED.compile(program, "xy", DTYPE, in_order=True, shared=())
        for expected, made in zip(values(straight, "xy", arrays), run.function(*arrays), strict=True):
            assert made.shape == expected.shape
            assert_close(np.asarray(made), expected)
    assert found > 7  # else this tests nothing


@is_alone
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pairs", "attention", "masked"])
def test_derivatives(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    random = np.random.default_rng(5)
    arrays = [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]
    derivative = hesse.jacobian(function, backend=EVERYTHING_SLICED)
    assert derivative.explain(*arrays).program.slices is not None
    exact = hesse.jacobian(function)(*[np.asarray(array, float) for array in arrays])
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    for _ in range(2):
        found = derivative(*arrays)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", [1, 3, 4, 7])
def test_slices_are_put_together_and_added(rows: int) -> None:
    x = jnp.arange(21.0).reshape(3, 7)

    def part(some: Any, whole: Any) -> tuple[Any, ...]:
        return some * 2, some.sum(), whole + some.sum(axis=1)

    found = in_slices((part, part), range(0, 7, rows), (x, jnp.zeros(3)), (1, None), (1, None, None))
    assert_close(np.asarray(found[0]), 2 * np.asarray(x))
    assert_close(np.asarray(found[1]), np.asarray(x.sum()))
    assert_close(np.asarray(found[2]), np.asarray(x.sum(axis=1)))
    (doubled,) = in_slices((lambda some: (2 * some,),) * 2, range(0, 7, rows), (x,), (1,), (1,))
    np.testing.assert_array_equal(doubled, 2 * x)


@is_alone
def test_differences_of_pairs_are_not_stored() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(800, 3)))
    H = hesse.hessian(pairs, form="structured", backend="jax")
    program = H.explain(x).program
    assert program.slices is not None
    assert program.peak_elements() < 2.5 * 800**2  # the differences alone are 3 * 800**2
    v = jnp.asarray(np.random.default_rng(1).normal(size=x.shape))
    assert_close(np.asarray(H(x) @ v), hesse.hvp(pairs)(np.asarray(x), np.asarray(v)))


@is_alone
def test_jax_transforms_slices() -> None:
    """Batches and derivatives by JAX of a program in slices."""
    x = jnp.asarray(np.random.default_rng(2).normal(size=(2, 6, 3)))
    gradient = hesse.grad(pairs, backend=EVERYTHING_SLICED)
    assert gradient.explain(x[0]).program.slices is not None
    stacked = jax.vmap(gradient)(x)
    np.testing.assert_allclose(stacked[1], hesse.grad(pairs)(np.asarray(x[1])), rtol=1e-11, atol=1e-12)
    second = jax.jacrev(gradient)(x[0])
    np.testing.assert_allclose(second, hesse.hessian(pairs)(np.asarray(x[0])), rtol=1e-11, atol=1e-12)


def test_several_devices_are_not_given_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA could not partition them."""
    monkeypatch.setattr(jax, "device_count", lambda: 4)
    roots, _ = random_roots(3)
    assert EVERYTHING_SLICED.passes(plain_plan(roots)).slices is None


def test_what_xla_fuses_is_not_sliced() -> None:
    x = jnp.zeros(2**21)
    gradient = hesse.grad(lambda x: np.sum(np.tanh(np.sin(x) * x)), backend="jax")
    assert gradient.explain(x).program.slices is None
