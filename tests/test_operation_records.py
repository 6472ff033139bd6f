"""Operation records: values against NumPy, derivatives of orders 1 to 3 against nested JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.special

import naive
from hesse.backends.numpy import compile_program, make_plan
from hesse.backends.numpy.records import KERNELS, kernel
from hesse.calculus import differentiate, forward
from hesse.errors import ArgumentError, ShapeError
from hesse.ir import (
    Apply,
    Einsum,
    Node,
    bind_sizes,
    constant,
    is_zero,
    multiply,
    pairwise,
    topological,
    variable,
)
from hesse.ops import linalg, normalization, reshaping, spectra, structural
from hesse.ops.registry import OPERATIONS, General, Linear
from oracles import evaluate_jax

NAIVE_LIMIT = 5_000
"""Steps of the naive evaluator that a test can wait for."""


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
    *(
        Case(
            f"triangular_solve {triangle} {right.shape} by matrix",
            lambda a, lower=triangle == "lower", right=right: linalg.triangular_solve(
                a, constant(right), lower
            ),
            lambda a, lower=triangle == "lower", right=right: jax.scipy.linalg.solve_triangular(
                a, right, lower=lower
            ),
            definite(3, 3),
        )
        for triangle in ("lower", "upper")
        for right in (RIGHT[0], RIGHT[0, :, 0])
    ),
    Case(
        "triangular_solve batch by both sides",
        lambda a: linalg.triangular_solve(a, multiply(a, a), lower=True),
        lambda a: jax.lax.linalg.triangular_solve(a, a * a, left_side=True, lower=True),
        definite(2, 2, 2),
    ),
    Case(
        "triangular_solve by right side",
        lambda b: linalg.triangular_solve(constant(definite(3, 3)), cube(b), lower=False),
        lambda b: jax.scipy.linalg.solve_triangular(definite(3, 3), b**3, lower=False),
        RIGHT[0],
    ),
    Case("cholesky", linalg.cholesky, jnp.linalg.cholesky, definite(3, 3)),
    Case("cholesky batch", linalg.cholesky, jnp.linalg.cholesky, definite(2, 2, 2)),
    Case("cholesky 1x1", linalg.cholesky, jnp.linalg.cholesky, definite(1, 1)),
    Case("pseudo_inverse tall", linalg.pseudo_inverse, jnp.linalg.pinv, random(3, 2), 1e-8),
    Case("pseudo_inverse wide", linalg.pseudo_inverse, jnp.linalg.pinv, random(2, 1, 2), 1e-8),
    Case("expm", spectra.expm, jax.scipy.linalg.expm, random(3, 3), 1e-8),
    Case("expm batch", spectra.expm, series_expm, random(2, 2, 2) * [[[0.3]], [[3.0]]], 1e-8),
    Case("expm 1x1", spectra.expm, jnp.exp, random(1, 1), 1e-8),
    Case("eigvalsh", spectra.eigvalsh, jnp.linalg.eigvalsh, definite(3, 3)),
    Case("eigvalsh batch", spectra.eigvalsh, jnp.linalg.eigvalsh, definite(2, 2, 2)),
    Case("eigvalsh 1x1", spectra.eigvalsh, jnp.linalg.eigvalsh, definite(1, 1)),
    Case(
        "eigenvectors",
        lambda a: multiply(spectra.eigenvectors(a), spectra.eigenvectors(a)),
        lambda a: jnp.linalg.eigh(a)[1] ** 2,
        definite(3, 3),
    ),
    Case(
        "eigenvectors batch",
        lambda a: pairwise("...ij,...kj->...ijk", spectra.eigenvectors(a), spectra.eigenvectors(a)),
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
    Case(
        f"{name} {point.shape}", getattr(normalization, name), partial(getattr(jax.nn, name), axis=-1), point
    )
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
    Case(
        "maximum", lambda x: structural.maximum_along(cube(x)), lambda x: jnp.max(x**3, -1), random(2, 1, 3)
    ),
    Case("minimum", lambda x: structural.minimum_along(cube(x)), lambda x: jnp.min(x**3, -1), random(2, 3)),
    Case(
        "maximum of a vector", lambda x: structural.maximum_along(cube(x)), lambda x: jnp.max(x**3), random(4)
    ),
    Case(
        "unfold",
        lambda x: structural.unfold(cube(x), 0, 3, 2),
        lambda x: jnp.stack([(x**3)[0:3].T, (x**3)[2:5].T]),
        random(6, 2),
    ),
    Case("tril", lambda x: structural.tril(cube(x), 1), lambda x: jnp.tril(x**3, 1), random(2, 3, 3)),
    Case("triu", lambda x: structural.triu(cube(x), -1), lambda x: jnp.triu(x**3, -1), random(3, 2)),
]

RESHAPING = [
    Case("vec", lambda x: reshaping.vec(cube(x)), lambda x: (x**3).T.reshape(-1), random(2, 3)),
    Case("vec of one column", lambda x: reshaping.vec(cube(x)), lambda x: (x**3).T.reshape(-1), random(3, 1)),
    Case("kron", lambda x: reshaping.kron(x, cube(x)), lambda x: jnp.kron(x, x**3), random(2, 2)),
    Case(
        "kron of different sizes",
        lambda x: reshaping.kron(x, constant(RIGHT[0])),
        lambda x: jnp.kron(x, RIGHT[0]),
        random(2, 3),
    ),
    Case("kron of vectors", lambda x: reshaping.kron(cube(x), x), lambda x: jnp.kron(x**3, x), random(3)),
    Case("max", lambda x: reshaping.maximum_entry(cube(x)), lambda x: jnp.max(x**3), random(3, 2)),
    Case("max at a tie", reshaping.maximum_entry, jnp.max, np.array([1.0, 3.0, 3.0])),
    Case("max of a scalar", lambda x: reshaping.maximum_entry(cube(x)), lambda x: x**3, random()),
]
CASES = LINALG + NORMALIZATION + STRUCTURAL + RESHAPING


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivatives_agree_with_nested_jax(case: Case) -> None:
    """Reverse mode, simplified and compiled; forward mode, evaluated naively where that is not too slow."""
    x = variable("x", case.point.shape)
    by_reverse = by_forward = case.function(x)
    for order, expected in enumerate(_nested_jax(case)):
        if order:
            (by_forward,) = forward(by_reverse, [x])
            (by_reverse,) = differentiate(by_reverse, [x], mode="reverse")
        _close(compiled(by_reverse, x=case.point), expected, case.tolerance)
        if _points(by_forward) < NAIVE_LIMIT:
            _close(naive.evaluate(by_forward, {"x": case.point}), expected, case.tolerance)


def compiled(node: Node, **inputs: np.ndarray) -> np.ndarray:
    """The value by the NumPy back end."""
    function = compile_program(make_plan([node]), list(inputs), np.dtype(np.float64)).function
    return function(*inputs.values())[0]


def _points(node: Node) -> int:
    """Steps of the loops of the naive evaluator, those inside a record being slower."""
    counts = {Einsum: lambda inner: math.prod(inner.ranges), Apply: lambda inner: 10 * math.prod(inner.shape)}
    return sum(counts[type(inner)](inner) for inner in topological([node]) if type(inner) in counts)


def _nested_jax(case: Case) -> list[np.ndarray]:
    """The value and the derivatives of orders 1 to 3."""
    functions = [case.reference]
    for _ in range(3):
        functions.append(jax.jacfwd(functions[-1]))
    found: list[np.ndarray] = evaluate_jax(lambda x: [function(x) for function in functions], case.point)
    return found


def _close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


KERNEL_INPUTS: dict[str, tuple[tuple[Any, ...], tuple[np.ndarray, ...]]] = {
    "solve": ((), (definite(2, 3, 3), RIGHT)),
    "minors": ((2,), (definite(2, 3, 3),)),
    "expm_chain": ((2,), (random(2, 3, 3),)),
    "gather": ((), (random(3, 2), INDEX)),
    "scatter": ((4,), (random(2, 2, 2), INDEX)),
    "flat_index": ((3, 1), (ROW_INDEX,)),
    "triangular_solve": ((), (definite(2, 3, 3), RIGHT)),
    **dict.fromkeys(["integer_add", "integer_multiply"], ((), (INDEX, ROW_INDEX[:, :1]))),
    "integer_quotient": ((), (INDEX, np.array([2, -3]))),
    "integer_where": ((), (random(2, 2), INDEX, np.array(7))),
    "integer_entries": ((), (ROW_INDEX, INDEX)),
    "as_real": ((), (INDEX, random())),
    "searchsorted": (("right",), (np.sort(random(4)), random(2, 3, seed=1))),
    "kron": ((), (random(2, 3), random(4, 2))),
    "reshape": ((2, 3, 2), (random(2, 3, 4),)),
}
"""Parameters and operands of the records that do not just take square matrices."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_kernels_agree_with_their_definition(name: str) -> None:
    params, operands = KERNEL_INPUTS.get(name, ((), (definite(2, 3, 3),)))
    record = OPERATIONS[name]
    for dtype in (np.float32, np.float64):
        arrays = [array.astype(dtype) if array.dtype.kind == "f" else array for array in operands]
        copies = [array.copy() for array in arrays]
        result = kernel(name)(params, *arrays)
        assert result.shape == record.shape(tuple(array.shape for array in arrays), params)
        integer = isinstance(record, General) and record.kind == "integer"
        assert result.dtype == (np.intp if integer else dtype)
        expected = naive.OPERATIONS[name](params, *arrays)
        np.testing.assert_allclose(result, expected, rtol=2e-4 if dtype == np.float32 else 1e-12, atol=1e-6)
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
            assert not np.shares_memory(array, result)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        (name, 0 if record.last_axes else -1)
        for name, record in OPERATIONS.items()
        if isinstance(record, General) and (record.last_axes or record.acts_on_first)
    ],
)
def test_records_act_on_the_axes_that_they_name(name: str, axis: int) -> None:
    """Operands stacked along an axis before their own, or behind them, have stacked results."""
    params, operands = KERNEL_INPUTS.get(name, ((), (definite(2, 3, 3),)))
    scaled = [[scale * operand for operand in operands] for scale in (1.0, 0.5, 3.0)]
    whole = kernel(name)(params, *(np.stack(each, axis) for each in zip(*scaled, strict=True)))
    for found, each in zip(np.moveaxis(whole, axis, 0), scaled, strict=True):
        np.testing.assert_allclose(found, kernel(name)(params, *each), rtol=1e-12, atol=1e-12)


