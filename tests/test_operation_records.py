"""Operation records: values against NumPy, derivatives of orders 1 to 3 against nested JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.special

from hesse.backends import elementwise_kernels
from hesse.backends.operation_kernels import KERNELS, kernel
from hesse.backends.numpy_backend import compile_program
from hesse.calculus import differentiate, forward
from hesse.errors import ArgumentError, ShapeError
from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Variable,
    constant,
    multiply,
    pairwise,
    topological,
    variable,
)
from hesse.ops import elementwise, linalg, normalization, structural
from hesse.plan import lower
from hesse.ops.registry import OPERATIONS, General

RECORDS = [name for name in OPERATIONS if name in KERNELS]


def evaluate(root: Node, **inputs: np.ndarray) -> np.ndarray:
    """A naive evaluator, independent of plans and back ends: one dense array for each node."""
    values: dict[Node, np.ndarray] = {}
    for node in topological([root]):
        operands = [values[operand] for operand in node.operands]
        match node:
            case Variable():
                values[node] = np.asarray(inputs[node.name])
            case Constant():
                values[node] = node.value
            case Add():
                values[node] = sum(operands, np.zeros(node.shape))
            case Map():
                values[node] = elementwise_kernels.kernel(node.name)(*operands)
            case Apply():
                values[node] = kernel(node.name)(node.params, *operands)
            case Einsum():
                values[node] = _evaluate_einsum(node, operands)
        assert values[node].shape == node.shape, node
    return values[root]


def _evaluate_einsum(node: Einsum, operands: list[np.ndarray]) -> np.ndarray:
    terms: list[Any] = []
    for array, axes in zip(operands, node.axes, strict=True):
        labels = sorted({label for axis in axes for label in axis.labels()})
        terms += [array[_positions(axes, labels, node)], labels]
    placed = sorted({label for axis in node.output for label in axis.labels()})
    missing = set(range(len(node.ranges))).difference(*map(set, terms[1::2]))
    for label in missing:
        terms += [np.ones(node.ranges[label]), [label]]
    product = np.einsum(*terms, placed, optimize=True) if terms else np.ones(())
    result = np.zeros(node.shape)
    np.add.at(result, _positions(node.output, placed, node), node.scale * product)
    return result


def _positions(axes: tuple[Axis, ...], labels: list[int], node: Einsum) -> tuple[np.ndarray, ...]:
    """Index arrays of the axes over the box of the labels."""
    box = np.indices([node.ranges[label] for label in labels])
    zeros = np.zeros(box.shape[1:], int)
    return tuple(
        sum((stride * box[labels.index(label)] for label, stride in axis.terms), zeros + axis.offset) for axis in axes
    )


class Case(NamedTuple):
    """A function of one tensor in hesse and in JAX, and a point."""

    name: str
    function: Callable[[Node], Node]
    reference: Callable[[Any], Any]
    point: np.ndarray
    tolerance: float = 1e-9


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def definite(*shape: int) -> np.ndarray:
    """Well-conditioned matrices with positive definite symmetric part and distinct eigenvalues."""
    return 0.3 * random(*shape) + np.diag(2.0 + np.arange(shape[-1]))


def cube(x: Node) -> Node:
    """Gives linear operations derivatives of order 1 to 3."""
    return multiply(x, x, x)


RIGHT = random(2, 3, 2, seed=1)
INDEX = np.array([[0, 2], [2, -1]])
ROW_INDEX = np.array([[1, 0, 1], [2, -1, 0]])
ZEROS = np.array([[1.5, 0.0], [0.0, 0.7], [-0.4, 0.0], [2.0, 1.1]])


def series_expm(a: Any) -> Any:
    """A plain series with scaling and squaring; JAX's own takes seconds to compile at third order."""
    scaled, term = a / 32, jnp.eye(a.shape[-1])
    total = term
    for k in range(1, 16):
        term = term @ scaled / k
        total = total + term
    for _ in range(5):
        total = total @ total
    return total


