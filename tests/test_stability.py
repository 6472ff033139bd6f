"""Naively written functions have derivatives that are finite and right where their pieces overflow.

References are exact formulas in 60-digit decimal arithmetic, rounded once; no floating-point code is shared
with hesse. Warnings are errors in this test suite, so an overflow on the way fails a test even where the
result happens to be right.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.calculus import MODES

decimal.getcontext().prec = 60
TOLERANCE = 1e-12
MARGINS = (-1000.0, -40.0, -1.5, -1e-3, 0.0, 1e-3, 1.5, 40.0, 1000.0)
ONE = Decimal(1)


def assert_right(found: Any, reference: Any, what: str, magnitude: Any = None) -> None:
    """Each entry to 1e-12 relative to itself; what underflows in the reference may be lost.

    Where an entry is a sum, `magnitude` is the sum of the absolute values of its terms: rounding the terms
    alone makes an error of that size.
    """
    found, reference = np.asarray(found), np.asarray(reference)
    size = np.abs(reference) if magnitude is None else np.asarray(magnitude)
    assert found.shape == reference.shape == size.shape
    assert np.isfinite(found).all(), f"{what} is not finite: {found}"
    normal = size >= np.finfo(float).tiny
    error = np.abs(found - reference)[normal] / size[normal]
    assert error.max(initial=0.0) <= TOLERANCE, f"{what}: relative error {error.max():.1e}"
    assert np.abs(found[~normal]).max(initial=0.0) <= np.finfo(float).tiny


def sigmoid_derivative(z: float, order: int) -> Decimal:
    """The derivative of the logistic sigmoid s of an order, from s' = s(1-s), without cancellation in 1-s."""
    s, t = ONE / (ONE + Decimal(-z).exp()), ONE / (ONE + Decimal(z).exp())
    return {0: s, 1: s * t, 2: s * t * (t - s), 3: s * t * (ONE - 6 * s * t)}[order]


def diagonal(values: Sequence[Decimal], order: int) -> np.ndarray:
    """The derivative of order `order` of a sum of functions of one entry each."""
    result = np.zeros((len(values),) * order)
    index = np.arange(len(values))
    result[(index,) * order] = [float(value) for value in values]
    return result


# Functions of one number. Each row: the function, and its derivatives of orders 1, 2, 3 at z.

Reference = Callable[[float, int], Decimal]


def softplus_like(z: float, order: int) -> Decimal:
    return sigmoid_derivative(z, order - 1)


def mirrored(reference: Reference) -> Reference:
    return lambda z, order: (-ONE) ** order * reference(-z, order)


def scaled(reference: Reference, factor: Decimal) -> Reference:
    return lambda z, order: factor * reference(z, order)