def test_every_record_has_a_kernel_and_every_kernel_a_record() -> None:
    assert set(KERNELS) == {*OPERATIONS, "foreign", "pick"}  # the last two are for functions from elsewhere


VALUES = [
    ("determinant", linalg.determinant, np.linalg.det, random(2, 3, 3)),
    ("log_determinant", linalg.log_determinant, lambda a: np.linalg.slogdet(a)[1], random(2, 3, 3)),
    ("sign_determinant", linalg.sign_determinant, lambda a: np.linalg.slogdet(a)[0], random(4, 3, 3)),
    ("pseudo_inverse", linalg.pseudo_inverse, np.linalg.pinv, random(2, 4, 2)),
    ("expm", spectra.expm, scipy.linalg.expm, np.stack([random(4, 4), 20 * random(4, 4), np.zeros((4, 4))])),
    ("expm shifted", spectra.expm, scipy.linalg.expm, random(3, 3) - 100 * np.eye(3)),
    ("logsumexp", normalization.logsumexp, partial(scipy.special.logsumexp, axis=-1), 1e4 * random(2, 3)),
    ("softmax", normalization.softmax, partial(scipy.special.softmax, axis=-1), 1e4 * random(2, 3)),
    (
        "log_softmax",
        normalization.log_softmax,
        partial(scipy.special.log_softmax, axis=-1),
        1e4 * random(2, 3),
    ),
    ("argmax", structural.argmax, partial(np.argmax, axis=-1), random(2, 1, 4)),
    ("argmin", structural.argmin, partial(np.argmin, axis=-1), random(2, 1, 4)),
    (
        "argsort",
        structural.argsort,
        partial(np.argsort, axis=-1, stable=True),
        np.array([[2.0, 1, 2, 1], [0, 0, 0, 0]]),
    ),
    ("sort", structural.sort, np.sort, random(2, 2, 3)),
    ("empty product", structural.product, partial(np.prod, axis=0), np.zeros((0, 2))),
]


