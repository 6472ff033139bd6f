"""Costly products of which only numbers are needed are multiplied out where they are contracted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.cost import PLAIN_MACHINE
from hesse.ir import Axis, Einsum, Node, add, einsum, label_axis, negated, topological, variable
from hesse.plan.contracted import with_open_contractions
from oracles import assert_close
from structured_cases import normal

SIZE, COUNT = 90, 3
ROOTS = np.stack([normal(SIZE, SIZE, seed=k) for k in range(COUNT)])
PARTS = ROOTS @ ROOTS.mT / SIZE
DATA, OTHER = normal(SIZE, seed=7), normal(SIZE, SIZE, seed=8)
POINT = np.array([0.3, 1.0, 0.7])
A, B, C = (variable(name, (SIZE, SIZE)) for name in "ABC")


def matrix(xp: Any, theta: Any) -> Any:
    smooth = xp.exp(theta[0]) * PARTS[0] + theta[1] * PARTS[1]
    return smooth + xp.exp(-theta[2] * PARTS[2]) + 4.0 * np.eye(SIZE)


def likelihood(xp: Any, theta: Any) -> Any:
    K = matrix(xp, theta)
    return DATA @ xp.linalg.solve(K, DATA) + xp.linalg.slogdet(K)[1]


def trace(xp: Any, theta: Any) -> Any:
    return xp.trace(xp.linalg.inv(matrix(xp, theta)) @ OTHER)


def squares(xp: Any, theta: Any) -> Any:
    return xp.sum((xp.linalg.inv(matrix(xp, theta)) @ OTHER - OTHER) ** 2)


def quotient(xp: Any, theta: Any) -> Any:
    K = matrix(xp, theta)
    return xp.trace(K @ OTHER @ K) / xp.trace(K @ K)


@pytest.mark.parametrize("function", [likelihood, trace, squares, quotient])
@pytest.mark.parametrize("backend", ["numpy", "jax", "torch"])
def test_hessians_by_parameters_of_matrices(function: Callable[..., Any], backend: str) -> None:
    found = hesse.hessian(lambda theta: function(np, theta), backend=backend)
    expected = jax.hessian(lambda theta: function(jnp, theta))(jnp.asarray(POINT))
    for _ in range(2):
        assert_close(np.asarray(found(POINT)), np.asarray(expected), tolerance=1e-10)


def test_each_parameter_takes_one_product() -> None:
    """It would take two if matrices `C·B·C` were formed; the inverse and a system take some three cubes."""
    hessian = hesse.hessian(lambda theta: likelihood(np, theta))
    assert hessian.explain(POINT).flops < (2 * COUNT + 4) * SIZE**3


def product(*matrices: Node, closed: bool = False) -> Node:
    """A product of matrices, or its trace."""
    last = 0 if closed else len(matrices)
    labels = [*range(len(matrices)), last]
    axes = [(label_axis(labels[k]), label_axis(labels[k + 1])) for k in range(len(matrices))]
    output = () if closed else (label_axis(0), label_axis(last))
    return einsum(matrices, axes, output, (SIZE,) * len(output), (SIZE,) * len(set(labels)))


def is_opened(whole: Node, roots: list[Node]) -> bool:
    found = with_open_contractions(roots, PLAIN_MACHINE)
    used = {operand for node in topological(found) if isinstance(node, Einsum) for operand in node.operands}
    return whole not in used


def test_what_is_opened() -> None:
    inner = product(B, C)
    assert is_opened(inner, [product(A, inner, closed=True), product(C, inner, closed=True)])
    matrix = add([product(A, inner), A], A.shape)
    assert not is_opened(inner, [matrix, add([product(B, inner), A], A.shape)])


def test_residuals_are_formed_first() -> None:
    """Digits that the difference of two plain tensors protects would be lost."""
    difference, rounded = add([A, negated(B)], A.shape), add([A, product(B, C)], A.shape)
    for inner, is_multiplied in ((difference, False), (rounded, True)):
        whole = product(C, inner)
        roots = [product(A, whole, closed=True), product(B, whole, closed=True)]
        assert is_opened(inner, roots) == is_multiplied


def test_long_chains_stay_products() -> None:
    whole: Node = A
    for _ in range(30):
        whole = add([product(add([whole, product(A, B)], A.shape), B), product(C, A)], A.shape)
    roots = [product(product(whole, C), other, closed=True) for other in (A, B)]
    assert len(topological(with_open_contractions(roots, PLAIN_MACHINE))) < 200


def test_what_cannot_be_multiplied_out_stays() -> None:
    """Entries `i + j = 1 ... 90` of a matrix by its sums of indices are no box of `i` and `j`."""
    diagonals = Axis(((0, 1), (2, 1)), 0)
    axes = [(label_axis(0), label_axis(1)), (label_axis(1), label_axis(2))]
    whole = einsum([A, B], axes, [diagonals], (2 * SIZE - 1,), (SIZE,) * 3)
    planes = einsum([A, whole], [(label_axis(0), label_axis(1)), (Axis(((0, 1),), 1),)], (), (), (SIZE,) * 2)
    assert with_open_contractions([planes], PLAIN_MACHINE) == [planes]