SCALAR_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Reference]] = {
    "log(1 + exp(z))": (lambda z: np.log(1 + np.exp(z)), softplus_like),
    "log(exp(-z) + 1)": (lambda z: np.log(np.exp(-z) + 1), mirrored(softplus_like)),
    "log1p(exp(z))": (lambda z: np.log1p(np.exp(z)), softplus_like),
    "log1p(exp(-z))": (lambda z: np.log1p(np.exp(-z)), mirrored(softplus_like)),
    "log2(1 + exp(z))": (lambda z: np.log2(1 + np.exp(z)), scaled(softplus_like, ONE / Decimal(2).ln())),
    "logaddexp(0, z)": (lambda z: np.logaddexp(0.0, z), softplus_like),
    "log(exp(z) + exp(0 z))": (lambda z: np.log(np.exp(z) + np.exp(0.0 * z)), softplus_like),
    "log(2 + 2 exp(z))": (lambda z: np.log(2 + 2 * np.exp(z)), softplus_like),
    "1 / (1 + exp(-z))": (lambda z: 1 / (1 + np.exp(-z)), sigmoid_derivative),
    "1 / (1 + exp(z))": (lambda z: 1 / (1 + np.exp(z)), mirrored(sigmoid_derivative)),
    "(1 + exp(-z)) ** -1": (lambda z: (1 + np.exp(-z)) ** -1, sigmoid_derivative),
    "exp(z) / (1 + exp(z))": (lambda z: np.exp(z) / (1 + np.exp(z)), sigmoid_derivative),
    "exp(z) / (exp(z) + 1)": (lambda z: np.exp(z) / (np.exp(z) + 1), sigmoid_derivative),
    "exp(-z) / (1 + exp(-z))": (lambda z: np.exp(-z) / (1 + np.exp(-z)), mirrored(sigmoid_derivative)),
    "3 exp(z) / (1 + exp(z))": (
        lambda z: np.linspace(3, 3, z.size) * np.exp(z) / (1 + np.exp(z)),
        scaled(sigmoid_derivative, Decimal(3)),
    ),
    "1 - 1 / (1 + exp(z))": (lambda z: 1 - 1 / (1 + np.exp(z)), sigmoid_derivative),
    "log(1 / (1 + exp(-z)))": (lambda z: np.log(1 / (1 + np.exp(-z))), scaled(mirrored(softplus_like), -ONE)),
    "log(exp(z) / (1 + exp(z)))": (
        lambda z: np.log(np.exp(z) / (1 + np.exp(z))),
        scaled(mirrored(softplus_like), -ONE),
    ),
    "log(1 - 1 / (1 + exp(-z)))": (lambda z: np.log(1 - 1 / (1 + np.exp(-z))), scaled(softplus_like, -ONE)),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_naive_sigmoids_and_softplus(name: str, order: int) -> None:
    function, reference = SCALAR_FUNCTIONS[name]
    found = hesse.derivative(lambda z: np.sum(function(z)), order=order)(np.array(MARGINS))
    expected = diagonal([reference(z, order) for z in MARGINS], order)
    assert_right(found, expected, f"derivative {order} of {name}")


# Logistic regression, written as in the README.


def logistic_loss(w: Any, x: Any, y: Any) -> Any:
    return np.sum(np.log(np.exp(-y * (x @ w)) + 1))


def cross_entropy(w: Any, x: Any, y: Any) -> Any:
    p = 1 / (1 + np.exp(-(x @ w)))
    return -np.sum((1 + y) / 2 * np.log(p) + (1 - y) / 2 * np.log(1 - p))


LOGISTIC_DATA = np.array(
    [[1000.0, 0.0], [-1000.0, 0.0], [1.0, 2.0], [-3.0, 0.5], [0.25, 1000.0], [30.0, -4.0]]
)
LABELS = np.array([1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
WEIGHTS = np.array([1.0, 0.0625])


def logistic_reference(order: int) -> tuple[np.ndarray, np.ndarray]:
    """The derivative, and the sums of the absolute values of the contributions of the samples."""
    result = np.full((2,) * order, ONE - ONE)
    magnitude = result.copy()
    for row, y in zip(LOGISTIC_DATA, LABELS, strict=True):
        margin = sum(Decimal(y) * Decimal(a) * Decimal(b) for a, b in zip(row, WEIGHTS, strict=True))
        factor = (-ONE) ** order * sigmoid_derivative(float(-margin), order - 1) * Decimal(y) ** order
        for place in np.ndindex(*result.shape):
            term = factor
            for k in place:
                term *= Decimal(row[k])
            result[place] += term
            magnitude[place] += abs(term)
    return result.astype(float), magnitude.astype(float)


@pytest.mark.parametrize("mode", ["auto", *MODES])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("loss", [logistic_loss, cross_entropy])
def test_logistic_regression_at_large_margins(loss: Callable[..., Any], order: int, mode: str) -> None:
    found = hesse.derivative(loss, order=order, mode=mode)(WEIGHTS, LOGISTIC_DATA, LABELS)
    reference, magnitude = logistic_reference(order)
    assert_right(found, reference, f"derivative {order} in mode {mode}", magnitude)


def test_logistic_regression_with_all_margins_large() -> None:
    """One sample at a time: the weight s(1-s) is e^-|m| where it does not underflow, and zero below."""
    for margin in (-1000.0, -700.0, 700.0, 1000.0):
        found = hesse.hessian(logistic_loss)(np.array([margin]), np.array([[1.0]]), np.array([1.0]))
        assert_right(found, [[float(sigmoid_derivative(margin, 1))]], f"margin {margin}")


# Softmax and logsumexp.

LOGITS = np.array([1000.0, -1000.0, 999.0, 0.0, 1001.5])


def softmax(z: np.ndarray) -> list[Decimal]:
    exponentials = [Decimal(entry).exp() for entry in z]
    return [e / sum(exponentials) for e in exponentials]


def logsumexp_reference(z: np.ndarray, order: int) -> np.ndarray:
    """Derivatives of logsumexp: p; diag(p) - pp'; and the third cumulant of the same distribution."""
    p = softmax(z)
    size = range(len(p))

    def same(i: int, j: int) -> int:
        return int(i == j)

    def entry(i: int, j: int = 0, k: int = 0) -> Decimal:
        if order == 1:
            return p[i]
        if order == 2:
            return p[i] * (same(i, j) - p[j])
        pairs = same(i, j) * p[i] * p[k] + same(i, k) * p[i] * p[j] + same(j, k) * p[j] * p[i]
        return same(i, j) * same(j, k) * p[i] - pairs + 2 * p[i] * p[j] * p[k]

    result = np.zeros((len(p),) * order)
    for place in np.ndindex(*result.shape):
        assert all(k in size for k in place)
        result[place] = float(entry(*place))
    return result


LOGSUMEXP: dict[str, Callable[[Any], Any]] = {
    "log(sum(exp(z)))": lambda z: np.log(np.sum(np.exp(z))),
    "log(exp(z).sum())": lambda z: np.log(np.exp(z).sum()),
    "log(mean(exp(z)))": lambda z: np.log(np.mean(np.exp(z))),
    "log(exp(z) @ ones)": lambda z: np.log(np.exp(z) @ np.ones(z.shape)),
    "shifted by the maximum": lambda z: np.log(np.sum(np.exp(z - np.max(z)))) + np.max(z),
    "log of added exponentials": lambda z: np.log(
        np.exp(z[0]) + np.exp(z[1]) + np.exp(z[2]) + np.exp(z[3]) + np.exp(z[4])
    ),
    "logaddexp.reduce": lambda z: np.logaddexp(
        np.logaddexp(np.logaddexp(np.logaddexp(z[0], z[1]), z[2]), z[3]), z[4]
    ),
    "with constants, factors and a sum": lambda z: np.log(
        1 + np.exp(z[0]) + 3 * np.exp(z[1]) + np.sum(np.exp(z[2:])) + 0.5
    ),
    "hesse.logsumexp": hesse.logsumexp,
}


def one_hot(position: int, size: int) -> np.ndarray:
    return np.eye(size)[position]


CROSS_ENTROPY: dict[str, Callable[[Any, int], Any]] = {
    "-log(exp(z)[k] / sum(exp(z)))": lambda z, k: -np.log(np.exp(z)[k] / np.sum(np.exp(z))),
    "-log((exp(z) / sum(exp(z)))[k])": lambda z, k: -np.log((np.exp(z) / np.sum(np.exp(z)))[k]),
    "-log(exp(z) / sum(exp(z)))[k]": lambda z, k: -np.log(np.exp(z) / np.sum(np.exp(z)))[k],
    "-log(exp(z[k]) / sum(exp(z)))": lambda z, k: -np.log(np.exp(z[k]) / np.sum(np.exp(z))),
    "-log(exp(z[k])) + log(sum(exp(z)))": lambda z, k: -np.log(np.exp(z[k])) + np.log(np.sum(np.exp(z))),
    "log(sum(exp(z))) - z[k]": lambda z, k: np.log(np.sum(np.exp(z))) - z[k],
    "-sum(y * log(exp(z) / sum(exp(z))))": lambda z, k: (
        -np.sum(one_hot(k, 5) * np.log(np.exp(z) / np.sum(np.exp(z))))
    ),
    "-y @ log(exp(z) / sum(exp(z)))": lambda z, k: -one_hot(k, 5) @ np.log(np.exp(z) / np.sum(np.exp(z))),
    "-hesse.log_softmax(z)[k]": lambda z, k: -hesse.log_softmax(z)[k],
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", LOGSUMEXP)
def test_naive_logsumexp(name: str, order: int) -> None:
    found = hesse.derivative(LOGSUMEXP[name], order=order)(LOGITS)
    assert_right(found, logsumexp_reference(LOGITS, order), f"derivative {order} of {name}")


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("label", [1, 4], ids=["improbable", "probable"])
@pytest.mark.parametrize("name", CROSS_ENTROPY)
def test_naive_softmax_cross_entropy(name: str, label: int, order: int) -> None:
    """The improbable label has probability exp(-2001.5), which is zero in floating point."""
    found = hesse.derivative(lambda z: CROSS_ENTROPY[name](z, label), order=order)(LOGITS)
    expected = logsumexp_reference(LOGITS, order)
    if order == 1:
        p = softmax(LOGITS)
        expected = np.array([float(p[k] - int(k == label)) for k in range(len(p))])
    assert_right(found, expected, f"derivative {order} of {name}")


# The same over a batch of rows.

BATCH = np.array([LOGITS, [-1000.0, -1001.0, -1002.5, -1000.25, -999.0], [0.125, 0.25, 0.5, 0.75, -0.5]])
CLASSES = np.array([1, 2, 0])
ROWS = np.arange(3)


def probabilities(z: Any) -> Any:
    exponentials = np.exp(z)
    return exponentials / np.sum(exponentials, axis=1, keepdims=True)


def transposed_probabilities(z: Any) -> Any:
    exponentials = np.exp(z)
    return (exponentials.T / np.sum(exponentials, axis=1)).T


BATCHED: dict[str, Callable[[Any], Any]] = {
    "one-hot labels": lambda z: -np.sum(np.eye(5)[CLASSES] * np.log(probabilities(z))),
    "picked logarithms": lambda z: -np.sum(np.log(probabilities(z))[ROWS, CLASSES]),
    "logarithms of picked": lambda z: -np.sum(np.log(probabilities(z)[ROWS, CLASSES])),
    "transposed": lambda z: -np.sum(np.log(transposed_probabilities(z)) * np.eye(5)[CLASSES]),
    "log(sum(exp))": lambda z: np.sum(np.log(np.sum(np.exp(z), axis=1))) - np.sum(z[ROWS, CLASSES]),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", BATCHED)
def test_naive_softmax_cross_entropy_over_a_batch(name: str, order: int) -> None:
    found = hesse.derivative(BATCHED[name], order=order)(BATCH)
    expected = np.zeros((3, 5) * order)
    for row, (z, label) in enumerate(zip(BATCH, CLASSES, strict=True)):
        block = logsumexp_reference(z, order)
        if order == 1:
            block = np.array([float(p - int(k == label)) for k, p in enumerate(softmax(z))])
        expected[(row, slice(None)) * order] = block
    assert_right(found, expected, f"derivative {order} of {name}")


def test_softmax_regression_at_large_logits() -> None:
    """By the weights of a linear model: Σ x x' ⊗ (diag(p) - pp')."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.25]])
    w = np.array([[1000.0, -1000.0, 998.5], [3.0, 2.0, 1.0]])

    def loss(w: Any) -> Any:
        scores = np.exp(x @ w)
        return -np.sum(np.log(scores / np.sum(scores, axis=1, keepdims=True)) * np.eye(3))

    expected = sum(np.einsum("a,b,ij->aibj", row, row, logsumexp_reference(row @ w, 2)) for row in x)
    assert_right(hesse.hessian(loss)(w), expected, "the Hessian by the weights")


# Powers at zero.

POWERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "x**2": (lambda x: x**2, 2),
    "x**2.0": (lambda x: x**2.0, 2),
    "square(x)": (np.square, 2),
    "power(x, 2)": (lambda x: np.power(x, 2), 2),
    "x*x": (lambda x: x * x, 2),
    "x**3": (lambda x: x**3, 3),
    "x**1": (lambda x: x**1, 1),
    "x**0": (lambda x: x**0, 0),
    "x**5": (lambda x: x**5, 5),
}


@pytest.mark.parametrize("name", POWERS)
def test_integer_powers_at_zero_are_finite_at_every_order(name: str) -> None:
    function, degree = POWERS[name]
    points = np.array([0.0, -0.0, -2.0, 3.0])
    for order in range(1, 6):
        factor = np.prod([degree - k for k in range(order)])
        values = factor * points ** max(degree - order, 0)
        found = hesse.derivative(lambda x: np.sum(function(x)), order=order)(points)
        assert_right(found, diagonal([Decimal(v) for v in values], order), f"derivative {order} of {name}")


def test_array_of_exponents_at_zero() -> None:
    exponents = np.array([0.0, 1.0, 2.0, 3.0])
    for order, expected in ((1, [0, 1, 0, 0]), (2, [0, 0, 2, 0]), (3, [0, 0, 0, 6])):
        found = hesse.derivative(lambda x: np.sum(x**exponents), order=order)(np.zeros(4))
        assert_right(found, diagonal([Decimal(v) for v in expected], order), f"derivative {order}")


# Roots and norms away from zero, at extreme scales.


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1.0, 1e8, 1e100])
def test_square_root_at_extreme_scales(scale: float) -> None:
    for order, factor in ((1, 0.5), (2, -0.25), (3, 0.375)):
        found = hesse.derivative(lambda x: np.sum(np.sqrt(x)), order=order)(np.array([scale]))
        expected = Decimal(factor) * Decimal(scale).sqrt() / Decimal(scale) ** order
        assert_right(found, np.full((1,) * order, float(expected)), f"derivative {order} at {scale}")


NORMS: dict[str, Callable[[Any], Any]] = {
    "np.linalg.norm": np.linalg.norm,
    "sqrt(sum(x**2))": lambda x: np.sqrt(np.sum(x**2)),
    "sqrt(x @ x)": lambda x: np.sqrt(x @ x),
}


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("name", NORMS)
def test_norm_away_from_zero(name: str, scale: float) -> None:
    """The direction is (3, 4)/5: gradient u, Hessian (I - uu')/|x|."""
    x = scale * np.array([3.0, 4.0])
    unit = np.array([0.6, 0.8])
    assert_right(hesse.grad(NORMS[name])(x), unit, name)
    expected = np.array([[0.64, -0.48], [-0.48, 0.36]]) / (5 * scale)
    found = hesse.hessian(NORMS[name])(x)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize("name", NORMS)
def test_squared_norm_has_no_singularity_at_zero(name: str) -> None:
    found = hesse.hessian(lambda x: NORMS[name](x) ** 2)(np.zeros(3))
    assert_right(found, 2 * np.eye(3), f"the Hessian of {name} squared")
