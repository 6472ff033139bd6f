"""What the engine does beyond being right: outer products, shared factors, memory order, signs of parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
import naive
from benchmarks.speed.problems_structure import pairs, pairs_data, pairs_hessian
from hesse.backends.numpy import make_plan
from hesse.calculus import MODES
from hesse.ir import Einsum, Node, add, pairwise, scale, variable, zero
from hesse.rewrite.factor import factor
from oracles import assert_close, jax_derivatives

jax.config.update("jax_enable_x64", True)

generator = np.random.default_rng(0)


def value(node: Node, arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(naive.evaluate(node, arrays))


def test_an_outer_product_is_not_formed_to_be_multiplied() -> None:
    n = 30
    u, v, w, A = (variable(name, shape) for name, shape in zip("uvwA", [(n,)] * 3 + [(n, n)], strict=True))
    outer = pairwise("i,j->ij", pairwise("ij,j->i", A, u), v)
    product = pairwise("ij,j->i", outer, w)
    assert make_plan([product]).peak_elements() < 5 * n
    arrays = {name: generator.normal(size=n) for name in "uvw"} | {"A": generator.normal(size=(n, n))}
    expected = arrays["A"] @ arrays["u"] * (arrays["v"] @ arrays["w"])
    np.testing.assert_allclose(value(product, arrays), expected, rtol=1e-12)


def test_what_stands_apart_is_factored_out() -> None:
    """x ⊗ (p∘J) - x ⊗ (p ⊗ (p·J)) = x ⊗ (p∘J - p ⊗ (p·J))."""
    n = 4
    x, p, J = variable("x", (n,)), variable("p", (n,)), variable("J", (n, n))
    first = pairwise("j,k,ki->ijk", x, p, J)
    second = scale(pairwise("j,k,l,li->ijk", x, p, p, J), -1.0)
    (whole,) = factor([first, second], (n, n, n))
    assert isinstance(whole, Einsum) and x in whole.operands and len(whole.operands) == 2
    arrays = {
        "x": generator.normal(size=n),
        "p": generator.normal(size=n),
        "J": generator.normal(size=(n, n)),
    }
    both = add([first, second], (n, n, n))
    np.testing.assert_allclose(value(whole, arrays), value(both, arrays), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", ["dense", "structured"])
@pytest.mark.parametrize("size", [6, 45])
def test_short_axes_are_kept_out_of_the_loops(form: str, size: int) -> None:
    """45 points in space make arrays large enough to be kept coordinate by coordinate."""
    (x,) = pairs_data(size)
    derivative = hesse.hessian(pairs(np), form=form)
    np.testing.assert_allclose(np.asarray(derivative(x)), pairs_hessian(x), rtol=1e-9, atol=1e-12)
    assert ("order='C'" in derivative.explain(x).source) == (size == 45)


def test_a_sum_and_its_negative_are_kept_once() -> None:
    def energy(x: np.ndarray) -> np.ndarray:
        return np.sum(np.sqrt(1 + (x[1:] - x[:-1]) ** 2)) + np.sum(np.exp(x))

    x = generator.normal(size=20)
    H = hesse.hessian(energy, form="structured")(x)
    assert sorted(array.shape for array in H.parts.values()) == [(19,), (20,)]
    np.testing.assert_allclose(H.dense(), hesse.hessian(energy)(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(H @ x, hesse.hessian(energy)(x) @ x, rtol=1e-11, atol=1e-12)


def test_splitting_an_axis_is_a_reshape() -> None:
    def heads(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
        q, k = np.reshape(Q, (5, 2, 3)), np.reshape(K, (5, 2, 3))
        return np.tanh(np.einsum("ihd,jhd->hij", q, k))

    Q, K = generator.normal(size=(5, 6)), generator.normal(size=(5, 6))
    derivative = hesse.jacobian(heads)
    source = derivative.explain(Q, K).source
    assert ".reshape(5, 2, 3)" in source and "affine_view" not in source
    step = 1e-6 * generator.normal(size=Q.shape)
    difference = heads(Q + step, K) - heads(Q - step, K)
    along = np.einsum("hijqc,qc->hij", derivative(Q, K), 2 * step)
    np.testing.assert_allclose(along, difference, rtol=1e-6, atol=1e-12)


def test_the_jacobian_of_a_net_is_computed_once_in_its_hessian() -> None:
    """J'·S·J: two-sided mode multiplies the layers once, one-sided modes twice."""
    n, layers = 24, 6
    weights = generator.normal(size=(layers, n, n)) / np.sqrt(n)
    x = generator.normal(size=n)

    def loss(first: np.ndarray, others: np.ndarray, x: np.ndarray) -> np.ndarray:
        state = first @ x
        for k in range(layers - 1):
            state = others[k] @ np.maximum(state, 0.0)
        return hesse.logsumexp(state)

    explained = {
        mode: hesse.hessian(loss, mode=mode, form="structured").explain(weights[0], weights[1:], x)
        for mode in ("two-sided", "cross-country")
    }
    assert explained["two-sided"].flops < 0.75 * explained["cross-country"].flops
    values = [hesse.hessian(loss, mode=mode)(weights[0], weights[1:], x) for mode in MODES]
    for other in values[1:]:
        np.testing.assert_allclose(other, values[0], rtol=1e-9, atol=1e-12)