LINALG = [
    Case("inverse", linalg.inverse, jnp.linalg.inv, definite(3, 3)),
    Case("inverse batch", linalg.inverse, jnp.linalg.inv, definite(2, 2, 2)),
    Case("inverse 1x1", linalg.inverse, jnp.linalg.inv, definite(2, 1, 1)),
    Case("determinant", linalg.determinant, jnp.linalg.det, random(3, 3)),
    Case("determinant batch", linalg.determinant, jnp.linalg.det, random(2, 3, 3)),
    Case("determinant 1x1", linalg.determinant, jnp.linalg.det, random(1, 1)),
    Case("log_determinant", linalg.log_determinant, lambda a: jnp.linalg.slogdet(a)[1], random(2, 3, 3)),
    Case(
        "sign_determinant",
        lambda a: multiply(linalg.sign_determinant(a), linalg.determinant(a)),
        lambda a: jnp.abs(jnp.linalg.det(a)),
        random(2, 3, 3),
    ),
    Case(
        "solve by matrix",
        lambda a: linalg.solve(a, constant(RIGHT)),
        lambda a: jnp.linalg.solve(a, RIGHT),
        definite(2, 3, 3),
    ),
    Case(
        "solve a vector by matrix",
        lambda a: linalg.solve(a, constant(RIGHT[0, :, 0])),
        lambda a: jnp.linalg.solve(a, RIGHT[0, :, 0]),
        definite(3, 3),
    ),
    Case(
        "solve a batch of vectors by matrix",
        lambda a: linalg.solve(a, constant(RIGHT[..., 0])),
        lambda a: jnp.linalg.solve(a, RIGHT[..., :1])[..., 0],
        definite(2, 3, 3),
    ),
    Case(
        "solve by both sides",
        lambda a: linalg.solve(a, multiply(a, a)),
        lambda a: jnp.linalg.solve(a, a * a),
        definite(2, 2, 2),
    ),
    Case(
        "solve by right side",
        lambda b: linalg.solve(constant(definite(2, 3, 3)), cube(b)),
        lambda b: jnp.linalg.solve(definite(2, 3, 3), b**3),
        RIGHT,
    ),
    Case(
        "solve by a vector on the right side",
        lambda b: linalg.solve(constant(definite(2, 3, 3)), cube(b)),
        lambda b: jnp.linalg.solve(definite(2, 3, 3), b[..., None] ** 3)[..., 0],
        RIGHT[..., 0],
    ),
    Case("cholesky", linalg.cholesky, jnp.linalg.cholesky, definite(3, 3)),
    Case("cholesky batch", linalg.cholesky, jnp.linalg.cholesky, definite(2, 2, 2)),
    Case("cholesky 1x1", linalg.cholesky, jnp.linalg.cholesky, definite(1, 1)),
    Case("pseudo_inverse tall", linalg.pseudo_inverse, jnp.linalg.pinv, random(3, 2), 1e-8),
    Case("pseudo_inverse wide", linalg.pseudo_inverse, jnp.linalg.pinv, random(2, 2, 3), 1e-8),
    Case("expm", linalg.expm, jax.scipy.linalg.expm, random(3, 3), 1e-8),
    Case("expm batch", linalg.expm, series_expm, random(2, 2, 2) * [[[0.3]], [[3.0]]], 1e-8),
    Case("expm 1x1", linalg.expm, jnp.exp, random(1, 1), 1e-8),
    Case("eigvalsh", linalg.eigvalsh, jnp.linalg.eigvalsh, definite(3, 3)),
    Case("eigvalsh batch", linalg.eigvalsh, jnp.linalg.eigvalsh, definite(2, 2, 2)),
    Case("eigvalsh 1x1", linalg.eigvalsh, jnp.linalg.eigvalsh, definite(1, 1)),
    Case(
        "eigenvectors",
        lambda a: multiply(linalg.eigenvectors(a), linalg.eigenvectors(a)),
        lambda a: jnp.linalg.eigh(a)[1] ** 2,
        definite(3, 3),
    ),
    Case(
        "eigenvectors batch",
        lambda a: pairwise("...ij,...kj->...ijk", linalg.eigenvectors(a), linalg.eigenvectors(a)),
        lambda a: jnp.einsum("zij,zkj->zijk", *2 * [jnp.linalg.eigh(a)[1]]),
        definite(2, 2, 2),
    ),
    *(
        Case(
            f"matrix_power {n}",
            lambda a, n=n: linalg.matrix_power(a, n),
            lambda a, n=n: jnp.linalg.matrix_power(a, n),
            definite(2, 2, 2),
        )
        for n in (-2, 0, 1, 2, 3, 6)
    ),
]