@pytest.mark.parametrize(("name", "function", "reference", "point"), VALUES, ids=[row[0] for row in VALUES])
def test_values(
    name: str, function: Callable[[Node], Node], reference: Callable[..., Any], point: np.ndarray
) -> None:
    found = compiled(function(variable("x", point.shape)), x=point)
    np.testing.assert_allclose(found, reference(point), rtol=1e-11)


def test_logsumexp_of_infinities() -> None:
    points = np.array([[-np.inf, -np.inf], [np.inf, 1000.0], [0.0, -np.inf]])
    np.testing.assert_array_equal(kernel("logsumexp")((), points), [-np.inf, np.inf, 0.0])


@pytest.mark.parametrize("name", ["sort", "maximum_along", "minimum_along"])
def test_nan_passes_through_as_in_numpy(name: str) -> None:
    reference = {
        "sort": np.sort,
        "maximum_along": partial(np.max, axis=-1),
        "minimum_along": partial(np.min, axis=-1),
    }
    point = np.array([[3.0, np.nan, 1.0, np.nan], [2.0, 1.0, 5.0, 4.0]])
    node = getattr(structural, name)(variable("x", point.shape))
    np.testing.assert_array_equal(compiled(node, x=point), reference[name](point))


def test_first_maximum_gets_the_derivative() -> None:
    x = variable("x", (4,))
    (gradient,) = forward(structural.maximum_along(x), [x])
    np.testing.assert_array_equal(compiled(gradient, x=np.array([1.0, 2.0, 2.0, 0.0])), [0, 1, 0, 0])