def test_large_arrays_whose_last_axis_has_one_entry() -> None:
    """No term of the sums has that axis: it cannot be moved to the front."""
    X = np.random.default_rng(0).normal(size=(5000, 4))
    w = np.ones((4, 1))
    found = hesse.grad(lambda w: np.sum((X @ w - np.ones((5000, 1))) ** 2))(w)
    np.testing.assert_allclose(found, 2 * X.T @ (X @ w - 1), rtol=1e-10)
    x = X[:70, :1]
    d = x[:, None, :] - x[None]
    found = hesse.grad(lambda x: np.sum(np.sin(x[:, None] - x[None]) * (x[:, None] - x[None])))(x)
    np.testing.assert_allclose(found, 2 * np.sum(np.cos(d) * d + np.sin(d), axis=1), rtol=1e-10)


def test_zeros_of_several_shapes_are_several_results() -> None:
    hessian = hesse.hessian(lambda x, y: np.sum(x) + np.sum(y), argnums=(0, 1))
    blocks = hessian(np.ones(2), np.ones(3))
    assert [[block.shape for block in row] for row in blocks] == [[(2, 2), (2, 3)], [(3, 2), (3, 3)]]


def test_a_multiple_of_zero_is_zero() -> None:
    nothing = zero((2, 3))
    assert scale(nothing, -1.0) is nothing


def test_blocks_that_are_apart_are_written_not_added() -> None:
    x, y = generator.normal(size=3), generator.normal(size=5)

    def joined(x, y):  # type: ignore[no-untyped-def]
        return np.concatenate([2.0 * x, np.sin(y), x])

    function = hesse.compile(joined)
    np.testing.assert_allclose(function(x, y), joined(x, y))
    source = function.explain(x, y).source
    assert "np.empty" in source
    assert "+=" not in source


def test_blocks_with_gaps_or_overlaps_begin_with_zeros() -> None:
    x = generator.normal(size=4)

    def overlapping(x):  # type: ignore[no-untyped-def]
        return np.pad(x, (0, 3)) + np.pad(2.0 * x, (3, 0))

    def with_a_gap(x):  # type: ignore[no-untyped-def]
        return np.concatenate([x, np.zeros(2), 3.0 * x])

    for f in (overlapping, with_a_gap):
        np.testing.assert_allclose(hesse.compile(f)(x), f(x))
        assert "np.empty" not in hesse.compile(f).explain(x).source


def test_partials_of_nodes_of_several_ranks_have_products_of_their_own() -> None:
    """V and its inverse are partials by vectors and by matrices: their products are different ones."""

    def groups(xp: Any, p: Any, y: Any) -> Any:
        total = 0.0
        for rest in (y[:1] - p[0], y[1:] - p[0]):
            size = rest.shape[0]
            V = xp.exp(p[1]) * xp.eye(size) + xp.exp(p[2]) * xp.ones((size, size))
            total = total + rest @ xp.linalg.solve(V, rest)
        return total

    point = np.array([0.1, 0.2, 0.3]), np.arange(1.0, 5.0)
    found = hesse.hessian(partial(groups, np), argnums=(0, 1))(*point)
    expected = jax_derivatives(partial(groups, jnp), 2, (0, 1), point)[2]
    for ours, theirs in zip(found, expected, strict=True):
        for block, reference in zip(ours, theirs, strict=True):
            assert_close(block, reference)