NORMALIZATION = [
    Case(f"{name} {point.shape}", getattr(normalization, name), partial(getattr(jax.nn, name), axis=-1), point)
    for name in ("logsumexp", "softmax", "log_softmax")
    for point in (random(4), random(2, 3), random(2, 1, 2), random(2, 1))
] + [
    Case(
        f"layer_norm {point.shape}",
        lambda x: normalization.layer_norm(x, 1e-3),
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-3),
        point,
    )
    for point in (random(4), random(2, 3), random(2, 1))
]

STRUCTURAL = [
    Case(
        "gather",
        lambda x: structural.gather(cube(x), constant(INDEX)),
        lambda x: (x**3)[INDEX],
        random(3, 2),
    ),
    Case(
        "scatter",
        lambda x: structural.scatter(cube(x), constant(INDEX), 4),
        lambda x: jnp.zeros((4, 2)).at[INDEX].add(x**3),
        random(2, 2, 2),
    ),
    Case(
        "scatter scalars",
        lambda x: structural.scatter(cube(x), constant(INDEX), 4),
        lambda x: jnp.zeros(4).at[INDEX].add(x**3),
        random(2, 2),
    ),
    Case(
        "take_along",
        lambda x: structural.take_along(cube(x), constant(ROW_INDEX)),
        lambda x: jnp.take_along_axis(x**3, ROW_INDEX % 3, axis=1),
        random(2, 3),
    ),
    Case(
        "cumulative_sum",
        lambda x: structural.cumulative_sum(cube(x)),
        lambda x: jnp.cumsum(x**3, 0),
        random(3, 2),
    ),
    *(
        Case(f"{name} {label}", getattr(structural, name), reference, point)
        for name, reference in (
            ("cumulative_product", lambda x: jnp.cumprod(x, 0)),
            ("product", lambda x: jnp.prod(x, 0)),
        )
        for label, point in {
            "vector": random(4),
            "one zero": np.array([1.5, 0.0, -0.4, 2.0]),
            "two zeros": np.array([0.0, 1.5, 0.0, -0.4]),
            "columns with zeros": ZEROS,
            "one row": random(1, 2),
        }.items()
    ),
    Case("sort", lambda x: structural.sort(cube(x)), lambda x: jnp.sort(x**3), random(2, 3)),
    Case("sort a vector", lambda x: structural.sort(cube(x)), lambda x: jnp.sort(x**3), random(4)),
    Case("maximum", lambda x: structural.maximum_along(cube(x)), lambda x: jnp.max(x**3, -1), random(2, 1, 3)),
    Case("minimum", lambda x: structural.minimum_along(cube(x)), lambda x: jnp.min(x**3, -1), random(2, 3)),
    Case("maximum of a vector", lambda x: structural.maximum_along(cube(x)), lambda x: jnp.max(x**3), random(4)),
    Case(
        "unfold",
        lambda x: structural.unfold(cube(x), 0, 3, 2),
        lambda x: jnp.stack([(x**3)[0:3].T, (x**3)[2:5].T]),
        random(6, 2),
    ),
    Case("tril", lambda x: structural.tril(cube(x), 1), lambda x: jnp.tril(x**3, 1), random(2, 3, 3)),
    Case("triu", lambda x: structural.triu(cube(x), -1), lambda x: jnp.triu(x**3, -1), random(3, 2)),
]

CASES = LINALG + NORMALIZATION + STRUCTURAL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivatives_agree_with_nested_jax(case: Case) -> None:
    """Reverse mode, simplified and compiled, and forward mode, evaluated naively."""
    x = variable("x", case.point.shape)
    by_reverse = by_forward = case.function(x)
    for expected in _nested_jax(case):
        _close(_compiled(by_reverse, case.point), expected, case.tolerance)
        _close(evaluate(by_forward, x=case.point), expected, case.tolerance)
        (by_forward,) = forward(by_reverse, [x])
        (by_reverse,) = differentiate(by_reverse, [x], mode="reverse")


def _compiled(node: Node, point: np.ndarray) -> np.ndarray:
    (result,) = compile_program(lower([node]), ["x"], point.dtype).function(point)
    return result


def _nested_jax(case: Case) -> list[np.ndarray]:
    """The value and the derivatives of orders 1 to 3."""
    functions = [case.reference]
    for _ in range(3):
        functions.append(jax.jacfwd(functions[-1]))
    compiled = jax.jit(lambda x: [function(x) for function in functions])
    return [np.asarray(value) for value in compiled(case.point)]


def _close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