def test_expm_chain_is_the_frechet_derivative_of_expm() -> None:
    for scale in (0.01, 1.0, 30.0):
        a, direction = scale * random(4, 4), random(4, 4, seed=1)
        chain = kernel("expm_chain")((2,), a)
        expected = scipy.linalg.expm_frechet(a, direction, compute_expm=False)
        _close(
            np.einsum("apqb,pq->ab", chain, direction) / np.abs(expected).max(),
            expected / np.abs(expected).max(),
            1e-12,
        )


def test_expm_chain_is_symmetric_in_its_links() -> None:
    chain = kernel("expm_chain")((3,), random(2, 2, 2))
    np.testing.assert_allclose(chain, chain.transpose(0, 3, 4, 1, 2, 5, 6), atol=1e-13)
    np.testing.assert_allclose(chain, chain.transpose(0, 5, 6, 3, 4, 1, 2), atol=1e-13)


def test_expm_of_matrices_that_need_different_scaling() -> None:
    stack = np.stack([1e-3 * random(3, 3), 40 * random(3, 3)])
    each = [kernel("expm_chain")((2,), matrix) for matrix in stack]
    for found, expected in zip(kernel("expm_chain")((2,), stack), each, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("extra", [(), (2, 3)])
def test_transposes_of_linear_records(extra: tuple[int, ...]) -> None:
    """<u, A x> = <A' u, x>, with further axes carried along."""
    index = constant(np.array([[0, 2, 2], [1, -1, 0]]))
    x = variable("x", (4, *extra))
    u = variable("x", (2, 3, *extra))
    for node in (structural.gather(x, index), structural.scatter(u, index, 4), structural.cumulative_sum(x)):
        assert isinstance(node, Apply)
        record = OPERATIONS[node.name]
        assert isinstance(record, Linear)
        cotangent = variable("u", node.shape)
        left, right = random(*node.operands[0].shape), random(*node.shape, seed=1)
        image = compiled(node, x=left)
        preimage = compiled(record.transpose(node, cotangent), u=right)
        assert preimage.shape == left.shape
        np.testing.assert_allclose(np.vdot(image, right), np.vdot(left, preimage), rtol=1e-12)


def test_integer_results_are_locally_constant() -> None:
    x = variable("x", (3,))
    order = structural.argsort(x)
    assert order.kind == "integer"
    assert is_zero(forward(order, [x])[0])
    assert is_zero(forward(linalg.sign_determinant(a := variable("a", (2, 2))), [a])[0])


def test_index_may_be_a_variable_or_a_single_position() -> None:
    x, index = variable("x", (3, 2)), variable("k", (), kind="integer")
    (partial_node,) = forward(structural.gather(x, index), [x])
    expected = np.zeros((2, 3, 2))
    expected[[0, 1], 1, [0, 1]] = 1
    np.testing.assert_array_equal(compiled(partial_node, k=np.array(1)), expected)


def test_gradient_of_product_needs_no_path_products() -> None:
    x = variable("x", (5,))
    (gradient,) = forward(structural.product(x), [x])
    names = {node.name for node in topological([gradient]) if isinstance(node, Apply)}
    assert names == {"cumulative_product"}


def test_symbolic_sizes() -> None:
    a = variable("a", ("n", "n"))
    for function in (
        linalg.inverse,
        linalg.determinant,
        linalg.log_determinant,
        spectra.expm,
        linalg.pseudo_inverse,
    ):
        (derivative,) = forward(function(a), [a])
        (bound,) = bind_sizes([derivative], {"n": 2})
        (expected,) = forward(function(variable("a", (2, 2))), [variable("a", (2, 2))])
        np.testing.assert_allclose(compiled(bound, a=definite(2, 2)), compiled(expected, a=definite(2, 2)))
    (bound,) = bind_sizes([normalization.layer_norm(variable("x", ("n",)))], {"n": 3})
    expected_norm = compiled(normalization.layer_norm(variable("x", (3,))), x=random(3))
    np.testing.assert_allclose(compiled(bound, x=random(3)), expected_norm)


SCALAR, VECTOR, TALL = variable("s", ()), variable("v", (3,)), variable("t", (3, 2))
SQUARE, POSITIONS = variable("q", (3, 3)), variable("k", (2,), kind="integer")
SYMBOLIC = variable("y", ("n", "n"))
FAILURES: list[tuple[Callable[[], Node], str]] = [
    (lambda: linalg.inverse(TALL), r"inverse needs square matrices, of shape \(..., n, n\), not \(3, 2\)"),
    (lambda: linalg.determinant(VECTOR), "determinant needs square matrices"),
    (lambda: linalg.cholesky(TALL), "square matrices"),
    (lambda: spectra.expm(TALL), "expm needs square matrices"),
    (lambda: linalg.matrix_power(TALL, 0), "matrix_power needs square matrices"),
    (lambda: linalg.pseudo_inverse(VECTOR), "pseudo_inverse needs matrices"),
    (lambda: linalg.solve(SQUARE, variable("b", (2,))), "right-hand side of shape"),
    (lambda: linalg.solve(SQUARE, variable("b", (3, 2, 2))), "broadcast the batch axes first"),
    (
        lambda: forward(linalg.cholesky(SYMBOLIC), [SYMBOLIC])[0],
        "derivative of cholesky needs concrete sizes",
    ),
    (lambda: forward(spectra.eigenvectors(SYMBOLIC), [SYMBOLIC])[0], "bind the size first"),
    (lambda: normalization.softmax(SCALAR), "softmax works on the last axis"),
    (lambda: normalization.logsumexp(variable("e", (2, 0))), "logsumexp works on the last axis"),
    (lambda: normalization.layer_norm(SCALAR), "layer_norm works on the last axis"),
    (lambda: structural.gather(SCALAR, POSITIONS), "gather needs an axis"),
    (lambda: structural.scatter(VECTOR, POSITIONS, 4), "scatter by an index of shape"),
    (lambda: structural.take_along(TALL, POSITIONS), "take_along from"),
    (lambda: structural.take_along(SYMBOLIC, structural.argmax(SYMBOLIC)), "take_along needs concrete sizes"),
    (lambda: structural.cumulative_sum(SCALAR), "needs an axis to run along"),
    (lambda: structural.product(SCALAR), "product needs an axis"),
    (lambda: structural.argmax(SCALAR), "argmax works on the last axis"),
    (lambda: structural.unfold(VECTOR, 1, 2), "unfold along axis 1 of a tensor with 1 axes"),
    (lambda: structural.unfold(VECTOR, 0, 4), "unfold of an axis of size 3 with window 4"),
    (lambda: structural.tril(VECTOR), "tril needs matrices"),
]


@pytest.mark.parametrize(("build", "message"), FAILURES, ids=[message for _, message in FAILURES])
def test_wrong_shapes_are_refused(build: Callable[[], Node], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        build()


def test_real_index_is_refused() -> None:
    with pytest.raises(ArgumentError, match="gather needs an integer index"):
        structural.gather(VECTOR, VECTOR)


def test_position_out_of_bounds_is_refused() -> None:
    with pytest.raises(IndexError, match="out of bounds for an axis of size 2"):
        kernel("scatter")((2,), np.ones(2), np.array([0, 2]))
